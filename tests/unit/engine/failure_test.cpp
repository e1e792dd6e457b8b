// Each call of the runtime and each commit fails once: the actor has an exit, the last good
// snapshot stays, nothing is left behind.
#include <stdlib.h>

#include <filesystem>

#include "ate/util/failpoint.hpp"
#include "world.hpp"

using namespace ate;
using namespace ate::test;

namespace {

[[nodiscard]] async::Task<void> suspended_with(World& w, std::int64_t memory) {
  co_await w.create("a");
  co_await must(w.resume("a"));
  w.process("a")->memory = memory;
  co_await must(w.suspend("a"));
}

/// What must hold whenever nothing runs.
void nothing_left(const World& w) {
  REQUIRE(w.host.running() == 0);
  REQUIRE(w.host.netns.empty());
  for (const auto& worker : w.engine->workers()) {
    REQUIRE(worker->state() == "FREE");
  }
}

[[nodiscard]] async::Task<std::vector<std::string>> directories(World& w) {
  const auto listing = co_await w.snapshots->list();
  ok(listing);
  std::vector<std::string> all = listing->complete;
  all.insert(all.end(), listing->partial.begin(), listing->partial.end());
  co_return all;
}

}  // namespace

TEST_CASE("resume: fails once at each call; SUSPENDED again, snapshot intact, a retry works") {
  with_world([](World& w) -> async::Task<void> {  // cases T22, T24
    co_await suspended_with(w, 7);
    const std::string snapshot = w.actor("a").status().snapshot();
    for (const char* call : {"reserve", "restore", "ready"}) {
      INFO(call);
      w.fail_next(call, Errc::RestoreFailed);
      co_await refused(w.resume("a"), Errc::RestoreFailed);
      REQUIRE(w.state("a") == "SUSPENDED");
      REQUIRE(w.actor("a").status().snapshot() == snapshot);
      nothing_left(w);
    }
    co_await must(w.resume("a"));
    REQUIRE(w.process("a")->memory == 7);
  });
}

TEST_CASE("resume: a failed one keeps its error in the operation and in the actor's message") {
  with_world([](World& w) -> async::Task<void> {
    co_await suspended_with(w, 1);
    w.fail_next("restore", Errc::RestoreFailed);
    const auto result = co_await w.resume("a");
    failed(result, Errc::RestoreFailed);
    const v1alpha1::Actor actor = w.actor("a");
    REQUIRE(actor.status().message() == "scripted failure of restore");
    const auto operation = co_await w.engine->operation(actor.status().last_operation());
    ok(operation);
    REQUIRE((*operation)->state() == v1alpha1::Operation::FAILED);
    REQUIRE((*operation)->error_json().find("scripted failure") != std::string::npos);
    REQUIRE(w.store.stored_events.back()->type() == "operation.finished");
  });
}

TEST_CASE("resume: each commit fails once; the actor is where it was, nothing runs") {
  with_world([](World& w) -> async::Task<void> {
    co_await suspended_with(w, 7);
    for (std::size_t nth = 1; nth <= 2; ++nth) {
      INFO(nth);
      std::size_t seen = 0;
      w.store.before_commit = [&seen, nth](const store::Batch&) -> std::optional<Error> {
        return ++seen == nth ? std::optional(Error(Errc::DiskFull, "full")) : std::nullopt;
      };
      co_await refused(w.resume("a"), Errc::DiskFull);
      w.store.before_commit = nullptr;
      REQUIRE(w.state("a") == "SUSPENDED");
      REQUIRE(w.stored("a").actor().status().state() == State::SUSPENDED);
      nothing_left(w);
    }
    co_await must(w.resume("a"));
  });
}

TEST_CASE("resume: when even the way back can't be saved, memory goes on and it is saved later") {
  with_world([](World& w) -> async::Task<void> {
    co_await suspended_with(w, 7);
    std::size_t seen = 0;
    w.store.before_commit = [&seen](const store::Batch&) -> std::optional<Error> {
      return ++seen >= 2 ? std::optional(Error(Errc::DiskFull, "full")) : std::nullopt;
    };
    co_await refused(w.resume("a"), Errc::DiskFull);
    REQUIRE(w.state("a") == "SUSPENDED");
    REQUIRE(w.stored("a").actor().status().state() == State::RESUMING);
    REQUIRE_FALSE(w.engine->checks()[1].ok);
    w.store.before_commit = nullptr;
    co_await must(w.resume("a"));
    REQUIRE(w.stored("a").actor().status().state() == State::RUNNING);
    REQUIRE(w.engine->checks()[1].ok);
  });
}

