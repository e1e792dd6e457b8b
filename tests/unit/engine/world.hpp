#pragma once

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ate/artifacts/artifacts.hpp"
#include "ate/artifacts/volumes.hpp"
#include "ate/engine/engine.hpp"
#include "ate/engine/templates.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"
#include "support/catch.hpp"
#include "support/fake_clock.hpp"
#include "support/fake_runtime.hpp"
#include "support/fake_store.hpp"
#include "support/fake_templates.hpp"
#include "support/run_coro.hpp"
#include "support/temp_dir.hpp"

namespace ate::test {

using State = v1alpha1::ActorStatus;
using engine::ActorKey;
using engine::Caller;
using engine::VerbOptions;
using engine::VerbResult;

/// An engine on a fake host, with a real snapshot store on a temporary directory.
struct World {
  explicit World(async::Context& c) : context(c), runtime(c, host) {
    snapshots = std::make_unique<artifacts::SnapshotStore>(
        context, artifacts::SnapshotStore::Options{dir.file("snapshots"), 0});
    volumes = std::make_unique<artifacts::VolumeStore>(
        context, artifacts::VolumeStore::Options{dir.file("actors"), dir.file("snapshots")});
    options.boot_id = "boot-1";
    options.tick = std::chrono::milliseconds(1);
  }

  async::Context& context;
  TempDir dir;
  FakeClock clock;
  FakeStore store;
  FakeHost host;
  FakeRuntime runtime;
  FakeTemplates templates;
  std::unique_ptr<artifacts::SnapshotStore> snapshots;
  std::unique_ptr<artifacts::VolumeStore> volumes;
  Log log{static_cast<LogLevel>(0)};  // silent
  engine::Options options;
  std::unique_ptr<engine::Engine> engine;

  [[nodiscard]] async::Task<void> start() {
    const Status prepared = snapshots->prepare();
    REQUIRE(prepared);
    REQUIRE(volumes->prepare());
    engine = std::make_unique<engine::Engine>(
        context, store, templates, *snapshots, *volumes,
        std::map<std::string, runtime::Runtime*>{{"gvisor", &runtime}}, clock, log, options);
    const Result<store::Loaded> loaded = store.load();
    REQUIRE(loaded);
    REQUIRE(engine->load(*loaded));
    const Status reconciled = co_await engine->reconcile();
    REQUIRE(reconciled);
  }

  [[nodiscard]] async::Task<void> stop() {
    if (engine != nullptr) {
      co_await engine->stop(std::chrono::milliseconds(0));
      engine.reset();
    }
  }

  /// As if the daemon had been killed: whatever runs is cut off where it stands.
  [[nodiscard]] async::Task<void> restart() {
    co_await stop();
    co_await start();
  }

  [[nodiscard]] static ActorKey key(const std::string& name) { return {"default", name}; }

  [[nodiscard]] async::Task<void> create(std::string name) {
    co_await create_with(std::move(name), std::string());
  }

  [[nodiscard]] async::Task<void> create_with(std::string name, std::string more) {
    const std::string body = R"({"metadata":{"name":")" + name +
                             R"("},"spec":{"template":{"name":"counter"})" + more + "}}";
    const auto made = co_await engine->create("default", body, Caller{"req", 0});
    if (!made) {
      FAIL(made.error().message());
    }
  }

  [[nodiscard]] async::Task<Result<VerbResult>> resume(std::string name) {
    co_return co_await engine->resume(key(name), VerbOptions{}, Caller{"req", 0});
  }

  [[nodiscard]] async::Task<Result<VerbResult>> boot(std::string name) {
    VerbOptions options_;
    options_.boot = true;
    co_return co_await engine->resume(key(name), std::move(options_), Caller{"req", 0});
  }

  [[nodiscard]] async::Task<Result<VerbResult>> pause(std::string name) {
    co_return co_await engine->pause(key(name), VerbOptions{}, Caller{"req", 0});
  }

  [[nodiscard]] async::Task<Result<VerbResult>> suspend(std::string name) {
    co_return co_await engine->suspend(key(name), VerbOptions{}, Caller{"req", 0});
  }

  [[nodiscard]] async::Task<Result<VerbResult>> snapshot(std::string name) {
    co_return co_await engine->make_snapshot(key(name), VerbOptions{}, Caller{"req", 0});
  }

  [[nodiscard]] async::Task<Result<VerbResult>> revert(std::string name) {
    co_return co_await engine->revert(key(name), VerbOptions{}, Caller{"req", 0});
  }

  [[nodiscard]] async::Task<Result<VerbResult>> remove(std::string name, bool force) {
    co_return co_await engine->remove(key(name), force, VerbOptions{}, Caller{"req", 0});
  }

  [[nodiscard]] v1alpha1::Actor actor(const std::string& name) const {
    const auto found = engine->get(key(name));
    if (!found) {
      FAIL("no actor " + name);
    }
    return **found;
  }

  [[nodiscard]] std::string state(const std::string& name) const {
    return State::State_Name(actor(name).status().state());
  }

  [[nodiscard]] std::shared_ptr<FakeProcess> process(const std::string& name) const {
    return host.of(actor(name).metadata().uid());
  }

  /// What the store would give back after a crash.
  [[nodiscard]] v1alpha1::ActorRecord stored(const std::string& name) const {
    return *store.actors.at(actor(name).metadata().uid());
  }

  /// Makes the next call of that name fail.
  void fail_next(const std::string& call, Errc code) {
    runtime.script = [this, call, code](const std::string& entered, const std::string&) -> Status {
      if (entered != call) {
        return {};
      }
      Status failure = fail(code, "scripted failure of " + call);
      runtime.script = nullptr;  // and with it everything that this closure holds
      return failure;
    };
  }

  /// Waits, turn by turn of the loop, until `done`.
  [[nodiscard]] async::Task<void> until(std::function<bool()> done) {
    for (int i = 0; i < 5000 && !done(); ++i) {
      co_await async::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(done());
  }
};

template <class T>
void ok(const Result<T>& result) {
  if (!result) {
    FAIL(result.error().message());
  }
}

template <class T>
void failed(const Result<T>& result, Errc code) {
  REQUIRE_FALSE(result);
  INFO(result.error().message());
  REQUIRE(result.error().code() == code);
}

/// The call must go well, or fail with `code`.
template <class T>
[[nodiscard]] async::Task<void> must(async::Task<Result<T>> call) {
  const Result<T> result = co_await std::move(call);
  ok(result);
}

template <class T>
[[nodiscard]] async::Task<void> refused(async::Task<Result<T>> call, Errc code) {
  const Result<T> result = co_await std::move(call);
  failed(result, code);
}

/// Runs `body` on a started world and stops it, also after a failed assertion.
template <class F>
void with_world(F body) {
  run_coro([&body](async::Context& context) -> async::Task<void> {
    World world(context);
    std::exception_ptr error;
    try {
      co_await world.start();
      co_await body(world);
    } catch (...) {
      error = std::current_exception();
    }
    co_await world.stop();
    if (error) {
      std::rethrow_exception(error);
    }
    REQUIRE(world.host.violations.empty());
  });
}

}  // namespace ate::test
