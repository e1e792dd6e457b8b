// Actors made from the snapshot of another one.
#include "calls.hpp"

using namespace ate;
using namespace ate::test;
using engine::Side;

namespace {

[[nodiscard]] async::Task<Result<std::shared_ptr<const v1alpha1::Actor>>> fork(
    World& w, std::string name, std::string snapshot) {
  co_return co_await w.engine->create(
      "default",
      R"({"metadata":{"name":")" + name + R"("},"spec":{"fromSnapshot":")" + snapshot + R"("}})",
      Caller{"req", 0});
}

[[nodiscard]] async::Task<std::string> suspended_with(World& w, std::string name,
                                                      std::int64_t memory) {
  co_await must(w.resume(name));
  w.process(name)->memory = memory;
  co_await must(w.suspend(name));
  co_return w.actor(name).status().snapshot();
}

[[nodiscard]] std::vector<std::string> users(World& w, const std::string& id) {
  const auto found = w.engine->snapshot(id);
  ok(found);
  return {(*found)->used_by().begin(), (*found)->used_by().end()};
}

}  // namespace

TEST_CASE("fork: begins with the memory of its origin and goes on by itself") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    w.process("a")->memory = 7;
    const auto made = co_await w.snapshot("a");
    ok(made);
    w.process("a")->memory = 8;
    co_await must(fork(w, "f1", made->snapshot));
    co_await must(fork(w, "f2", made->snapshot));
    REQUIRE(w.actor("f1").spec().template_().generation() == 3);
    REQUIRE(w.actor("f1").metadata().uid() != w.actor("f2").metadata().uid());
    REQUIRE(users(w, made->snapshot).size() == 2);
    co_await must(w.resume("f1"));
    co_await must(w.resume("f2"));
    REQUIRE(w.actor("f1").status().restored_from() == "fork");
    REQUIRE(w.process("f1")->memory == 7);
    REQUIRE(w.process("f2")->memory == 7);
    REQUIRE(w.process("a")->memory == 8);
    w.process("f1")->memory = 9;
    co_await must(w.revert("f1"));
    REQUIRE(w.actor("f1").status().reason() == "new");
    co_await must(w.resume("f1"));
    REQUIRE(w.process("f1")->memory == 7);
    co_await must(w.suspend("f1"));
    co_await must(w.remove("f2", false));
    REQUIRE(users(w, made->snapshot).empty());
    REQUIRE(w.store.snapshots.contains(made->snapshot));  // live: nobody has to name it
  });
}

TEST_CASE("fork: its origin stays until it has a commit of its own, then goes with the last") {
  with_world([](World& w) -> async::Task<void> {  // case T20
    co_await w.create("a");
    const std::string first = co_await suspended_with(w, "a", 7);
    co_await must(fork(w, "f", first));
    const std::string second = co_await suspended_with(w, "a", 8);
    REQUIRE(first != second);
    REQUIRE(users(w, first) == std::vector<std::string>{"default/f"});
    co_await must(w.remove("a", false));
    REQUIRE_FALSE(w.store.snapshots.contains(second));
    co_await refused(w.engine->remove_snapshot(first, Caller{}), Errc::InUse);
    co_await w.restart();
    co_await must(w.resume("f"));
    REQUIRE(w.process("f")->memory == 7);
    co_await must(w.pause("f"));
    REQUIRE(w.store.snapshots.contains(first));
    co_await must(w.suspend("f"));
    REQUIRE_FALSE(w.store.snapshots.contains(first));
    REQUIRE(w.store.snapshots.size() == 1);
  });
}

TEST_CASE("fork: neither of a snapshot that is going, nor does one go that is being forked") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await w.create("a");
    const std::string first = co_await suspended_with(w, "a", 7);
    async::Event open(w.context);
    w.store.gate = [&open]() -> async::Task<void> { co_await open.wait(); };
    Side<std::shared_ptr<const v1alpha1::Actor>> forking(w.context, calls, "fork",
                                                         fork(w, "f", first));
    co_await async::sleep_for(std::chrono::milliseconds(1));
    co_await refused(w.engine->remove_snapshot(first, Caller{}), Errc::InUse);
    open.set();
    const auto made = co_await forking.join();
    ok(made);
    w.store.gate = nullptr;
    co_await must(w.remove("f", false));

    // The owner's next suspend has its commit in flight that drops the old snapshot.
    co_await must(w.resume("a"));
    async::Event again(w.context);
    std::size_t commits = 0;
    w.store.gate = [&again, &commits]() -> async::Task<void> {
      if (++commits == 2) {
        co_await again.wait();
      }
    };
    Side<VerbResult> suspending(w.context, calls, "suspend", w.suspend("a"));
    co_await w.until([&commits]() { return commits == 2; });
    co_await refused(fork(w, "g", first), Errc::InvalidValue);
    again.set();
    const auto suspended = co_await suspending.join();
    ok(suspended);
    w.store.gate = nullptr;
    REQUIRE_FALSE(w.store.snapshots.contains(first));
  });
}

TEST_CASE("fork: two users that leave at once do not leave it behind") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await w.create("a");
    const std::string first = co_await suspended_with(w, "a", 7);
    co_await must(fork(w, "f", first));
    co_await must(fork(w, "g", first));
    async::Event open(w.context);
    w.store.gate = [&open]() -> async::Task<void> { co_await open.wait(); };
    Side<VerbResult> one(w.context, calls, "one", w.remove("f", false));
    Side<VerbResult> two(w.context, calls, "two", w.remove("g", false));
    Side<VerbResult> three(w.context, calls, "three", w.remove("a", false));
    open.set();
    for (Side<VerbResult>* side : {&one, &two, &three}) {
      const auto removed = co_await side->join();
      ok(removed);
    }
    w.store.gate = nullptr;
    async::TaskScope housekeeping(w.context, nullptr);
    housekeeping.spawn("housekeeping", w.engine->housekeeping());
    co_await w.until([&w]() {
      w.clock.advance(std::chrono::seconds(11));
      return w.store.snapshots.empty();
    });
    co_await housekeeping.close();
  });
}

TEST_CASE("fork: of another atespace, template or generation, or of nothing") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    const std::string first = co_await suspended_with(w, "a", 7);
    for (const std::string& id : {std::string("x"), std::string("01aaaaaaaaaaaaaaaaaaaaaaaa")}) {
      co_await refused(fork(w, "f", id), Errc::InvalidValue);
    }
    co_await refused(
        w.engine->create("tenant",
                         R"({"metadata":{"name":"f"},"spec":{"fromSnapshot":")" + first + R"("}})",
                         Caller{}),
        Errc::InvalidValue);
    for (const char* reference : {R"("name":"other")", R"("generation":2)"}) {
      co_await refused(
          w.engine->create("default",
                           R"({"metadata":{"name":"f"},"spec":{"template":{)" +
                               std::string(reference) + R"(},"fromSnapshot":")" + first + R"("}})",
                           Caller{}),
          Errc::InvalidValue);
    }
  });
}