TEST_CASE("resume: from PAUSED fails and stays PAUSED") {
  with_world([](World& w) -> async::Task<void> {
    co_await suspended_with(w, 1);
    co_await must(w.resume("a"));
    w.process("a")->memory = 2;
    co_await must(w.pause("a"));
    w.fail_next("ready", Errc::NotReady);
    co_await refused(w.resume("a"), Errc::NotReady);
    REQUIRE(w.state("a") == "PAUSED");
    nothing_left(w);
    co_await must(w.resume("a"));
    REQUIRE(w.process("a")->memory == 2);
  });
}

TEST_CASE("resume: a sandbox that dies in the readiness gate takes the actor back") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    w.runtime.script = [&w](const std::string& call, const std::string& uid) -> Status {
      if (call == "ready") {
        w.host.end(w.host.of(uid), FakeRuntime::exited(3));
      }
      return {};
    };
    co_await refused(w.resume("a"), Errc::RuntimeFailed);
    w.runtime.script = nullptr;
    REQUIRE(w.state("a") == "SUSPENDED");
    REQUIRE(w.actor("a").status().reason() == "new");
    nothing_left(w);
  });
}

TEST_CASE("resume: a corrupt snapshot is 409 before anything starts; state unchanged") {
  with_world([](World& w) -> async::Task<void> {  // case T32
    co_await suspended_with(w, 7);
    const std::string id = w.actor("a").status().snapshot();
    const std::string memory = w.dir.file("snapshots/" + id + "/memory");
    const std::string version = w.actor("a").metadata().resource_version();
    const std::size_t starts = w.host.count("restore");
    std::filesystem::resize_file(memory, 0);
    co_await refused(w.resume("a"), Errc::SnapshotCorrupt);
    REQUIRE(w.host.count("restore") == starts);
    REQUIRE(w.actor("a").metadata().resource_version() == version);
    // Same size, other bytes: seen beside the restore, before RUNNING.
    write_file(memory, "8");
    co_await refused(w.resume("a"), Errc::SnapshotCorrupt);
    REQUIRE(w.state("a") == "SUSPENDED");
    REQUIRE(w.host.violations.size() == 1);  // the fake host noticed; the engine had to as well
    w.host.violations.clear();
    nothing_left(w);
    std::filesystem::remove_all(w.dir.file("snapshots/" + id));
    co_await refused(w.resume("a"), Errc::SnapshotCorrupt);
    co_await must(w.boot("a"));  // the explicit way on
    REQUIRE(w.process("a")->memory == 0);
  });
}

TEST_CASE("resume: a snapshot that the host or the worker can't hold is 409 naming both") {
  with_world([](World& w) -> async::Task<void> {  // cases T8, T31
    co_await suspended_with(w, 7);
    w.runtime.restorable = fail(Errc::SnapshotIncompatible, "cpu");
    co_await refused(w.resume("a"), Errc::SnapshotIncompatible);
    w.runtime.restorable = {};
    w.templates.digest = "sha256:other";
    co_await refused(w.resume("a"), Errc::SnapshotIncompatible);
    REQUIRE(w.state("a") == "SUSPENDED");
    w.templates.digest = "sha256:image";
    w.templates.all_pools.clear();
    w.templates.add_pool("small", 4, "512Mi");
    const auto small = co_await w.resume("a");
    failed(small, Errc::SnapshotIncompatible);
    std::map<std::string, ErrorValue> members(small.error().members().begin(),
                                              small.error().members().end());
    REQUIRE(std::get<std::int64_t>(members.at("workerMemoryBytes")) == 512LL << 20);
    REQUIRE(std::get<std::int64_t>(members.at("snapshotMemoryBytes")) > 512LL << 20);
    nothing_left(w);
  });
}

TEST_CASE("resume: images that can't be had fail it after the intent, and it goes back") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    w.templates.images_status = fail(Errc::ImageInvalid, "no such layer");
    co_await refused(w.resume("a"), Errc::ImageInvalid);
    REQUIRE(w.state("a") == "SUSPENDED");
    nothing_left(w);
    w.templates.images_status = {};
    co_await must(w.resume("a"));
  });
}

