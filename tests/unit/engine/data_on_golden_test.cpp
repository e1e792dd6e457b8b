// Scope DATA_ON_GOLDEN on the fake host: the golden memory on the actor's own volumes.
#include "ate/os/fs.hpp"
#include "calls.hpp"

using namespace ate;
using namespace ate::test;

namespace {

constexpr std::int64_t kWarm = 7;  // what the golden guest had in memory

/// An actor `a` of a template with the volume `data` and a golden snapshot, which is Ready.
struct Rig {
  Rig(World& world, async::TaskScope& scope) : w(world), calls(scope) {
    v1alpha1::ActorTemplateSpec& spec = *w.templates.templates.at("counter")->mutable_spec();
    spec.add_volumes()->set_name("data");
    spec.mutable_volumes(0)->mutable_durable_dir();
    spec.mutable_snapshots()->set_golden(true);
    spec.mutable_snapshots()->set_on_suspend(v1alpha1::SnapshotPolicy::DATA_ON_GOLDEN);
    spec.set_warmup_seconds(0);
    w.templates.templates.at("counter")->mutable_status()->mutable_object()->set_digest("sha256:1");
  }

  ~Rig() { w.runtime.script = nullptr; }

  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  Rig(Rig&&) = delete;
  Rig& operator=(Rig&&) = delete;

  [[nodiscard]] v1alpha1::GoldenStatus golden() const {
    return *w.engine->golden_status(*w.templates.templates.at("counter"));
  }

  [[nodiscard]] async::Task<std::string> built() {
    w.runtime.script = [this](const std::string& call, const std::string& uid) -> Status {
      if (call == "checkpoint" && w.store.actors.empty()) {
        w.host.of(uid)->memory = kWarm;
      }
      return {};
    };
    calls.spawn("golden", w.engine->goldens());
    co_await w.until([this]() { return golden().state() == "Ready"; });
    w.runtime.script = nullptr;
    co_return golden().snapshot();
  }

  /// Another key: the golden snapshot is of no use until another one is built.
  void make_stale() {
    (*w.templates.config->mutable_status()->mutable_pinned())["runsc"] = "sha256:11";
    w.engine->on_object_change();
  }

  [[nodiscard]] std::string path(const std::string& name) const {
    return w.dir.file("actors/" + w.actor(name).metadata().uid() + "/volumes/data/x");
  }

  [[nodiscard]] std::string read(const std::string& name) const {
    const Result<std::string> text = os::read_file(path(name), 1 << 20);
    return text ? *text : "";
  }

  /// Suspended with the scope of the template and "own" in its volume.
  [[nodiscard]] async::Task<void> saved() {
    co_await w.create("a");
    co_await must(w.resume("a"));
    w.process("a")->memory = 100;
    write_file(path("a"), "own");
    co_await must(w.suspend("a"));
  }

  void is_on_golden(const std::string& name) const {
    CHECK(w.actor(name).status().restored_from() == "data-on-golden");
    CHECK(w.process(name)->memory == kWarm);
    CHECK(read(name) == "own");
  }

  World& w;
  async::TaskScope& calls;
};

void with_rig(std::function<async::Task<void>(Rig&)> body) {
  with_calls([&body](World& w, async::TaskScope& calls) -> async::Task<void> {
    Rig rig(w, calls);
    co_await body(rig);
  });
}

}  // namespace

TEST_CASE("data on golden: the golden memory on the actor's own volumes, start after start") {
  with_rig([](Rig& r) -> async::Task<void> {
    const std::string golden = co_await r.built();
    co_await r.saved();
    const std::string id = r.w.actor("a").status().snapshot();
    const auto row = r.w.engine->snapshot(id);
    ok(row);
    CHECK((*row)->scope() == "DATA_ON_GOLDEN");
    co_await must(r.w.resume("a"));
    r.is_on_golden("a");
    // A revert brings the files of the snapshot back, and the golden memory with them.
    write_file(r.path("a"), "later");
    co_await must(r.w.revert("a"));
    co_await must(r.w.resume("a"));
    r.is_on_golden("a");
    co_await must(r.w.pause("a"));  // onPause is FULL
    co_await must(r.w.resume("a"));
    CHECK(r.w.actor("a").status().restored_from() == "pause");
    // Ended, it starts cold like any other.
    r.w.host.end(r.w.process("a"), FakeRuntime::exited(3));
    co_await r.w.until([&r] { return r.w.state("a") == "EXITED"; });
    co_await must(r.w.boot("a"));
    CHECK(r.w.process("a")->memory == 0);
    CHECK(r.read("a") == "own");
    CHECK(r.golden().snapshot() == golden);
  });
}

TEST_CASE("data on golden: after a restart of the daemon, and for a fork") {
  with_rig([](Rig& r) -> async::Task<void> {
    const std::string golden = co_await r.built();
    co_await r.saved();
    co_await r.w.restart();
    const std::string id = r.w.actor("a").status().snapshot();
    co_await r.w.create_with("f", R"(,"fromSnapshot":")" + id + "\"");
    async::TaskScope again(r.w.context, nullptr);
    again.spawn("golden", r.w.engine->goldens());
    // At once: it waits until the golden snapshot was looked at.
    co_await must(r.w.resume("a"));
    r.is_on_golden("a");
    co_await must(r.w.resume("f"));
    r.is_on_golden("f");
    CHECK(r.golden().snapshot() == golden);
    co_await again.close();
  });
}

