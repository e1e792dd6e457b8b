// The gVisor runtime with a runsc that misbehaves on command (tests/stubs/fake_runsc.cpp).
#include <signal.h>
#include <sys/mount.h>
#include <sys/utsname.h>

#include <filesystem>
#include <string>
#include <utility>

#include "ate/util/failpoint.hpp"
#include "runtime/gvisor/trial.hpp"
#include "runtime/world.hpp"
#include "support/run_coro.hpp"

using namespace ate;
using namespace ate::test;
using runtime::SandboxExit;

namespace {

const std::string kUid = "01j0abcdefghjkmnpqrstvwxyz";

/// Real sandboxes on a machine that has other things to do.
constexpr std::chrono::seconds kLimit(120);

using SandboxPtr = std::unique_ptr<runtime::Sandbox>;

/// A host whose runsc is the fake one, known to have passed its self-test.
struct FakeHost : Host {
  FakeHost(async::Context& c, const Ground& g, runtime::GvisorOptions options)
      : Host(c, g, std::move(options)) {}

  async::Task<void> install() {
    std::string path = ATE_TEST_FAKE_RUNSC;
    const Result<std::string> imported = co_await assets.import(path, std::string());
    REQUIRE(imported);
    digest = *imported;
    utsname name{};
    REQUIRE(::uname(&name) == 0);
    write_file(
        paths.state_dir() + "/selftest",
        runtime::gvisor::trial_key(digest, "systrap", name.release, {"fake_a", "fake_b"}) + "\n");
  }

  void script(const std::string& text) {
    const Result<std::string> path = assets.path_of(digest);
    REQUIRE(path);
    write_file(os::parent_dir(*path) + "/fake.script", text);
  }

  async::Task<Result<SandboxPtr>> boot(std::int64_t serial) {
    const Result<runtime::Identity> reserved = co_await runtime->reserve();
    REQUIRE(reserved);
    Stages stages;
    co_return co_await runtime->boot(boot_plan(ground, digest, kUid, serial, workload_spec()),
                                     *reserved, stages);
  }

  std::string digest;
};

runtime::GvisorOptions short_deadlines(const Ground& ground) {
  runtime::GvisorOptions options = options_of(ground);
  options.deadlines.control = std::chrono::milliseconds(500);
  options.deadlines.start = std::chrono::milliseconds(500);
  options.deadlines.save = std::chrono::milliseconds(500);
  return options;
}

template <class Scenario>
void with_fake(Scenario scenario) {
  const bool with_cgroup = GENERATE(true, false);
  Ground ground;
  runtime::GvisorOptions options = short_deadlines(ground);
  if (!with_cgroup) {
    options.cgroup_root.clear();
  }
  Traces before;
  auto body = [&](async::Context& context) -> async::Task<void> {
    FakeHost host(context, ground, options);
    co_await host.install();
    host.script("");
    before = look(ground);
    co_await scenario(host);
    host.script("");
    const Status forgotten = co_await host.runtime->forget_actor(kUid);
    REQUIRE(forgotten);
    co_await host.close();
  };
  run_coro(body, kLimit);
  // `before` was seen with the loop's own descriptors and mounts: only what is new counts.
  for (const std::string& difference : differences(before, look(ground))) {
    CHECK_FALSE(difference.starts_with("new:"));
  }
}

}  // namespace

TEST_CASE("gvisor faults: a start that hangs ends at its deadline with all it began") {
  with_fake([](FakeHost& host) -> async::Task<void> {
    std::int64_t serial = 1;
    for (const char* behaviour : {"hang", "start-hang"}) {
      host.script(std::string("run ") + behaviour + "\n");
      const Result<SandboxPtr> sandbox = co_await host.boot(serial++);
      REQUIRE_FALSE(sandbox);
      REQUIRE(sandbox.error().code() == Errc::DeadlineExceeded);
    }
  });
}

