// kill -9 of a process that commits: what it acknowledged is there afterwards.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "ate/util/failpoint.hpp"
#include "ate/util/fd.hpp"
#include "fixture.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;
using store::Batch;
using store::Store;

namespace {

/// Commits one actor and one event at a time and tells each acknowledged event id.
[[noreturn]] void commit_forever(const std::string& path, int acknowledgements) {
  boost::asio::io_context loop(1);
  boost::asio::thread_pool pool(1);
  async::Context context{loop, pool};
  std::unique_ptr<Store> store = store::open_sqlite(context, path).value();
  const std::int64_t base = store->load().value().last_event_id;
  auto work = [](Store& target, std::int64_t number, int fd) -> async::Task<void> {
    for (;; ++number) {
      Batch batch;
      const std::string uid = "u" + std::to_string(number);
      batch.put_actors = {actor(uid, uid, number)};
      batch.events = {event("actor.created", uid)};
      const Status done = co_await target.commit(batch);
      const std::int64_t id = batch.events[0]->id();
      if (!done || ::write(fd, &id, sizeof id) != sizeof id) {
        ::_exit(3);
      }
    }
  };
  boost::asio::co_spawn(loop, work(*store, base + 1, acknowledgements),
                        [](std::exception_ptr) { ::_exit(4); });
  loop.run();
  ::_exit(5);
}

/// Reads ids until `enough` came or the other end is gone; the last one read.
std::int64_t read_ids(int fd, int enough) {
  std::int64_t last = 0;
  for (int i = 0; i < enough; ++i) {
    std::int64_t id = 0;
    if (::read(fd, &id, sizeof id) != sizeof id) {
      break;
    }
    last = id;
  }
  return last;
}

struct Victim {
  pid_t pid = -1;
  UniqueFd acknowledgements;
};

Victim start(const std::string& path, const char* failpoint) {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  const pid_t pid = ::fork();  // SAFETY: this process has one thread between tests
  if (pid == 0) {
    ::close(pipe[0]);
    if (failpoint != nullptr) {
      ::setenv("ATE_FAILPOINT", failpoint, 1);
    }
    try {
      commit_forever(path, pipe[1]);
    } catch (...) {
      ::_exit(6);
    }
  }
  REQUIRE(pid > 0);
  ::close(pipe[1]);
  return {pid, UniqueFd(std::move(pipe[0]))};
}

int finish(pid_t pid) {
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

store::Loaded load(const std::string& path) {
  store::Loaded loaded;
  with_store(path, [&](Store& store) -> async::Task<void> {
    loaded = store.load().value();
    co_return;
  });
  return loaded;
}

}  // namespace

TEST_CASE("store: kill -9 loses no acknowledged commit") {
  const TempDir dir;
  const std::string path = dir.file("state.db");
  std::int64_t acknowledged = 0;
  for (int round = 0; round < 8; ++round) {
    Victim victim = start(path, nullptr);
    acknowledged = read_ids(victim.acknowledgements.get(), 3 + round * 17);
    REQUIRE(acknowledged > 0);
    REQUIRE(::kill(victim.pid, SIGKILL) == 0);
    CHECK(finish(victim.pid) == SIGKILL);
    const std::int64_t rest = read_ids(victim.acknowledgements.get(), 1 << 20);
    acknowledged = std::max(acknowledged, rest);
    const store::Loaded loaded = load(path);
    CHECK(loaded.last_event_id >= acknowledged);
    CHECK(loaded.last_event_id <= acknowledged + 1);  // at most the one in flight
    // Row and event changed together.
    CHECK(static_cast<std::int64_t>(loaded.actors.size()) == loaded.last_event_id);
  }
}

TEST_CASE("store: a process that dies before its commit has changed nothing, after it everything") {
  if (!failpoints_enabled()) {
    WARN("skipped: built without failpoints");
    return;
  }
  const TempDir dir;
  const std::string path = dir.file("state.db");
  const auto [name, rows] = GENERATE(std::pair<const char*, std::size_t>{"store-commit-before", 0},
                                     std::pair<const char*, std::size_t>{"store-commit-after", 1});
  static_cast<void>(load(path));  // creation is not what is tested
  const std::string armed = std::string(name) + "=kill";
  Victim victim = start(path, armed.c_str());
  CHECK(finish(victim.pid) == SIGKILL);
  CHECK(read_ids(victim.acknowledgements.get(), 1) == 0);
  const store::Loaded loaded = load(path);
  CHECK(loaded.actors.size() == rows);
  CHECK(loaded.last_event_id == static_cast<std::int64_t>(rows));
}

TEST_CASE("store: an error at commit is reported and the next commit works") {
  if (!failpoints_enabled()) {
    WARN("skipped: built without failpoints");
    return;
  }
  const TempDir dir;
  ::setenv("ATE_FAILPOINT", "store-commit-before=error", 1);
  Status first;
  Status second;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    Batch batch;
    batch.put_actors = {actor("u1", "one", 1)};
    first = co_await store.commit(batch);
    second = co_await store.commit(batch);
  });
  ::unsetenv("ATE_FAILPOINT");
  CHECK_FALSE(first.has_value());
  CHECK(second.has_value());
  CHECK(load(dir.file("state.db")).actors.size() == 1);
}
