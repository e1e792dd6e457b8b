#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ate/async/task.hpp"
#include "support/catch.hpp"
#include "support/run_coro.hpp"

using namespace ate;
using namespace ate::async;
using namespace std::chrono_literals;

namespace {

constexpr auto kLong = 1h;

void no_escape(const std::string& name, const std::string& what) {
  FAIL("escaped from " << name << ": " << what);
}

Task<void> count_after(Event& event, int& count) {
  co_await event.wait();
  ++count;
}

Task<void> take_and_note(Mutex& mutex, std::vector<int>& order, int number) {
  Mutex::Lock lock = co_await mutex.lock();
  order.push_back(number);
}

Task<void> hold_until(Mutex& mutex, Event& release, Event& held) {
  Mutex::Lock lock = co_await mutex.lock();
  held.set();
  co_await release.wait();
}

}  // namespace

TEST_CASE("event: set wakes everyone, wait returns at once while it is set") {
  int count = 0;
  auto body = [&](Context& context) -> Task<void> {
    Event event(context);
    TaskScope scope(context, no_escape);
    for (int i = 0; i < 1000; ++i) {
      scope.spawn("waiter", count_after(event, count));
    }
    co_await sleep_for(1ms);
    event.set();
    co_await event.wait();
    const bool drained = co_await scope.drain(kLong);
    REQUIRE(drained);
    const bool at_once = co_await event.wait_for(0ns);
    REQUIRE(at_once);
  };
  test::run_coro(body);
  REQUIRE(count == 1000);
}

TEST_CASE("event: those who waited at set are woken even when it is reset at once") {
  int count = 0;
  auto body = [&](Context& context) -> Task<void> {
    Event event(context);
    TaskScope scope(context, no_escape);
    scope.spawn("waiter", count_after(event, count));
    co_await sleep_for(1ms);
    event.set();
    event.reset();
    const bool drained = co_await scope.drain(kLong);
    REQUIRE(drained);
    REQUIRE_FALSE(event.is_set());
    const bool again = co_await event.wait_for(1ms);
    REQUIRE_FALSE(again);
  };
  test::run_coro(body);
  REQUIRE(count == 1);
}

TEST_CASE("event: a cancelled waiter leaves nothing behind") {
  int count = 0;
  auto body = [&](Context& context) -> Task<void> {
    Event event(context);
    TaskScope cancelled(context, no_escape);
    TaskScope kept(context, no_escape);
    for (int i = 0; i < 10; ++i) {
      cancelled.spawn("cancelled", count_after(event, count));
      kept.spawn("kept", count_after(event, count));
    }
    co_await sleep_for(1ms);
    co_await cancelled.close();
    event.set();
    const bool drained = co_await kept.drain(kLong);
    REQUIRE(drained);
  };
  test::run_coro(body);
  REQUIRE(count == 10);
}

TEST_CASE("event: destroyed under a waiter, the waiter sees a cancellation") {
  int count = 0;
  bool escaped = false;
  auto body = [&](Context& context) -> Task<void> {
    TaskScope scope(context, [&](const std::string&, const std::string&) { escaped = true; });
    auto event = std::make_unique<Event>(context);
    scope.spawn("waiter", count_after(*event, count));
    co_await sleep_for(1ms);
    event.reset();
    const bool drained = co_await scope.drain(kLong);
    REQUIRE(drained);
  };
  test::run_coro(body);
  REQUIRE(count == 0);
  REQUIRE(escaped);
}

TEST_CASE("mutex: first come, first served; unlocked when the last lock goes") {
  std::vector<int> order;
  auto body = [&](Context& context) -> Task<void> {
    Mutex mutex(context);
    TaskScope scope(context, no_escape);
    Mutex::Lock first = co_await mutex.lock();
    for (int i = 0; i < 5; ++i) {
      scope.spawn("taker", take_and_note(mutex, order, i));
    }
    co_await sleep_for(1ms);
    REQUIRE(order.empty());
    first.unlock();
    const bool drained = co_await scope.drain(kLong);
    REQUIRE(drained);
    REQUIRE_FALSE(mutex.locked());
  };
  test::run_coro(body);
  REQUIRE(order == std::vector<int>{0, 1, 2, 3, 4});
}

TEST_CASE(
    "mutex: a waiter cancelled before its turn, and at the moment of its turn, passes it on") {
  const bool at_grant = GENERATE(false, true);
  std::vector<int> order;
  auto body = [&](Context& context) -> Task<void> {
    Mutex mutex(context);
    Event release(context);
    Event held(context);
    TaskScope holder(context, no_escape);
    TaskScope cancelled(context, no_escape);
    TaskScope kept(context, no_escape);
    holder.spawn("holder", hold_until(mutex, release, held));
    co_await held.wait();
    cancelled.spawn("cancelled", take_and_note(mutex, order, 1));
    co_await sleep_for(1ms);
    kept.spawn("kept", take_and_note(mutex, order, 2));
    co_await sleep_for(1ms);
    if (at_grant) {
      // The holder lets go and the waiter is cancelled in the same turn of the loop.
      co_await holder.close();
    }
    co_await cancelled.close();
    release.set();
    co_await holder.close();
    const bool drained = co_await kept.drain(kLong);
    REQUIRE(drained);
    REQUIRE_FALSE(mutex.locked());
  };
  test::run_coro(body);
  REQUIRE(order.back() == 2);
}

TEST_CASE("mutex: a lock moves and is released once") {
  auto body = [](Context& context) -> Task<void> {
    Mutex mutex(context);
    Mutex other(context);
    Mutex::Lock a = co_await mutex.lock();
    Mutex::Lock b = co_await other.lock();
    a = std::move(b);
    REQUIRE_FALSE(mutex.locked());
    REQUIRE(other.locked());
    a.unlock();
    a.unlock();
    REQUIRE_FALSE(other.locked());
  };
  test::run_coro(body);
}

TEST_CASE("loop: destroyed with suspended waiters, nothing is touched after it is gone") {
  std::vector<int> order;
  boost::asio::thread_pool pool(1);
  auto loop = std::make_unique<boost::asio::io_context>(1);
  Context context{*loop, pool};
  auto mutex = std::make_unique<Mutex>(context);
  auto event = std::make_unique<Event>(context);
  auto held = std::make_unique<Event>(context);
  auto ignore = [](std::exception_ptr) {};
  boost::asio::co_spawn(*loop, hold_until(*mutex, *event, *held), ignore);
  boost::asio::co_spawn(*loop, take_and_note(*mutex, order, 1), ignore);
  while (loop->poll() != 0) {
  }
  REQUIRE(held->is_set());
  SECTION("primitives first") {
    // The holder's frame still owns the lock: the mutex must outlive it, the events need not.
    event.reset();
    loop.reset();
  }
  SECTION("loop first") {
    loop.reset();
  }
  REQUIRE(order.empty());
}