TEST_CASE("suspend: fails at checkpoint or seal; RUNNING again, unpaused, the old one stays") {
  with_world([](World& w) -> async::Task<void> {  // case T11
    co_await suspended_with(w, 7);
    const std::string old = w.actor("a").status().snapshot();
    co_await must(w.resume("a"));
    const std::string worker = w.actor("a").status().worker();
    w.process("a")->memory = 8;
    for (const bool pause : {false, true}) {
      w.fail_next("checkpoint", Errc::DiskFull);
      co_await refused(pause ? w.pause("a") : w.suspend("a"), Errc::DiskFull);
      REQUIRE(w.state("a") == "RUNNING");
      REQUIRE_FALSE(w.process("a")->frozen);
      REQUIRE(w.actor("a").status().snapshot() == old);
      REQUIRE(w.stored("a").pending_snapshot().empty());
      REQUIRE(w.actor("a").status().worker() == worker);
    }
    bool clean = false;
    for (int i = 0; i < 2000 && !clean; ++i) {
      const auto left = co_await directories(w);
      clean = left == std::vector<std::string>{old};
      co_await async::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(clean);
    co_await must(w.suspend("a"));
    co_await must(w.resume("a"));
    REQUIRE(w.process("a")->memory == 8);
  });
}

TEST_CASE("suspend: each commit fails once; it runs on or was not begun") {
  with_world([](World& w) -> async::Task<void> {
    co_await suspended_with(w, 7);
    const std::string old = w.actor("a").status().snapshot();
    co_await must(w.resume("a"));
    for (std::size_t nth = 1; nth <= 2; ++nth) {
      INFO(nth);
      std::size_t seen = 0;
      w.store.before_commit = [&seen, nth](const store::Batch&) -> std::optional<Error> {
        return ++seen == nth ? std::optional(Error(Errc::DiskFull, "full")) : std::nullopt;
      };
      co_await refused(w.suspend("a"), Errc::DiskFull);
      w.store.before_commit = nullptr;
      REQUIRE(w.state("a") == "RUNNING");
      REQUIRE_FALSE(w.process("a")->frozen);
      REQUIRE(w.stored("a").actor().status().state() == State::RUNNING);
      REQUIRE(w.actor("a").status().snapshot() == old);
    }
    co_await must(w.suspend("a"));
  });
}

TEST_CASE("suspend: too little space is 507 before anything stands still") {
  with_world([](World& w) -> async::Task<void> {
    w.snapshots = std::make_unique<artifacts::SnapshotStore>(
        w.context, artifacts::SnapshotStore::Options{w.dir.file("snapshots"), 1LL << 60});
    co_await w.restart();
    co_await w.create("a");
    co_await must(w.resume("a"));
    const std::size_t commits = w.store.commits;
    co_await refused(w.suspend("a"), Errc::DiskFull);
    REQUIRE(w.store.commits == commits);
    REQUIRE(w.host.count("checkpoint") == 0);
    REQUIRE(w.state("a") == "RUNNING");
  });
}

TEST_CASE("suspend: the guest is gone meanwhile; CRASHED, nothing promoted, the old one stays") {
  with_world([](World& w) -> async::Task<void> {  // case T14
    co_await suspended_with(w, 7);
    const std::string old = w.actor("a").status().snapshot();
    co_await must(w.resume("a"));
    w.runtime.script = [&w](const std::string& call, const std::string& uid) -> Status {
      if (call == "checkpoint") {
        w.host.end(w.host.of(uid), FakeRuntime::killed());
      }
      return {};
    };
    co_await refused(w.suspend("a"), Errc::RuntimeFailed);
    w.runtime.script = nullptr;
    REQUIRE(w.state("a") == "CRASHED");
    REQUIRE(w.actor("a").status().reason() == "killed(9)");
    REQUIRE(w.actor("a").status().snapshot() == old);
    nothing_left(w);
    const auto plain = co_await w.resume("a");  // case T23
    failed(plain, Errc::StateConflict);
    REQUIRE(plain.error().message().find("revert") != std::string::npos);
    co_await must(w.revert("a"));
    co_await must(w.resume("a"));
    REQUIRE(w.process("a")->memory == 7);
  });
}

TEST_CASE("suspend, signal: an actor that ends by itself just then is 409, and EXITED") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    for (const char* call : {"checkpoint", "signal"}) {
      co_await must(w.boot("a"));
      w.runtime.script = [&w, call](const std::string& called, const std::string& uid) -> Status {
        if (called != call) {
          return {};
        }
        w.host.end(w.host.of(uid), FakeRuntime::exited(3));
        return fail(Errc::RuntimeFailed, "runsc: no such container");
      };
      if (std::string(call) == "checkpoint") {
        co_await refused(w.suspend("a"), Errc::StateConflict);
      } else {
        const Status sent = co_await w.engine->signal(World::key("a"), 15, "", Caller{"req", 0});
        REQUIRE(sent.error().code() == Errc::StateConflict);
      }
      w.runtime.script = nullptr;
      co_await w.until([&w]() { return w.state("a") == "EXITED"; });
      REQUIRE(w.actor("a").status().exit_code() == 3);
      nothing_left(w);
    }
  });
}