TEST_CASE("data on golden: one that is on its way is waited for, within bounds") {
  with_rig([](Rig& r) -> async::Task<void> {
    r.w.options.park_limit = std::chrono::milliseconds(20);
    co_await r.w.restart();
    const std::string first = co_await r.built();
    co_await r.saved();
    bool hold = true;
    r.w.runtime.script = [&hold](const std::string& call, const std::string&) -> Status {
      return hold && call == "boot" ? fail(Errc::NoFreeWorker, "scripted") : Status();
    };
    r.make_stale();
    co_await r.w.until([&r] { return r.golden().state() != "Ready"; });
    const auto early = co_await r.w.resume("a");
    REQUIRE_FALSE(early);
    const Errc code = early.error().code();
    CHECK((code == Errc::Unavailable || code == Errc::StateConflict));
    CHECK(early.error().message().find("\"boot\": true") != std::string::npos);
    CHECK(r.w.state("a") == "SUSPENDED");
    hold = false;
    r.w.clock.advance(std::chrono::minutes(11));
    r.w.engine->on_object_change();
    co_await r.w.until(
        [&r, &first] { return r.golden().state() == "Ready" && r.golden().snapshot() != first; });
    co_await must(r.w.resume("a"));
    CHECK(r.w.actor("a").status().restored_from() == "data-on-golden");
    CHECK(r.read("a") == "own");
  });
}

TEST_CASE("data on golden: a build that fails is told with the way out") {
  with_rig([](Rig& r) -> async::Task<void> {
    co_await r.built();
    co_await r.saved();
    r.w.runtime.script = [](const std::string& call, const std::string&) -> Status {
      return call == "checkpoint" ? fail(Errc::RuntimeFailed, "scripted") : Status();
    };
    r.make_stale();
    co_await r.w.until([&r] { return !r.golden().error().empty(); });
    const auto refusal = co_await r.w.resume("a");
    r.w.runtime.script = nullptr;
    CHECK_FALSE(refusal);
    CHECK(r.w.state("a") == "SUSPENDED");
    co_await must(r.w.boot("a"));
    CHECK(r.w.process("a")->memory == 0);
    CHECK(r.read("a") == "own");
  });
}

TEST_CASE("data on golden: what its own volumes do is not the golden snapshot's fault") {
  with_rig([](Rig& r) -> async::Task<void> {
    const std::string golden = co_await r.built();
    co_await r.saved();
    r.w.fail_next("restore", Errc::SnapshotIncompatible);
    const auto told = co_await r.w.resume("a");
    failed(told, Errc::SnapshotIncompatible);
    CHECK(told.error().message().find(golden) != std::string::npos);
    CHECK(r.w.state("a") == "SUSPENDED");
    CHECK(r.golden().state() == "Ready");
    CHECK(r.golden().snapshot() == golden);
    co_await must(r.w.resume("a"));
    r.is_on_golden("a");
  });
}

TEST_CASE("data on golden: keepVolumes starts cold, another generation too") {
  with_rig([](Rig& r) -> async::Task<void> {
    co_await r.built();
    co_await r.saved();
    co_await must(r.w.resume("a"));
    write_file(r.path("a"), "later");
    VerbOptions keep;
    keep.keep_volumes = true;
    co_await must(r.w.engine->revert(World::key("a"), keep, Caller{"req", 0}));
    co_await must(r.w.resume("a"));
    CHECK(r.w.actor("a").status().restored_from() == "boot");
    CHECK(r.read("a") == "later");
    co_await must(r.w.suspend("a"));
    r.w.templates.templates["counter"]->mutable_metadata()->set_generation(4);
    const auto moved = co_await r.w.engine->patch(
        World::key("a"), R"({"spec":{"template":{"generation":4}}})", std::nullopt, Caller{});
    ok(moved);
    co_await must(r.w.resume("a"));
    CHECK(r.w.actor("a").status().restored_from() == "data");
    CHECK(r.read("a") == "later");
  });
}

TEST_CASE("data on golden: a call may not ask for it where no golden snapshot is") {
  with_rig([](Rig& r) -> async::Task<void> {
    v1alpha1::SnapshotPolicy& policy =
        *r.w.templates.templates.at("counter")->mutable_spec()->mutable_snapshots();
    policy.set_golden(false);
    policy.set_on_suspend(v1alpha1::SnapshotPolicy::FULL);
    co_await r.w.create("a");
    co_await must(r.w.resume("a"));
    VerbOptions options;
    options.scope = "DATA_ON_GOLDEN";
    co_await refused(r.w.engine->suspend(World::key("a"), options, Caller{"req", 0}),
                     Errc::InvalidValue);
    CHECK(r.w.state("a") == "RUNNING");
  });
}
