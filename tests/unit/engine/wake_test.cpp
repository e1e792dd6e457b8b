// Waking by a connection, the idle policy, restarts with back-off, object changes.
#include "calls.hpp"

using namespace ate;
using namespace ate::test;
using engine::Side;

namespace {

[[nodiscard]] async::Task<Result<engine::Connected>> connect(World& w, std::string name) {
  co_return co_await w.engine->connect(World::key(name), 8080);
}

/// A world with housekeeping and a scope for calls beside the test.
template <class F>
void with_housekeeping(F body) {
  with_calls([&body](World& w, async::TaskScope& calls) -> async::Task<void> {
    calls.spawn("housekeeping", w.engine->housekeeping());
    co_await body(w, calls);
  });
}

[[nodiscard]] async::Task<void> ticks(int count) {
  for (int i = 0; i < count; ++i) {
    co_await async::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

TEST_CASE("connect: wakes SUSPENDED and PAUSED, many share one resume, RUNNING is dialled") {
  with_housekeeping([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await w.create("a");
    std::vector<Side<engine::Connected>> all;
    for (int i = 0; i < 20; ++i) {
      all.emplace_back(w.context, calls, "connect", connect(w, "a"));
    }
    for (Side<engine::Connected>& side : all) {
      const auto fd = co_await side.join();
      ok(fd);
    }
    REQUIRE(w.host.count("boot") == 1);
    REQUIRE(w.host.count("dial") == 20);
    co_await must(w.pause("a"));
    const auto paused = co_await connect(w, "a");
    ok(paused);
    REQUIRE(w.actor("a").status().restored_from() == "pause");
    const auto running = co_await connect(w, "a");
    ok(running);
    REQUIRE(w.host.count("restore") == 1);
    w.fail_next("dial", Errc::UpstreamFailed);
    co_await refused(connect(w, "a"), Errc::UpstreamFailed);
    co_await refused(connect(w, "nobody"), Errc::NotFound);
  });
}

TEST_CASE("connect: an actor that ended is 409 naming revert; a failed wake says why") {
  with_housekeeping([](World& w, async::TaskScope&) -> async::Task<void> {
    co_await w.create("a");
    w.fail_next("ready", Errc::NotReady);
    co_await refused(connect(w, "a"), Errc::NotReady);
    const auto woken = co_await connect(w, "a");
    ok(woken);
    w.host.end(w.process("a"), FakeRuntime::killed());
    co_await w.until([&w]() { return w.state("a") == "CRASHED"; });
    const auto crashed = co_await connect(w, "a");
    failed(crashed, Errc::StateConflict);
    REQUIRE(crashed.error().message().find("revert") != std::string::npos);
  });
}

TEST_CASE("connect: waits while it is being suspended, then wakes it") {
  with_housekeeping([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    w.process("a")->memory = 3;
    Side<VerbResult> suspend(w.context, calls, "suspend", w.suspend("a"));
    co_await w.until([&w]() { return w.state("a") == "SUSPENDING"; });
    const auto fd = co_await connect(w, "a");
    ok(fd);
    const auto suspended = co_await suspend.join();
    ok(suspended);
    REQUIRE(w.state("a") == "RUNNING");
    REQUIRE(w.process("a")->memory == 3);
  });
}

TEST_CASE("connect: parks until a worker is freed, at most the limit, bounded per actor and all") {
  with_housekeeping([](World& w, async::TaskScope& calls) -> async::Task<void> {
    w.templates.all_pools.clear();
    w.templates.add_pool("one", 1, "1Gi");
    w.options.parked_total = 3;
    w.options.parked_per_actor = 2;
    co_await calls.close();
    co_await w.restart();
    async::TaskScope more(w.context, nullptr);
    for (const char* name : {"a", "b", "c"}) {
      co_await w.create(name);
    }
    co_await must(w.resume("a"));
    Side<engine::Connected> b1(w.context, more, "b1", connect(w, "b"));
    Side<engine::Connected> b2(w.context, more, "b2", connect(w, "b"));
    co_await ticks(3);
    co_await refused(connect(w, "b"), Errc::TooManyRequests);
    Side<engine::Connected> c1(w.context, more, "c1", connect(w, "c"));
    co_await ticks(3);
    co_await refused(connect(w, "c"), Errc::Unavailable);
    co_await must(w.suspend("a"));
    const auto one = co_await b1.join();
    const auto two = co_await b2.join();
    ok(one);
    ok(two);
    REQUIRE(w.state("b") == "RUNNING");
    co_await must(w.remove("b", false));
    const auto three = co_await c1.join();
    ok(three);
    co_await more.close();
  });
}

TEST_CASE("connect: no worker within the limit is 503 with the numbers; a new pool ends the wait") {
  with_housekeeping([](World& w, async::TaskScope& calls) -> async::Task<void> {
    w.templates.all_pools.clear();
    w.templates.add_pool("one", 1, "1Gi");
    co_await w.create("a");
    co_await w.create("b");
    co_await must(w.resume("a"));
    Side<engine::Connected> waiting(w.context, calls, "b", connect(w, "b"));
    co_await ticks(3);
    w.templates.add_pool("two", 1, "1Gi");
    w.engine->on_object_change();
    const auto fd = co_await waiting.join();
    ok(fd);
    REQUIRE(w.actor("b").status().worker() == "two-0");
    w.options.park_limit = std::chrono::milliseconds(5);
    co_await calls.close();
    co_await w.restart();
    co_await must(w.boot("a"));
    co_await must(w.boot("b"));
    co_await w.create("c");
    const auto full = co_await connect(w, "c");
    failed(full, Errc::NoFreeWorker);
    REQUIRE(full.error().members()[0].first == "retryAfterSeconds");
  });
}

TEST_CASE("idle: an untouched actor is suspended; bytes, touches and holds keep it") {
  with_housekeeping([](World& w, async::TaskScope&) -> async::Task<void> {
    w.templates.templates.at("counter")->mutable_spec()->mutable_idle()->set_after("10s");
    co_await w.create("a");
    co_await must(w.resume("a"));
    const std::string uid = w.actor("a").metadata().uid();
    co_await ticks(5);
    for (int i = 0; i < 4; ++i) {
      w.clock.advance(std::chrono::seconds(6));
      if (i % 2 == 0) {
        w.process("a")->network_bytes += 100;
      } else {
        w.engine->touch(uid);
      }
      co_await ticks(5);
      REQUIRE(w.state("a") == "RUNNING");
    }
    std::shared_ptr<void> hold = w.engine->hold(uid);
    w.clock.advance(std::chrono::seconds(60));
    co_await ticks(5);
    REQUIRE(w.state("a") == "RUNNING");
    hold.reset();
    w.clock.advance(std::chrono::seconds(9));
    co_await ticks(5);
    REQUIRE(w.state("a") == "RUNNING");
    w.clock.advance(std::chrono::seconds(2));
    co_await w.until([&w]() { return w.state("a") == "SUSPENDED"; });
  });
}

TEST_CASE("idle: a tunnel that is silent keeps nothing awake") {
  with_housekeeping([](World& w, async::TaskScope&) -> async::Task<void> {
    w.templates.templates.at("counter")->mutable_spec()->mutable_idle()->set_after("10s");
    co_await w.create("a");
    co_await must(w.resume("a"));
    const std::shared_ptr<void> tunnel = w.engine->hold_tunnel(w.actor("a").metadata().uid());
    w.clock.advance(std::chrono::seconds(11));
    co_await w.until([&w]() { return w.state("a") == "SUSPENDED"; });
  });
}

TEST_CASE("idle: the actor's own policy wins; a failure backs off") {
  with_housekeeping([](World& w, async::TaskScope&) -> async::Task<void> {
    w.templates.templates.at("counter")->mutable_spec()->mutable_idle()->set_after("10s");
    co_await w.create_with("a", R"(,"idle":{"after":"60s","action":"pause"})");
    co_await must(w.resume("a"));
    co_await ticks(5);
    w.clock.advance(std::chrono::seconds(30));
    co_await ticks(5);
    REQUIRE(w.state("a") == "RUNNING");
    w.fail_next("checkpoint", Errc::RuntimeFailed);
    w.clock.advance(std::chrono::seconds(31));
    co_await w.until([&w]() { return w.host.count("unpause") == 1 && w.state("a") == "RUNNING"; });
    co_await ticks(10);
    REQUIRE(w.host.count("checkpoint") == 1);
    w.clock.advance(std::chrono::seconds(31));
    co_await w.until([&w]() { return w.state("a") == "PAUSED"; });
  });
}

TEST_CASE("restart: cold, after 1 s, then doubling; counted; a success of ten minutes resets") {
  with_housekeeping([](World& w, async::TaskScope&) -> async::Task<void> {
    co_await w.create_with("a", R"(,"restartPolicy":"OnFailure")");
    co_await must(w.resume("a"));
    co_await must(w.suspend("a"));
    co_await must(w.resume("a"));
    std::int64_t expected = 1000;
    for (int i = 1; i <= 3; ++i) {
      INFO(i);
      w.host.end(w.process("a"), FakeRuntime::exited(1));
      co_await w.until([&w]() { return w.state("a") == "EXITED"; });
      co_await ticks(3);
      w.clock.advance(std::chrono::milliseconds(expected - 1));
      co_await ticks(5);
      REQUIRE(w.state("a") == "EXITED");
      w.clock.advance(std::chrono::milliseconds(1));
      co_await w.until([&w]() { return w.state("a") == "RUNNING"; });
      REQUIRE(w.actor("a").status().restarts() == i);
      REQUIRE(w.actor("a").status().restored_from() == "boot");
      expected *= 2;
    }
    w.clock.advance(std::chrono::minutes(11));
    w.host.end(w.process("a"), FakeRuntime::killed());
    co_await w.until([&w]() { return w.state("a") == "CRASHED"; });
    w.clock.advance(std::chrono::milliseconds(1000));
    co_await w.until([&w]() { return w.state("a") == "RUNNING"; });
    w.host.end(w.process("a"), FakeRuntime::exited(0));  // OnFailure: that is no failure
    co_await w.until([&w]() { return w.state("a") == "EXITED"; });
    w.clock.advance(std::chrono::minutes(10));
    co_await ticks(5);
    REQUIRE(w.state("a") == "EXITED");
  });
}

TEST_CASE("restart: a clock that is set back keeps nobody waiting") {
  with_housekeeping([](World& w, async::TaskScope&) -> async::Task<void> {
    co_await w.create_with("a", R"(,"restartPolicy":"Always")");
    co_await must(w.resume("a"));
    w.host.end(w.process("a"), FakeRuntime::exited(1));
    co_await w.until([&w]() { return w.state("a") == "EXITED"; });
    co_await ticks(3);
    REQUIRE(w.state("a") == "EXITED");
    w.clock.set_wall_back(std::chrono::hours(5));
    co_await w.until([&w]() { return w.state("a") == "RUNNING"; });
  });
}

TEST_CASE("restart: one that fails waits longer; no free worker waits too; a patch ends it") {
  with_housekeeping([](World& w, async::TaskScope&) -> async::Task<void> {
    w.templates.all_pools.clear();
    w.templates.add_pool("one", 1, "1Gi");
    co_await w.create_with("a", R"(,"restartPolicy":"Always")");
    co_await must(w.resume("a"));
    w.host.end(w.process("a"), FakeRuntime::killed());
    co_await w.until([&w]() { return w.state("a") == "CRASHED"; });
    w.fail_next("boot", Errc::RuntimeFailed);
    w.clock.advance(std::chrono::seconds(1));
    co_await w.until([&w]() { return w.host.count("boot") == 2; });
    co_await w.until([&w]() { return w.state("a") == "CRASHED"; });
    w.clock.advance(std::chrono::seconds(1));
    co_await ticks(5);
    REQUIRE(w.host.count("boot") == 2);
    co_await w.create("b");
    co_await must(w.resume("b"));
    w.clock.advance(std::chrono::seconds(1));
    co_await ticks(5);
    REQUIRE(w.state("a") == "CRASHED");
    co_await must(w.remove("b", false));
    w.clock.advance(std::chrono::seconds(5));
    co_await w.until([&w]() { return w.state("a") == "RUNNING"; });
    w.host.end(w.process("a"), FakeRuntime::killed());
    co_await w.until([&w]() { return w.state("a") == "CRASHED"; });
    const auto patched = co_await w.engine->patch(
        World::key("a"), R"({"spec":{"restartPolicy":"Never"}})", std::nullopt, Caller{});
    ok(patched);
    w.clock.advance(std::chrono::minutes(10));
    co_await ticks(5);
    REQUIRE(w.state("a") == "CRASHED");
  });
}

TEST_CASE("events: a waiter is woken by the next one and by its limit") {
  with_housekeeping([](World& w, async::TaskScope& calls) -> async::Task<void> {
    const std::int64_t before = w.engine->last_event();
    const std::int64_t same = co_await w.engine->wait_event(before, std::chrono::milliseconds(1));
    REQUIRE(same == before);
    const auto wait = [](World& world, std::int64_t seen) -> async::Task<Result<std::int64_t>> {
      co_return co_await world.engine->wait_event(seen, std::chrono::seconds(5));
    };
    Side<std::int64_t> waiting(w.context, calls, "wait", wait(w, before));
    co_await ticks(2);
    co_await w.create("a");
    const auto newer = co_await waiting.join();
    ok(newer);
    REQUIRE(*newer > before);
  });
}

TEST_CASE("housekeeping: an unfinished delete is finished without being asked") {
  with_housekeeping([](World& w, async::TaskScope&) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    w.fail_next("destroy", Errc::RuntimeFailed);
    co_await refused(w.remove("a", false), Errc::RuntimeFailed);
    w.clock.advance(std::chrono::seconds(11));
    co_await w.until([&w]() { return w.store.actors.empty(); });
    REQUIRE(w.host.running() == 0);
  });
}