TEST_CASE("suspend: a guest that can't be unpaused is ended, not forgotten") {
  with_world([](World& w) -> async::Task<void> {
    co_await suspended_with(w, 7);
    co_await must(w.resume("a"));
    w.runtime.script = [](const std::string& call, const std::string&) -> Status {
      return call == "checkpoint" || call == "unpause" ? fail(Errc::RuntimeFailed, "stuck")
                                                       : Status();
    };
    co_await refused(w.suspend("a"), Errc::RuntimeFailed);
    w.runtime.script = nullptr;
    REQUIRE(w.state("a") == "CRASHED");
    REQUIRE(w.actor("a").status().reason() == "unknown");
    nothing_left(w);
  });
}

TEST_CASE("suspend: GC of the old snapshot fails; SUSPENDED anyway, tried again later") {
  with_world([](World& w) -> async::Task<void> {  // case T13
    co_await suspended_with(w, 7);
    const std::string old = w.actor("a").status().snapshot();
    co_await must(w.resume("a"));
    const std::string directory = w.dir.file("snapshots/" + old);
    REQUIRE(::setenv("ATE_FAILPOINT", "snapshot-gc=error", 1) == 0);
    const auto suspended = co_await w.suspend("a");
    ok(suspended);
    co_await async::sleep_for(std::chrono::milliseconds(20));
    REQUIRE(::unsetenv("ATE_FAILPOINT") == 0);
    REQUIRE(w.state("a") == "SUSPENDED");
    REQUIRE(w.actor("a").status().snapshot() != old);
    if (failpoints_enabled()) {
      REQUIRE(std::filesystem::exists(directory));
    }
    async::TaskScope scope(w.context, nullptr);
    scope.spawn("housekeeping", w.engine->housekeeping());
    w.clock.advance(std::chrono::seconds(11));
    co_await w.until([&directory]() { return !std::filesystem::exists(directory); });
    co_await scope.close();
  });
}

TEST_CASE("suspend: an old sandbox that won't end keeps its worker until it does") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    w.fail_next("destroy", Errc::RuntimeFailed);
    co_await must(w.suspend("a"));
    REQUIRE(w.state("a") == "SUSPENDED");
    REQUIRE((*w.engine->worker("small-0"))->state() == "ASSIGNED");
    REQUIRE(w.host.running() == 1);
    // The next resume ends it first: never two of one actor.
    co_await must(w.resume("a"));
    REQUIRE(w.host.running() == 1);
  });
}