TEST_CASE("gvisor faults: failures of a start carry runsc's own words") {
  with_fake([](FakeHost& host) -> async::Task<void> {
    struct Row {
      std::string script;
      std::string words;
    };
    const std::vector<Row> rows = {{"run exit 128\n", "scripted failure of run"},
                                   {"run exit 2\n", "exit code 2"},
                                   {"run no-pid\n", "wrote no sandbox pid"}};
    std::int64_t serial = 1;
    for (const Row& row : rows) {
      host.script(row.script);
      const Result<SandboxPtr> sandbox = co_await host.boot(serial++);
      REQUIRE_FALSE(sandbox);
      INFO(sandbox.error().message());
      REQUIRE(sandbox.error().code() == Errc::RuntimeFailed);
      REQUIRE(sandbox.error().message().find(row.words) != std::string::npos);
    }
  });
}

TEST_CASE("gvisor faults: a sandbox that dies at once is told with its code") {
  with_fake([](FakeHost& host) -> async::Task<void> {
    host.script("run die 3\n");
    const Result<SandboxPtr> sandbox = co_await host.boot(1);
    REQUIRE(sandbox);
    const SandboxExit exit = co_await (*sandbox)->exited();
    REQUIRE(exit.cause == SandboxExit::Cause::Exited);
    REQUIRE(exit.exit_code == 3);
    const Status ended = co_await (*sandbox)->destroy(std::chrono::milliseconds(0));
    REQUIRE(ended);
  });
}

TEST_CASE(
    "gvisor faults: commands on a live sandbox fail, hang, flood; it stays and can be ended") {
  // cases T11, T15
  with_fake([](FakeHost& host) -> async::Task<void> {
    const Result<SandboxPtr> booted = co_await host.boot(1);
    REQUIRE(booted);
    runtime::Sandbox& sandbox = **booted;
    struct Row {
      std::string script;
      Errc code;
    };
    const std::vector<Row> rows = {{"pause exit 128\n", Errc::RuntimeFailed},
                                   {"pause hang\n", Errc::DeadlineExceeded},
                                   {"checkpoint enospc\n", Errc::DiskFull},
                                   {"checkpoint hang\n", Errc::DeadlineExceeded},
                                   {"checkpoint no-files\n", Errc::RuntimeFailed},
                                   {"checkpoint exit 1\n", Errc::RuntimeFailed}};
    for (const Row& row : rows) {
      host.script(row.script);
      auto manifest = std::make_shared<v1alpha1::SnapshotManifest>();
      Stages stages;
      const Status saved =
          co_await sandbox.checkpoint(host.ground.dir.file("snap"), manifest, stages);
      INFO(row.script);
      REQUIRE_FALSE(saved);
      REQUIRE(saved.error().code() == row.code);
      const Status resumed = co_await sandbox.unpause();
      REQUIRE(resumed);
    }
    host.script("kill flood\nresume exit 128\n");
    const Status sent = co_await sandbox.signal(SIGTERM, "");
    REQUIRE(sent);
    const Status resumed = co_await sandbox.unpause();
    REQUIRE_FALSE(resumed);
    const Status ended = co_await sandbox.destroy(std::chrono::milliseconds(0));
    REQUIRE(ended);
  });
}

// case T13
TEST_CASE("gvisor faults: an end that fails half way is done by the next try") {
  if (!failpoints_enabled()) {
    WARN("skipped: built without failpoints");
    return;
  }
  with_fake([](FakeHost& host) -> async::Task<void> {
    const std::string armed = host.ground.dir.file("armed");
    ::setenv("ATE_FAILPOINT", ("@" + armed).c_str(), 1);
    std::int64_t serial = 1;
    for (const char* name :
         {"gvisor-kill", "gvisor-killed", "gvisor-leaf-removed", "gvisor-removed"}) {
      INFO(name);
      const Result<SandboxPtr> sandbox = co_await host.boot(serial++);
      REQUIRE(sandbox);
      write_file(armed, std::string(name) + "=error");
      const Status first = co_await (*sandbox)->destroy(std::chrono::milliseconds(0));
      CHECK_FALSE(first);
      const Status second = co_await (*sandbox)->destroy(std::chrono::milliseconds(0));
      CHECK(second);
    }
    ::unsetenv("ATE_FAILPOINT");
    std::filesystem::remove(armed);
  });
}

