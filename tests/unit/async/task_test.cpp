#include "ate/async/task.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "ate/util/fd.hpp"
#include "support/catch.hpp"
#include "support/run_coro.hpp"

using namespace ate;
using namespace ate::async;
using namespace std::chrono_literals;

namespace {

constexpr auto kSoon = 20ms;
constexpr auto kLong = 1h;

Task<void> finish_at_once() {
  co_return;
}

Task<void> wait_and_flag(Event& event, bool& ended) {
  struct Flag {
    bool& ended;

    explicit Flag(bool& e) : ended(e) {}

    Flag(const Flag&) = delete;
    Flag& operator=(const Flag&) = delete;
    Flag(Flag&&) = delete;
    Flag& operator=(Flag&&) = delete;

    ~Flag() { ended = true; }
  };

  Flag flag(ended);
  co_await event.wait();
}

Task<void> throw_after(std::chrono::milliseconds delay) {
  co_await sleep_for(delay);
  throw std::runtime_error("broken invariant");
}

Task<Result<std::string>> answer_after(std::chrono::milliseconds delay) {
  co_await sleep_for(delay);
  co_return std::string("answer");
}

Task<void> run_within(bool& finished, std::chrono::nanoseconds limit, Task<void> task) {
  finished = co_await finish_within(limit, std::move(task));
}

}  // namespace

TEST_CASE("finish_within: true when the task finishes, also without suspending") {
  auto body = [](Context&) -> Task<bool> {
    const bool at_once = co_await finish_within(kLong, finish_at_once());
    REQUIRE(at_once);
    const bool later = co_await finish_within(kLong, sleep_for(1ms));
    co_return later;
  };
  REQUIRE(test::run_coro(body));
}

TEST_CASE("finish_within: false when the limit passes, and the task has ended by then") {
  bool ended = false;
  auto body = [&](Context& context) -> Task<bool> {
    Event never(context);
    const bool finished = co_await finish_within(kSoon, wait_and_flag(never, ended));
    REQUIRE(ended);
    co_return finished;
  };
  REQUIRE_FALSE(test::run_coro(body));
}

TEST_CASE("finish_within: what the task throws comes out at once, not after the limit") {
  auto body = [](Context&) -> Task<bool> {
    const bool finished = co_await finish_within(kLong, throw_after(1ms));
    co_return finished;
  };
  REQUIRE_THROWS_AS(test::run_coro(body), std::runtime_error);
}

TEST_CASE("finish_within: the caller's cancellation ends the task and is passed on") {
  bool ended = false;
  bool finished = true;
  bool escaped = false;
  auto body = [&](Context& context) -> Task<void> {
    Event never(context);
    TaskScope scope(context, [&](const std::string&, const std::string&) { escaped = true; });
    finished = false;
    scope.spawn("outer", run_within(finished, kLong, wait_and_flag(never, ended)));
    co_await sleep_for(1ms);
    co_await scope.close();
  };
  test::run_coro(body);
  REQUIRE(ended);
  REQUIRE_FALSE(finished);
  REQUIRE_FALSE(escaped);
}

TEST_CASE("finish_within: a thousand nested deadlines end in both ways") {
  int finished_count = 0;
  auto body = [&](Context& context) -> Task<void> {
    Event never(context);
    for (int i = 0; i < 1000; ++i) {
      bool ended = false;
      bool inner = false;
      const auto limit = std::chrono::nanoseconds(i % 2 == 0 ? 0 : 3'600'000'000'000);
      Task<void> task = run_within(inner, 10us, wait_and_flag(never, ended));
      const bool finished = co_await finish_within(limit, std::move(task));
      REQUIRE(ended);
      finished_count += finished ? 1 : 0;
    }
  };
  test::run_coro(body);
  REQUIRE(finished_count >= 500);
}

TEST_CASE("with_deadline: the value in time, DeadlineExceeded naming the step otherwise") {
  auto body = [](Context&) -> Task<void> {
    const Result<std::string> value = co_await with_deadline<std::string>(
        kLong, std::string("asking"), answer_after(std::chrono::milliseconds(1)));
    REQUIRE(value.value() == "answer");
    const Result<std::string> late = co_await with_deadline<std::string>(
        5ms, std::string("asking"), answer_after(std::chrono::milliseconds(3'600'000)));
    REQUIRE_FALSE(late);
    REQUIRE(late.error().code() == Errc::DeadlineExceeded);
    REQUIRE(late.error().message() == "asking: deadline of 5 ms passed");
  };
  test::run_coro(body);
}

TEST_CASE("run_blocking: runs off the loop's thread and resumes on it with the value") {
  const std::thread::id here = std::this_thread::get_id();
  auto body = [&](Context& context) -> Task<int> {
    auto work = [here]() { return std::this_thread::get_id() != here ? 7 : 0; };
    const int value = co_await run_blocking(context, work);
    REQUIRE(std::this_thread::get_id() == here);
    co_return value;
  };
  REQUIRE(test::run_coro(body) == 7);
}

TEST_CASE("run_blocking: what the job throws comes out in the coroutine") {
  auto body = [](Context& context) -> Task<int> {
    auto work = []() -> int { throw std::runtime_error("job"); };
    const int value = co_await run_blocking(context, work);
    co_return value;
  };
  REQUIRE_THROWS_AS(test::run_coro(body), std::runtime_error);
}