TEST_CASE("guest end: EXITED keeps the code; CRASHED the cause; cleaned up; ways on") {
  with_world([](World& w) -> async::Task<void> {
    co_await suspended_with(w, 7);
    co_await must(w.resume("a"));
    w.host.end(w.process("a"), FakeRuntime::exited(42));
    co_await w.until([&w]() { return w.state("a") == "EXITED"; });
    REQUIRE(w.actor("a").status().exit_code() == 42);
    REQUIRE(w.actor("a").status().reason() == "exited(42)");
    co_await refused(w.resume("a"), Errc::StateConflict);
    co_await refused(w.suspend("a"), Errc::StateConflict);
    nothing_left(w);
    co_await must(w.boot("a"));
    REQUIRE_FALSE(w.actor("a").status().has_exit_code());
    runtime::SandboxExit oom;
    oom.cause = runtime::SandboxExit::Cause::CgroupOom;
    oom.detail = "memory.events oom_kill 1";
    w.host.end(w.process("a"), oom);
    co_await w.until([&w]() { return w.state("a") == "CRASHED"; });
    REQUIRE(w.actor("a").status().reason() == "cgroup-oom");
    REQUIRE(w.actor("a").status().message() == "memory.events oom_kill 1");
    w.fail_next("boot", Errc::RuntimeFailed);
    co_await refused(w.boot("a"), Errc::RuntimeFailed);
    REQUIRE(w.state("a") == "CRASHED");
    REQUIRE(w.actor("a").status().reason() == "cgroup-oom");
    co_await must(w.revert("a"));
    REQUIRE(w.state("a") == "SUSPENDED");
    co_await must(w.resume("a"));
    REQUIRE(w.process("a")->memory == 7);
  });
}

TEST_CASE("guest end: it can't be saved; memory knows, and it is saved later") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    w.store.fail_commits(1, Errc::DiskFull);
    w.host.end(w.process("a"), FakeRuntime::killed());
    co_await w.until([&w]() { return w.state("a") == "CRASHED"; });
    REQUIRE(w.stored("a").actor().status().state() == State::RUNNING);
    co_await must(w.revert("a"));
    REQUIRE(w.stored("a").actor().status().state() == State::SUSPENDED);
  });
}

TEST_CASE("revert: a sandbox that won't end is CRASHED; the next revert ends it") {
  with_world([](World& w) -> async::Task<void> {
    co_await suspended_with(w, 7);
    co_await must(w.resume("a"));
    w.fail_next("destroy", Errc::RuntimeFailed);
    co_await refused(w.revert("a"), Errc::RuntimeFailed);
    REQUIRE(w.state("a") == "CRASHED");
    REQUIRE(w.actor("a").status().reason() == "killed-by-operator");
    co_await must(w.revert("a"));
    REQUIRE(w.state("a") == "SUSPENDED");
    nothing_left(w);
  });
}

TEST_CASE("delete: waits for the template's terminationGrace, force for nothing") {
  with_world([](World& w) -> async::Task<void> {
    w.templates.templates["counter"]->mutable_spec()->set_termination_grace("7s");
    co_await w.create("a");
    co_await must(w.resume("a"));
    co_await must(w.remove("a", false));
    REQUIRE(w.runtime.last_grace == std::chrono::seconds(7));
    co_await w.create("a");
    co_await must(w.resume("a"));
    co_await must(w.remove("a", true));
    REQUIRE(w.runtime.last_grace == std::chrono::milliseconds(0));
  });
}

TEST_CASE("delete: from every state; each failure leaves it DELETING and a retry ends it") {
  with_world([](World& w) -> async::Task<void> {
    co_await suspended_with(w, 7);
    co_await must(w.resume("a"));
    w.fail_next("destroy", Errc::RuntimeFailed);
    co_await refused(w.remove("a", false), Errc::RuntimeFailed);
    REQUIRE(w.state("a") == "DELETING");
    co_await refused(w.resume("a"), Errc::StateConflict);
    std::size_t seen = 0;
    w.store.before_commit = [&seen](const store::Batch& batch) -> std::optional<Error> {
      seen += batch.delete_actors.size();
      return seen == 1 && !batch.delete_actors.empty()
                 ? std::optional(Error(Errc::DiskFull, "full"))
                 : std::nullopt;
    };
    co_await refused(w.remove("a", false), Errc::DiskFull);
    REQUIRE(w.state("a") == "DELETING");
    co_await must(w.remove("a", false));
    REQUIRE(w.store.actors.empty());
    nothing_left(w);

    co_await w.create("a");  // SUSPENDED
    co_await must(w.remove("a", false));
    co_await suspended_with(w, 1);
    co_await must(w.resume("a"));
    co_await must(w.pause("a"));  // PAUSED
    co_await must(w.remove("a", false));
    co_await w.create("a");
    co_await must(w.resume("a"));
    w.host.end(w.process("a"), FakeRuntime::killed());
    co_await w.until([&w]() { return w.state("a") == "CRASHED"; });
    co_await must(w.remove("a", true));
    const auto left = co_await directories(w);
    REQUIRE(left.empty());
    REQUIRE(w.store.snapshots.empty());
  });
}
