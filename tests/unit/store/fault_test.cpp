// Disks that fail, fill up or lose power, at every call.
#include <sqlite3.h>

#include <map>
#include <random>

#include "fault_vfs.hpp"
#include "fixture.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;
using store::Batch;
using store::Store;

namespace {

Batch numbered(int number) {
  Batch batch;
  const std::string uid = "u" + std::to_string(number);
  auto record = actor(uid, uid, number);
  record->mutable_actor()->mutable_status()->set_message(std::string(9'000, 'x'));
  batch.put_actors = {record};
  batch.events = {event("actor.created", uid)};
  return batch;
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

TEST_CASE("store: a disk full at any write is DiskFull, and the next commit works") {
  FaultVfs vfs;
  const TempDir dir;
  const std::string path = dir.file("state.db");
  int refused = 0;
  int stored = 0;
  bool consistent = true;
  with_store(path, [&](Store& store) -> async::Task<void> {
    for (int n = 1; n <= 30; ++n) {
      vfs.fail_writes(n, SQLITE_FULL);
      const Status first = co_await store.commit(numbered(2 * n));
      const bool hit = vfs.was_hit();
      vfs.fail_writes(0, 0);
      consistent = consistent && first.has_value() == !hit &&
                   (first.has_value() || first.error().code() == Errc::DiskFull);
      refused += first.has_value() ? 0 : 1;
      const Status second = co_await store.commit(numbered(2 * n + 1));
      consistent = consistent && second.has_value();
      stored += (first.has_value() ? 1 : 0) + 1;
    }
  });
  CHECK(consistent);
  CHECK(refused > 5);
  const store::Loaded loaded = load(path);
  CHECK(loaded.actors.size() == static_cast<std::size_t>(stored));
  CHECK(loaded.last_event_id == stored);
}

TEST_CASE("store: after a failed sync nothing is acknowledged any more; reads go on") {
  FaultVfs vfs;
  const TempDir dir;
  const std::string path = dir.file("state.db");
  Status before;
  Status failed;
  Status after;
  bool readable = false;
  with_store(path, [&](Store& store) -> async::Task<void> {
    before = co_await store.commit(numbered(1));
    vfs.fail_next_sync();
    failed = co_await store.commit(numbered(2));
    after = co_await store.commit(numbered(3));
    auto events = co_await store.events(store::EventQuery{});
    readable = events.has_value() && events->size() == 1;
  });
  CHECK(before.has_value());
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code() == Errc::Internal);
  REQUIRE_FALSE(after.has_value());
  CHECK_THAT(after.error().message(), ate::test::Contains("restart ate-noded"));
  CHECK(readable);
  CHECK(load(path).actors.size() >= 1);
}

TEST_CASE("store: an I/O error of a write is Internal and final") {
  FaultVfs vfs;
  const TempDir dir;
  Status failed;
  Status after;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    vfs.fail_writes(1, SQLITE_IOERR_WRITE);
    failed = co_await store.commit(numbered(2));
    vfs.fail_writes(0, 0);
    after = co_await store.commit(numbered(3));
  });
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code() == Errc::Internal);
  CHECK_FALSE(after.has_value());
}

TEST_CASE("store: a foreign write lock is waited for") {
  const TempDir dir;
  const std::string path = dir.file("state.db");
  Status done;
  run_coro([&](async::Context& context) -> async::Task<void> {
    std::unique_ptr<Store> store = store::open_sqlite(context, path).value();
    sqlite3* shell = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &shell) == SQLITE_OK);
    REQUIRE(sqlite3_exec(shell, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
    async::TaskScope scope(context, [](const std::string&, const std::string&) {});
    auto commit = [&]() -> async::Task<void> { done = co_await store->commit(numbered(1)); };
    scope.spawn("commit", commit());
    const bool early = co_await scope.drain(std::chrono::milliseconds(50));
    CHECK_FALSE(early);
    sqlite3_exec(shell, "COMMIT", nullptr, nullptr, nullptr);
    sqlite3_close(shell);
    co_await scope.drain(std::chrono::seconds(8));
    co_await scope.close();
    co_await store->close();
  });
  CHECK(done.has_value());
}

