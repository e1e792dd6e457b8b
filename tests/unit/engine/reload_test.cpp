// The daemon is cut off at some point and starts again: core/reconcile in the engine.
#include "engine/side.hpp"
#include "world.hpp"

using namespace ate;
using namespace ate::test;
using engine::Side;

namespace {

/// Holds one call of the runtime for ever: the daemon is cut off there.
void hold(World& w, const std::string& call, async::Event& reached, async::Event& never) {
  w.runtime.gate = [call, &reached, &never](std::string entered, std::string) -> async::Task<void> {
    const auto wait = [](async::Event& reached_, async::Event& never_) -> async::Task<void> {
      reached_.set();
      co_await never_.wait();
    };
    const auto pass = []() -> async::Task<void> { co_return; };
    return entered == call ? wait(reached, never) : pass();
  };
}

[[nodiscard]] async::Task<void> cut_off(World& w, async::Task<Result<VerbResult>> verb,
                                        std::string call) {
  async::TaskScope calls(w.context, nullptr);
  async::Event reached(w.context);
  async::Event never(w.context);
  hold(w, call, reached, never);
  Side<VerbResult> side(w.context, calls, "verb", std::move(verb));
  co_await reached.wait();
  co_await calls.close();  // the client goes away: changes nothing
  w.runtime.gate = nullptr;
  co_await w.restart();
}

}  // namespace

TEST_CASE("reload: at rest nothing changes; RUNNING is ended and CRASHED(daemon-restart)") {
  with_world([](World& w) -> async::Task<void> {
    for (const char* name : {"suspended", "paused", "running"}) {
      co_await w.create(name);
      co_await must(w.resume(name));
    }
    co_await must(w.suspend("suspended"));
    co_await must(w.pause("paused"));
    const std::string version = w.actor("suspended").metadata().resource_version();
    co_await w.stop();
    REQUIRE(w.host.running() == 1);  // stop leaves running actors alone
    REQUIRE(w.store.actors.size() == 3);
    co_await w.start();
    REQUIRE(w.host.running() == 0);
    REQUIRE(w.host.netns.empty());
    REQUIRE(w.state("suspended") == "SUSPENDED");
    REQUIRE(w.actor("suspended").metadata().resource_version() == version);
    REQUIRE(w.state("paused") == "PAUSED");
    REQUIRE(w.state("running") == "CRASHED");
    REQUIRE(w.actor("running").status().reason() == "daemon-restart");
    REQUIRE_FALSE(w.actor("running").status().has_worker());
    co_await must(w.resume("suspended"));
    co_await must(w.resume("paused"));
    co_await must(w.revert("running"));
    co_await must(w.resume("running"));
  });
}

TEST_CASE("reload: after a reboot of the host RUNNING is CRASHED(host-reboot), not restarted") {
  with_world([](World& w) -> async::Task<void> {  // case T50
    co_await w.create_with("a", R"(,"restartPolicy":"Always")");
    co_await must(w.resume("a"));
    co_await w.stop();
    w.host.end(w.host.processes[0], FakeRuntime::killed());
    w.options.boot_id = "boot-2";
    co_await w.start();
    REQUIRE(w.actor("a").status().reason() == "host-reboot");
    REQUIRE(w.stored("a").restart_not_before_ms() == 0);
  });
}

TEST_CASE("reload: restartPolicy answers CRASHED(daemon-restart)") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create_with("a", R"(,"restartPolicy":"OnFailure")");
    co_await must(w.resume("a"));
    co_await w.restart();
    REQUIRE(w.state("a") == "CRASHED");
    async::TaskScope calls(w.context, nullptr);
    calls.spawn("housekeeping", w.engine->housekeeping());
    w.clock.advance(std::chrono::seconds(1));
    co_await w.until([&w]() { return w.state("a") == "RUNNING"; });
    co_await calls.close();
  });
}

TEST_CASE("reload: a resume that was cut off goes back, its sandbox is ended, it works again") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    w.process("a")->memory = 7;
    co_await must(w.suspend("a"));
    for (const char* call : {"restore", "ready"}) {
      INFO(call);
      co_await cut_off(w, w.resume("a"), call);
      REQUIRE(w.host.running() == 0);
      REQUIRE(w.host.netns.empty());
      REQUIRE(w.state("a") == "SUSPENDED");
      const std::string operation = w.actor("a").status().last_operation();
      const auto row = co_await w.engine->operation(operation);
      ok(row);
      REQUIRE((*row)->state() == v1alpha1::Operation::FAILED);
      REQUIRE((*row)->error_json().find("daemon-restart") != std::string::npos);
    }
    co_await must(w.resume("a"));
    REQUIRE(w.process("a")->memory == 7);
  });
}

