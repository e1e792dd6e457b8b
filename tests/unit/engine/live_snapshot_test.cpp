// Snapshots of actors that go on running.
#include "calls.hpp"

using namespace ate;
using namespace ate::test;
using engine::Side;

namespace {

[[nodiscard]] async::Task<void> running_with(World& w, std::int64_t memory) {
  co_await w.create("a");
  co_await must(w.resume("a"));
  w.process("a")->memory = memory;
}

[[nodiscard]] async::Task<std::size_t> directories(World& w) {
  const auto listing = co_await w.snapshots->list();
  ok(listing);
  co_return listing->complete.size() + listing->partial.size();
}

[[nodiscard]] std::shared_ptr<const v1alpha1::Snapshot> row(World& w, const std::string& id) {
  const auto found = w.engine->snapshot(id);
  ok(found);
  return *found;
}

}  // namespace

TEST_CASE("live: the actor runs on, the snapshot is listed with its labels and outlives it") {
  with_world([](World& w) -> async::Task<void> {
    co_await running_with(w, 7);
    const auto before = w.actor("a");
    VerbOptions options;
    auto metadata = std::make_shared<v1alpha1::SnapshotMetadata>();
    (*metadata->mutable_labels())["stage"] = "warm";
    metadata->add_tags("v1");
    options.metadata = metadata;
    const auto made = co_await w.engine->make_snapshot(World::key("a"), options, Caller{"req", 0});
    ok(made);
    REQUIRE(w.state("a") == "RUNNING");
    REQUIRE_FALSE(w.process("a")->frozen);
    REQUIRE(w.actor("a").status().since() == before.status().since());
    REQUIRE_FALSE(w.actor("a").status().has_snapshot());
    REQUIRE(w.host.saved.at(made->snapshot) == 7);
    const auto listed = row(w, made->snapshot);
    REQUIRE(listed->kind() == "live");
    REQUIRE(listed->metadata().labels().at("stage") == "warm");
    REQUIRE(listed->metadata().tags(0) == "v1");
    REQUIRE(listed->used_by().empty());
    const auto operation = co_await w.engine->operation(made->operation);
    ok(operation);
    REQUIRE((*operation)->snapshot() == made->snapshot);
    REQUIRE((*operation)->verb() == "snapshot");
    REQUIRE((*operation)->state() == v1alpha1::Operation::DONE);
    co_await must(w.engine->verify_snapshot(made->snapshot));
    co_await must(w.remove("a", false));
    REQUIRE(w.engine->template_in_use("default", "counter", 3));
    co_await w.restart();
    REQUIRE(row(w, made->snapshot)->bytes() > 0);
    co_await must(w.engine->remove_snapshot(made->snapshot, Caller{}));
    REQUIRE_FALSE(w.engine->template_in_use("default", "counter", 3));
    for (int i = 0; i < 1000 && co_await directories(w) != 0; ++i) {
      co_await async::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(co_await directories(w) == 0);
  });
}

TEST_CASE("live: a failure anywhere leaves the actor running and nothing on disk") {
  with_world([](World& w) -> async::Task<void> {  // case T11
    co_await running_with(w, 7);
    w.fail_next("checkpoint", Errc::RuntimeFailed);
    co_await refused(w.snapshot("a"), Errc::RuntimeFailed);
    REQUIRE(w.state("a") == "RUNNING");
    REQUIRE_FALSE(w.process("a")->frozen);
    for (std::size_t nth = 1; nth <= 2; ++nth) {
      std::size_t seen = 0;
      w.store.before_commit = [&seen, nth](const store::Batch&) -> std::optional<Error> {
        return ++seen == nth ? std::optional(Error(Errc::DiskFull, "full")) : std::nullopt;
      };
      co_await refused(w.snapshot("a"), Errc::DiskFull);
      w.store.before_commit = nullptr;
      REQUIRE(w.state("a") == "RUNNING");
      REQUIRE_FALSE(w.process("a")->frozen);
    }
    for (int i = 0; i < 1000 && co_await directories(w) != 0; ++i) {
      co_await async::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(co_await directories(w) == 0);
    REQUIRE(w.engine->snapshots(std::nullopt).empty());
    co_await must(w.snapshot("a"));
  });
}

TEST_CASE("live: a guest that can't be unpaused is ended and told") {
  with_world([](World& w) -> async::Task<void> {
    co_await running_with(w, 7);
    w.runtime.script = [](const std::string& call, const std::string&) -> Status {
      return call == "unpause" ? fail(Errc::RuntimeFailed, "stuck") : Status();
    };
    co_await refused(w.snapshot("a"), Errc::RuntimeFailed);
    w.runtime.script = nullptr;
    REQUIRE(w.state("a") == "CRASHED");
    REQUIRE(w.host.running() == 0);
  });
}

TEST_CASE("live: other verbs wait for the checkpoint only, not for the disk") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await running_with(w, 7);
    Gate gate(w, "checkpoint");
    Side<VerbResult> first(w.context, calls, "first", w.snapshot("a"));
    co_await gate.reached.wait();
    REQUIRE(w.state("a") == "RUNNING");
    co_await refused(w.snapshot("a"), Errc::OperationInProgress);
    co_await refused(w.suspend("a"), Errc::OperationInProgress);
    co_await must(w.resume("a"));  // it is RUNNING
    Side<engine::Connected> client(w.context, calls, "client",
                                   w.engine->connect(World::key("a"), 80));
    gate.open.set();
    const auto dialled = co_await client.join();
    ok(dialled);
    const auto made = co_await first.join();
    ok(made);
    REQUIRE(w.state("a") == "RUNNING");
    co_await must(w.suspend("a"));
    REQUIRE(row(w, made->snapshot)->kind() == "live");
  });
}

TEST_CASE("live: a delete by force gives it up; only a running actor can be snapshotted") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await w.create("a");
    co_await refused(w.snapshot("a"), Errc::StateConflict);
    co_await must(w.resume("a"));
    Gate gate(w, "checkpoint");
    gate.until_killed = true;
    Side<VerbResult> first(w.context, calls, "first", w.snapshot("a"));
    co_await gate.reached.wait();
    co_await must(w.remove("a", true));
    const auto cut = co_await first.join();
    REQUIRE_FALSE(cut);
    REQUIRE(w.engine->snapshots(std::nullopt).empty());
    REQUIRE(w.host.running() == 0);
  });
}