namespace {

/// What a run wrote, and how many commits were acknowledged after how many calls.
struct Recording {
  std::string database;  // before the first call
  std::vector<FileCall> calls;
  std::vector<std::pair<std::size_t, int>> acknowledged;
};

Recording record_run(const std::string& path, int commits) {
  FaultVfs vfs;
  Recording run;
  with_store(path, [](Store&) -> async::Task<void> { co_return; });
  run.database = read_file(path);
  with_store(path, [&](Store& store) -> async::Task<void> {
    vfs.record(true);
    for (int i = 1; i <= commits; ++i) {
      const Status done = co_await store.commit(numbered(i));
      if (!done) {
        throw std::runtime_error(done.error().message());
      }
      run.acknowledged.emplace_back(vfs.calls().size(), i);
    }
    vfs.record(false);
    run.calls = vfs.calls();
  });
  return run;
}

void apply(const FileCall& call, std::size_t bytes, std::string& content) {
  const auto offset = static_cast<std::size_t>(call.offset);
  if (call.kind == FileCall::Kind::Truncate) {
    content.resize(offset);
    return;
  }
  content.resize(std::max(content.size(), offset + bytes));
  content.replace(offset, bytes, call.bytes, 0, bytes);
}

/// The two files after a power cut behind call `cut`: what was synced is there, of the rest any
/// part, one write torn at 512 bytes.
std::map<bool, std::string> after_cut(const Recording& run, std::size_t cut, std::mt19937& random) {
  std::map<bool, std::string> files{{false, run.database}, {true, {}}};
  for (const bool log : {false, true}) {
    std::size_t synced = 0;
    for (std::size_t i = 0; i < cut; ++i) {
      if (run.calls[i].kind == FileCall::Kind::Sync && run.calls[i].log == log) {
        synced = i;
      }
    }
    for (std::size_t i = 0; i < cut; ++i) {
      const FileCall& call = run.calls[i];
      const bool certain = i < synced;
      if (call.kind == FileCall::Kind::Sync || call.log != log || (!certain && random() % 2 == 0)) {
        continue;
      }
      const bool torn = !certain && call.bytes.size() > 512 && random() % 4 == 0;
      apply(call, torn ? 512 : call.bytes.size(), files[log]);
    }
  }
  return files;
}

}  // namespace

TEST_CASE("store: a power cut at any call loses no acknowledged commit") {
  const TempDir source;
  // Long enough for the log to be moved into the file and begun anew.
  const Recording run = record_run(source.file("state.db"), 240);
  std::size_t moved = 0;
  for (const FileCall& call : run.calls) {
    moved += !call.log && call.kind == FileCall::Kind::Write ? 1 : 0;
  }
  REQUIRE(moved > 0);
  std::mt19937 random(1);
  int lost = 0;
  int unopened = 0;
  for (int round = 0; round < 80; ++round) {
    const std::size_t cut = 1 + random() % run.calls.size();
    const std::map<bool, std::string> files = after_cut(run, cut, random);
    const TempDir dir;
    const std::string path = dir.file("state.db");
    write_file(path, files.at(false));
    write_file(path + "-wal", files.at(true));
    std::filesystem::permissions(path, std::filesystem::perms(0600));
    int acknowledged = 0;
    for (const auto& [calls, number] : run.acknowledged) {
      acknowledged = calls <= cut ? number : acknowledged;
    }
    try {
      const store::Loaded loaded = load(path);
      const bool whole = static_cast<std::int64_t>(loaded.actors.size()) == loaded.last_event_id;
      lost += loaded.last_event_id >= acknowledged && whole ? 0 : 1;
    } catch (const std::exception& error) {
      UNSCOPED_INFO(error.what());
      ++unopened;
    }
  }
  CHECK(lost == 0);
  CHECK(unopened == 0);
}