TEST_CASE("reload: a suspend that was cut off is CRASHED, its snapshot gone, the old one stays") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    w.process("a")->memory = 7;
    co_await must(w.suspend("a"));
    const std::string old = w.actor("a").status().snapshot();
    co_await must(w.resume("a"));
    w.process("a")->memory = 8;
    co_await cut_off(w, w.suspend("a"), "checkpoint");
    REQUIRE(w.state("a") == "CRASHED");
    REQUIRE(w.actor("a").status().reason() == "daemon-restart");
    REQUIRE(w.actor("a").status().snapshot() == old);
    REQUIRE(w.host.running() == 0);
    bool clean = false;
    for (int i = 0; i < 2000 && !clean; ++i) {
      const auto listing = co_await w.snapshots->list();
      ok(listing);
      clean = listing->partial.empty() && listing->complete == std::vector<std::string>{old};
      co_await async::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(clean);
    co_await must(w.revert("a"));
    co_await must(w.resume("a"));
    REQUIRE(w.process("a")->memory == 7);
  });
}

TEST_CASE("reload: a suspend cut off after its commit is done; what is left of it is ended") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    w.process("a")->memory = 7;
    co_await cut_off(w, w.suspend("a"), "destroy");
    REQUIRE(w.state("a") == "SUSPENDED");
    REQUIRE(w.host.running() == 0);
    co_await must(w.resume("a"));
    REQUIRE(w.process("a")->memory == 7);
  });
}

TEST_CASE("reload: a revert that was cut off is finished, a delete goes on") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    co_await cut_off(w, w.revert("a"), "destroy");
    REQUIRE(w.state("a") == "SUSPENDED");
    const auto row = co_await w.engine->operation(w.actor("a").status().last_operation());
    ok(row);
    REQUIRE((*row)->state() == v1alpha1::Operation::DONE);
    co_await must(w.resume("a"));
    co_await cut_off(w, w.remove("a", false), "destroy");
    co_await w.until([&w]() { return w.store.actors.empty(); });
    REQUIRE(w.host.running() == 0);
    REQUIRE_FALSE(w.engine->get(World::key("a")));
  });
}

TEST_CASE("reload: verbs before the gate opens are 503, reads are served") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    co_await w.stop();
    w.engine = std::make_unique<engine::Engine>(
        w.context, w.store, w.templates, *w.snapshots, *w.volumes,
        std::map<std::string, runtime::Runtime*>{{"gvisor", &w.runtime}}, w.clock, w.log,
        w.options);
    const Result<store::Loaded> loaded = w.store.load();
    ok(loaded);
    ok(w.engine->load(*loaded));
    REQUIRE(w.state("a") == "SUSPENDED");
    co_await refused(w.resume("a"), Errc::Unavailable);
    REQUIRE_FALSE(w.engine->checks()[0].ok);
    w.fail_next("observe", Errc::Internal);
    const Status blind = co_await w.engine->reconcile();
    failed(blind, Errc::Internal);
    REQUIRE(w.engine->checks()[0].detail.find("observe") != std::string::npos);
    const Status seen = co_await w.engine->reconcile();
    ok(seen);
    co_await must(w.resume("a"));
    co_await w.engine->stop(std::chrono::milliseconds(0));
    co_await refused(w.suspend("a"), Errc::Unavailable);
  });
}

TEST_CASE("reload: 10,000 suspended actors are taken over within a second") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    co_await must(w.suspend("a"));
    const v1alpha1::ActorRecord pattern = w.stored("a");
    for (int i = 0; i < 10'000; ++i) {
      auto record = std::make_shared<v1alpha1::ActorRecord>(pattern);
      std::string uid = pattern.actor().metadata().uid();
      uid.replace(uid.size() - 5, 5, std::to_string(10'000 + i));
      record->mutable_actor()->mutable_metadata()->set_uid(uid);
      record->mutable_actor()->mutable_metadata()->set_name("actor-" + std::to_string(i));
      w.store.actors[uid] = record;
    }
    co_await w.stop();
    const auto begin = std::chrono::steady_clock::now();
    co_await w.start();
    const auto took = std::chrono::steady_clock::now() - begin;
    // Debug and sanitizer builds are slow; the benchmark holds the real figure.
    REQUIRE(took < std::chrono::seconds(5));
    engine::ActorQuery query;
    query.limit = 20'000;
    REQUIRE(w.engine->list(query)->items.size() == 10'001);
  });
}