TEST_CASE("run_blocking: a cancelled caller still waits for the job's end") {
  std::atomic<bool> job_done = false;
  auto run_job = [&](Context& context, int fd) -> Task<void> {
    auto work = [&job_done, fd]() {
      std::uint64_t value = 0;
      const bool read_ok = ::read(fd, &value, sizeof value) == sizeof value;
      job_done = read_ok;
      return read_ok;
    };
    const bool ok = co_await run_blocking(context, work);
    static_cast<void>(ok);
  };
  auto let_go = [](int fd) -> Task<void> {
    co_await sleep_for(5ms);
    const std::uint64_t one = 1;
    static_cast<void>(::write(fd, &one, sizeof one));
  };
  auto body = [&](Context& context) -> Task<void> {
    UniqueFd event(::eventfd(0, EFD_CLOEXEC));
    TaskScope scope(context, [](const std::string&, const std::string&) {});
    TaskScope other(context, [](const std::string&, const std::string&) {});
    scope.spawn("job", run_job(context, event.get()));
    co_await sleep_for(1ms);
    other.spawn("let go", let_go(event.get()));
    co_await scope.close();
    REQUIRE(job_done);
    const bool drained = co_await other.drain(kLong);
    REQUIRE(drained);
  };
  test::run_coro(body);
}

TEST_CASE("wait_readable: several on one eventfd, the number stays ours") {
  auto waiter = [](int fd, int& count) -> Task<void> {
    const Status status = co_await wait_readable(fd);
    count += status.has_value() ? 1 : 0;
  };
  int count = 0;
  auto body = [&](Context& context) -> Task<void> {
    UniqueFd event(::eventfd(0, EFD_CLOEXEC));
    TaskScope scope(context, [](const std::string&, const std::string&) {});
    scope.spawn("a", waiter(event.get(), count));
    scope.spawn("b", waiter(event.get(), count));
    co_await sleep_for(1ms);
    REQUIRE(count == 0);
    const std::uint64_t one = 1;
    REQUIRE(::write(event.get(), &one, sizeof one) == sizeof one);
    const bool drained = co_await scope.drain(kLong);
    REQUIRE(drained);
    const Status again = co_await wait_readable(event.get());
    REQUIRE(again);
  };
  test::run_coro(body);
  REQUIRE(count == 2);
}

TEST_CASE(
    "wait_readable: a closed descriptor is an error, a cancelled wait closes nothing of ours") {
  auto waiter = [](int fd) -> Task<void> {
    const Status status = co_await wait_readable(fd);
    static_cast<void>(status);
  };
  auto body = [&](Context& context) -> Task<void> {
    const Status bad = co_await wait_readable(-1);
    REQUIRE_FALSE(bad);
    UniqueFd event(::eventfd(0, EFD_CLOEXEC));
    TaskScope scope(context, [](const std::string&, const std::string& what) { FAIL(what); });
    scope.spawn("waiter", waiter(event.get()));
    co_await sleep_for(1ms);
    co_await scope.close();
    const std::uint64_t one = 1;
    REQUIRE(::write(event.get(), &one, sizeof one) == sizeof one);
  };
  test::run_coro(body);
}

TEST_CASE("scope: close cancels and waits, refuses afterwards") {
  bool ended = false;
  auto body = [&](Context& context) -> Task<void> {
    Event never(context);
    TaskScope scope(context, [](const std::string&, const std::string& what) { FAIL(what); });
    REQUIRE(scope.spawn("a", wait_and_flag(never, ended)));
    REQUIRE(scope.running() == 1);
    co_await sleep_for(1ms);
    co_await scope.close();
    REQUIRE(scope.running() == 0);
    REQUIRE(ended);
    REQUIRE_FALSE(scope.spawn("b", wait_and_flag(never, ended)));
    co_await scope.close();
  };
  test::run_coro(body);
}

TEST_CASE("scope: a task that is cancelled before its first step never starts") {
  bool ended = false;
  auto body = [&](Context& context) -> Task<void> {
    Event never(context);
    TaskScope scope(context, [](const std::string&, const std::string& what) { FAIL(what); });
    scope.spawn("a", wait_and_flag(never, ended));
    co_await scope.close();
    REQUIRE(scope.running() == 0);
  };
  test::run_coro(body);
  REQUIRE_FALSE(ended);
}

TEST_CASE("scope: drain waits without cancelling and says when the limit passed") {
  bool ended = false;
  auto body = [&](Context& context) -> Task<void> {
    Event event(context);
    TaskScope scope(context, [](const std::string&, const std::string& what) { FAIL(what); });
    scope.spawn("a", wait_and_flag(event, ended));
    const bool early = co_await scope.drain(kSoon);
    REQUIRE_FALSE(early);
    REQUIRE_FALSE(ended);
    event.set();
    const bool drained = co_await scope.drain(kLong);
    REQUIRE(drained);
    REQUIRE(ended);
  };
  test::run_coro(body);
}

TEST_CASE("scope: what escapes is handed over with the task's name") {
  std::string seen;
  auto body = [&](Context& context) -> Task<void> {
    TaskScope scope(context, [&](const std::string& name, const std::string& what) {
      seen = name + ": " + what;
    });
    scope.spawn("broken", throw_after(std::chrono::milliseconds(0)));
    const bool drained = co_await scope.drain(kLong);
    REQUIRE(drained);
  };
  test::run_coro(body);
  REQUIRE(seen == "broken: broken invariant");
}
