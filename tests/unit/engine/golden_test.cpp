// Golden snapshots: built in the background, tried, used by new actors, replaced, given up.
#include "calls.hpp"

using namespace ate;
using namespace ate::test;

namespace {

[[nodiscard]] v1alpha1::GoldenStatus shown(World& w) {
  const auto status = w.engine->golden_status(*w.templates.templates.at("counter"));
  REQUIRE(status);
  return *status;
}

/// A world whose template asks for one, and the loop that builds it.
template <class F>
void with_golden(F body) {
  with_calls([&body](World& w, async::TaskScope& calls) -> async::Task<void> {
    v1alpha1::ActorTemplate& source = *w.templates.templates.at("counter");
    source.mutable_spec()->mutable_snapshots()->set_golden(true);
    source.mutable_spec()->set_warmup_seconds(0);
    source.mutable_status()->mutable_object()->set_digest("sha256:one");
    calls.spawn("golden", w.engine->goldens());
    co_await body(w);
  });
}

[[nodiscard]] async::Task<std::string> built(World& w) {
  co_await w.until([&w]() { return shown(w).state() == "Ready"; });
  co_return shown(w).snapshot();
}

void nothing_runs(const World& w) {
  REQUIRE(w.host.running() == 0);
  REQUIRE(w.host.netns.empty());
  for (const auto& worker : w.engine->workers()) {
    REQUIRE(worker->state() == "FREE");
  }
}

[[nodiscard]] std::vector<std::string> on_disk(World& w) {
  std::vector<std::string> all;
  for (const auto& [id, row] : w.store.snapshots) {
    all.push_back(id);
  }
  return all;
}

}  // namespace

TEST_CASE("golden: is built by a hidden guest, tried by another, and new actors start from it") {
  with_golden([](World& w) -> async::Task<void> {
    const std::string id = co_await built(w);
    nothing_runs(w);
    REQUIRE(w.host.count("boot") == 1);
    REQUIRE(w.host.count("restore") == 1);
    REQUIRE(w.store.actors.empty());
    REQUIRE(w.host.forgotten.size() == 2);
    REQUIRE(on_disk(w) == std::vector<std::string>{id});
    co_await w.create("a");
    co_await must(w.resume("a"));
    REQUIRE(w.actor("a").status().restored_from() == "golden");
    co_await must(w.suspend("a"));
    co_await must(w.resume("a"));
    REQUIRE(w.actor("a").status().restored_from() == "snapshot");
    co_await w.create("b");
    co_await must(w.boot("b"));
    REQUIRE(w.actor("b").status().restored_from() == "boot");
    co_await must(w.revert("b"));
    co_await must(w.resume("b"));
    REQUIRE(w.actor("b").status().restored_from() == "golden");
    co_await refused(w.engine->remove_snapshot(id, Caller{}), Errc::InUse);
    REQUIRE_FALSE(w.engine->template_in_use("default", "counter", 99));
  });
}

TEST_CASE("golden: survives a restart; one that was not tried through does not") {
  with_golden([](World& w) -> async::Task<void> {
    const std::string id = co_await built(w);
    auto untried = std::make_shared<v1alpha1::Snapshot>(*w.store.snapshots.at(id));
    untried->set_id("01aaaaaaaaaaaaaaaaaaaaaaaa");
    untried->set_state("Pending");
    w.store.snapshots[untried->id()] = untried;
    co_await w.restart();
    REQUIRE(on_disk(w) == std::vector<std::string>{id});
    async::TaskScope again(w.context, nullptr);
    again.spawn("golden", w.engine->goldens());
    const std::string still = co_await built(w);
    REQUIRE(still == id);
    REQUIRE(w.host.count("boot") == 1);
    co_await again.close();
  });
}

TEST_CASE("golden: of another key is not used, and replaced") {
  with_golden([](World& w) -> async::Task<void> {
    const std::string first = co_await built(w);
    (*w.templates.config->mutable_status()->mutable_pinned())["runsc"] = "sha256:11";
    w.engine->on_object_change();
    co_await w.until([&]() { return shown(w).state() == "Ready" && shown(w).snapshot() != first; });
    REQUIRE(on_disk(w) == std::vector<std::string>{shown(w).snapshot()});
    nothing_runs(w);
  });
}

TEST_CASE("golden: never on the last free worker") {
  with_golden([](World& w) -> async::Task<void> {
    w.templates.all_pools.clear();
    w.templates.add_pool("one", 1, "1Gi");
    w.engine->on_object_change();
    co_await w.until([&]() { return shown(w).error().find("of 1 are free") != std::string::npos; });
    REQUIRE(shown(w).state() == "Pending");
    REQUIRE(w.host.count("boot") == 0);
    w.templates.add_pool("two", 1, "1Gi");
    w.clock.advance(std::chrono::seconds(1));
    w.engine->on_object_change();
    const std::string id = co_await built(w);
    REQUIRE(on_disk(w) == std::vector<std::string>{id});
  });
}

TEST_CASE("golden: a build that fails leaves nothing, new actors boot cold, it is tried again") {
  for (const char* call : {"reserve", "boot", "ready", "checkpoint", "restore"}) {
    const auto body = [call](World& w) -> async::Task<void> {
      INFO(call);
      w.runtime.script = [call](const std::string& entered, const std::string&) -> Status {
        return entered == call ? fail(Errc::RuntimeFailed, "scripted") : Status();
      };
      co_await w.until([&]() { return shown(w).state() == "Failed"; });
      w.runtime.script = nullptr;
      REQUIRE(shown(w).error() == "scripted");
      nothing_runs(w);
      REQUIRE(w.store.snapshots.empty());
      co_await w.create("a");
      co_await must(w.resume("a"));
      REQUIRE(w.actor("a").status().restored_from() == "boot");
      w.clock.advance(std::chrono::seconds(11));
      const std::string id = co_await built(w);
      REQUIRE(on_disk(w) == std::vector<std::string>{id});
    };
    with_golden(body);
  }
}

TEST_CASE("golden: one that gives no running actor is told once and given up") {
  with_golden([](World& w) -> async::Task<void> {
    const std::string first = co_await built(w);
    co_await w.create("a");
    w.fail_next("restore", Errc::RestoreFailed);
    co_await refused(w.resume("a"), Errc::RestoreFailed);
    REQUIRE(w.state("a") == "SUSPENDED");
    co_await w.until([&]() { return shown(w).state() == "Ready" && shown(w).snapshot() != first; });
    co_await must(w.resume("a"));
    REQUIRE(w.actor("a").status().restored_from() == "golden");
  });
}

TEST_CASE("golden: goes when nobody asks for it any more") {
  with_golden([](World& w) -> async::Task<void> {
    const std::string id = co_await built(w);
    REQUIRE_FALSE(id.empty());
    w.templates.templates.at("counter")->mutable_spec()->mutable_snapshots()->set_golden(false);
    w.engine->on_object_change();
    co_await w.until([&w]() { return w.store.snapshots.empty(); });
    REQUIRE_FALSE(w.engine->golden_status(*w.templates.templates.at("counter")));
  });
}