TEST_CASE("gvisor faults: a failed start that can't be undone is undone later, never two at once") {
  if (!failpoints_enabled()) {
    WARN("skipped: built without failpoints");
    return;
  }
  with_fake([](FakeHost& host) -> async::Task<void> {
    const std::string armed = host.ground.dir.file("armed");
    ::setenv("ATE_FAILPOINT", ("@" + armed).c_str(), 1);
    write_file(armed, "gvisor-started=error\ngvisor-kill=error");
    const Result<SandboxPtr> failed = co_await host.boot(1);
    REQUIRE_FALSE(failed);
    const Result<SandboxPtr> early = co_await host.boot(2);
    REQUIRE_FALSE(early);
    CHECK(early.error().message().find("would not end yet") != std::string::npos);
    const Status busy = co_await host.runtime->forget_actor(kUid);
    CHECK_FALSE(busy);
    Status forgotten = busy;
    while (!forgotten) {  // bounded by the limit of the whole case
      co_await async::sleep_for(std::chrono::milliseconds(20));
      forgotten = co_await host.runtime->forget_actor(kUid);
    }
    const Result<SandboxPtr> booted = co_await host.boot(3);
    REQUIRE(booted);
    const Status ended = co_await (*booted)->destroy(std::chrono::milliseconds(0));
    CHECK(ended);
    ::unsetenv("ATE_FAILPOINT");
    std::filesystem::remove(armed);
  });
}

TEST_CASE("gvisor faults: a restore of the EOF class is tried twice, others once") {
  // case T22
  with_fake([](FakeHost& host) -> async::Task<void> {
    const Result<SandboxPtr> booted = co_await host.boot(1);
    REQUIRE(booted);
    auto manifest = std::make_shared<v1alpha1::SnapshotManifest>();
    Stages stages;
    const std::string directory = host.ground.dir.file("snap");
    const Status saved = co_await (*booted)->checkpoint(directory, manifest, stages);
    REQUIRE(saved);
    const Status ended = co_await (*booted)->destroy(std::chrono::milliseconds(0));
    REQUIRE(ended);
    std::int64_t serial = 2;
    for (const char* script : {"restore eof-once\n", "restore exit 128\n"}) {
      host.script(script);
      const Result<runtime::Identity> reserved = co_await host.runtime->reserve();
      REQUIRE(reserved);
      runtime::RestorePlan plan;
      plan.incarnation = incarnation_of(kUid, serial++);
      plan.spec = workload_spec();
      plan.directory = directory;
      plan.manifest = manifest;
      plan.images.push_back({.container = "app", .rootfs = host.ground.rootfs()});
      const Result<SandboxPtr> restored =
          co_await host.runtime->restore(std::move(plan), *reserved, stages);
      if (script != std::string("restore eof-once\n")) {
        REQUIRE_FALSE(restored);
        continue;
      }
      REQUIRE(restored);
      const Status gone = co_await (*restored)->destroy(std::chrono::milliseconds(0));
      REQUIRE(gone);
    }
    const Result<std::string> path = host.assets.path_of(host.digest);
    REQUIRE(path);
    std::filesystem::remove(os::parent_dir(*path) + "/fake.marker");
  });
}

TEST_CASE("gvisor faults: a binary that fails its self-test starts nothing") {
  with_fake([](FakeHost& host) -> async::Task<void> {
    write_file(host.paths.state_dir() + "/selftest", "");
    host.script("run exit 128\n");
    for (int attempt = 1; attempt <= 2; ++attempt) {
      const Result<SandboxPtr> sandbox = co_await host.boot(attempt);
      REQUIRE_FALSE(sandbox);
      REQUIRE(sandbox.error().code() == Errc::Unavailable);
      REQUIRE(sandbox.error().message().find("scripted failure of run") != std::string::npos);
    }
    host.script("flags exit 1\n");
    const Status again = co_await host.runtime->self_test({{"runsc", host.digest}}, {});
    REQUIRE_FALSE(again);
    co_await host.install();
    host.script("");
    const Status passed = co_await host.runtime->self_test({{"runsc", host.digest}}, {});
    REQUIRE(passed);
  });
}
