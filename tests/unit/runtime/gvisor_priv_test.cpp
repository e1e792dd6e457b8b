// The gVisor runtime with a real runsc.
#include <signal.h>
#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "runtime/world.hpp"
#include "support/run_coro.hpp"
#include "support/small_disk.hpp"

using namespace ate;
using namespace ate::test;
using runtime::SandboxExit;

namespace {

const std::string kUid = "01j0abcdefghjkmnpqrstvwxyz";
const std::string kOther = "01j0bbcdefghjkmnpqrstvwxyz";

/// Real sandboxes on a machine that has other things to do.
constexpr std::chrono::seconds kLimit(120);

using SandboxPtr = std::unique_ptr<runtime::Sandbox>;

async::Task<std::string> import_runsc(Host& host) {
  std::string path = std::getenv("ATE_TEST_RUNSC");
  const Result<std::string> digest = co_await host.assets.import(path, std::string());
  REQUIRE(digest);
  co_return *digest;
}

async::Task<SandboxPtr> boot(Host& host, std::string uid, std::int64_t serial,
                             std::shared_ptr<v1alpha1::ActorTemplateSpec> spec) {
  const std::string digest = co_await import_runsc(host);
  const Result<runtime::Identity> reserved = co_await host.runtime->reserve();
  REQUIRE(reserved);
  Stages stages;
  Result<SandboxPtr> sandbox = co_await host.runtime->boot(
      boot_plan(host.ground, digest, uid, serial, std::move(spec)), *reserved, stages);
  if (!sandbox) {
    FAIL(sandbox.error().message());
  }
  co_return std::move(*sandbox);
}

struct Saved {
  std::string directory;
  std::shared_ptr<v1alpha1::SnapshotManifest> manifest;
};

async::Task<Result<Saved>> save(runtime::Sandbox& sandbox, std::string directory) {
  std::filesystem::create_directories(directory);
  Saved saved{.directory = directory, .manifest = std::make_shared<v1alpha1::SnapshotManifest>()};
  saved.manifest->set_version(1);
  saved.manifest->set_scope("FULL");
  Stages stages;
  const Status done = co_await sandbox.checkpoint(directory, saved.manifest, stages);
  ATE_CO_TRY(done);
  co_return saved;
}

runtime::RestorePlan restore_plan(const Ground& ground, const Saved& saved, const std::string& uid,
                                  std::int64_t serial) {
  runtime::RestorePlan plan;
  plan.incarnation = incarnation_of(uid, serial);
  plan.spec = workload_spec();
  plan.directory = saved.directory;
  plan.manifest = saved.manifest;
  runtime::ContainerImage image;
  image.container = "app";
  image.rootfs = ground.rootfs();
  plan.images.push_back(image);
  return plan;
}

async::Task<Result<SandboxPtr>> restore(Host& host, Saved saved, std::string uid,
                                        std::int64_t serial) {
  const Result<runtime::Identity> reserved = co_await host.runtime->reserve();
  REQUIRE(reserved);
  Stages stages;
  co_return co_await host.runtime->restore(restore_plan(host.ground, saved, uid, serial), *reserved,
                                           stages);
}

async::Task<Status> ready(runtime::Sandbox& sandbox) {
  Stages stages;
  co_return co_await sandbox.ready(stages);
}

/// Runs `scenario(host)` and checks that it leaves nothing behind. The first host passes the
/// self-test, so that its results and the asset are part of what was there before.
template <class Scenario>
void in_world(bool with_cgroup, Scenario scenario) {
  Ground ground;
  if (with_cgroup && ground.cgroup_root.empty()) {
    WARN("no cgroup2 can be mounted here");
    return;
  }
  runtime::GvisorOptions options = options_of(ground);
  if (!with_cgroup) {
    options.cgroup_root.clear();
  }
  auto warm = [&](async::Context& context) -> async::Task<void> {
    Host host(context, ground, options);
    const SandboxPtr sandbox = co_await boot(host, kUid, 1, workload_spec());
    const Status ended = co_await sandbox->destroy(std::chrono::milliseconds(0));
    REQUIRE(ended);
    const Status forgotten = co_await host.runtime->forget_actor(kUid);
    REQUIRE(forgotten);
    co_await host.close();
  };
  run_coro(warm, kLimit);
  const Traces before = look(ground);
  auto body = [&](async::Context& context) -> async::Task<void> {
    Host host(context, ground, options);
    co_await scenario(host);
    for (const std::string& uid : {kUid, kOther}) {
      const Status forgotten = co_await host.runtime->forget_actor(uid);
      REQUIRE(forgotten);
    }
    co_await host.close();
  };
  run_coro(body, kLimit);
  CHECK(differences(before, look(ground)) == std::vector<std::string>{});
}

async::Task<void> whole_life(Host& host) {
  // case T17
  SandboxPtr sandbox = co_await boot(host, kUid, 2, workload_spec());
  const Status open = co_await ready(*sandbox);
  REQUIRE(open);
  const std::string one = co_await get(host, *sandbox, "/count");
  REQUIRE(one == "1\n");
  const std::string who = co_await get(host, *sandbox, "/whoami");
  REQUIRE(who == "0 0 /tmp actor\n");
  const std::string colour = co_await get(host, *sandbox, "/env?name=COLOUR");
  REQUIRE(colour == "blue\n");
  const std::string uid = co_await get(host, *sandbox, "/read?path=/run/ate/uid");
  REQUIRE(uid == kUid);
  const std::string wrote = co_await get(host, *sandbox, "/write?path=/tmp/note&data=kept");
  REQUIRE(wrote == "ok\n");
  REQUIRE(sandbox->network_bytes() > 500);
  const std::int64_t resident = co_await sandbox->resident_bytes();
  REQUIRE(resident > 50'000);
  std::string text = "2\n";
  for (int cycle = 0; cycle < 3; ++cycle) {
    const Result<Saved> saved =
        co_await save(*sandbox, host.ground.dir.file("snap-" + std::to_string(cycle)));
    REQUIRE(saved);
    const Status killed = co_await sandbox->destroy(std::chrono::milliseconds(0));
    REQUIRE(killed);
    const Status again = co_await sandbox->destroy(std::chrono::milliseconds(0));
    REQUIRE(again);
    Result<SandboxPtr> next = co_await restore(host, *saved, kOther, 3 + cycle);
    if (!next) {
      FAIL(next.error().message());
    }
    sandbox = std::move(*next);
    const Status opened = co_await ready(*sandbox);
    REQUIRE(opened);
    const std::string count = co_await get(host, *sandbox, "/count");
    REQUIRE(count == std::to_string(cycle + 2) + "\n");
  }
  // Identity is of the new incarnation, files written before are there.
  const std::string other = co_await get(host, *sandbox, "/read?path=/run/ate/uid");
  REQUIRE(other == kOther);
  const std::string note = co_await get(host, *sandbox, "/read?path=/tmp/note");
  REQUIRE(note == "kept");
  const Status killed = co_await sandbox->destroy(std::chrono::milliseconds(0));
  REQUIRE(killed);
}

}  // namespace

TEST_CASE("gvisor: boot, save, restore three times over; nothing is left") {
  SECTION("with a cgroup2 for membership") {
    in_world(true, whole_life);
  }
  SECTION("without any cgroup") {
    in_world(false, whole_life);
  }
}

TEST_CASE("gvisor: a save that fails leaves an actor that goes on") {
  // cases T11, T15
  in_world(true, [](Host& host) -> async::Task<void> {
    const SandboxPtr sandbox = co_await boot(host, kUid, 2, workload_spec());
    const Status open = co_await ready(*sandbox);
    REQUIRE(open);
    const std::string allocated = co_await get(host, *sandbox, "/alloc?mib=4");
    REQUIRE(allocated == "ok\n");
    const std::string full = host.ground.dir.file("full");
    std::filesystem::create_directories(full);
    {
      const SmallDisk disk(full, "1m");
      const Result<Saved> saved = co_await save(*sandbox, disk.file("snap"));
      REQUIRE_FALSE(saved);
      INFO(saved.error().message());
      REQUIRE(saved.error().code() == Errc::DiskFull);
    }
    const Status resumed = co_await sandbox->unpause();
    REQUIRE(resumed);
    const Status twice = co_await sandbox->unpause();
    REQUIRE(twice);
    const std::string count = co_await get(host, *sandbox, "/count");
    REQUIRE(count == "1\n");
    const Status killed = co_await sandbox->destroy(std::chrono::milliseconds(0));
    REQUIRE(killed);
  });
}

TEST_CASE("gvisor: how an actor ended") {
  in_world(true, [](Host& host) -> async::Task<void> {
    struct Row {
      std::string action;
      SandboxExit::Cause cause;
      int code;
      int signal;
    };
    const std::vector<Row> rows = {{"/exit?code=7", SandboxExit::Cause::Exited, 7, 0},
                                   {"/exit?code=0", SandboxExit::Cause::Exited, 0, 0},
                                   {"/abort", SandboxExit::Cause::Exited, 134, 0},
                                   {"TERM", SandboxExit::Cause::Exited, 143, 0},
                                   {"outside", SandboxExit::Cause::Killed, 0, SIGKILL}};
    std::int64_t serial = 2;
    for (const Row& row : rows) {
      const SandboxPtr sandbox = co_await boot(host, kUid, serial++, workload_spec());
      const Status open = co_await ready(*sandbox);
      REQUIRE(open);
      if (row.action == "TERM") {
        const Status sent = co_await sandbox->signal(SIGTERM, "");
        REQUIRE(sent);
      } else if (row.action == "outside") {
        REQUIRE(::kill(sandbox->identity().pid, SIGKILL) == 0);
      } else {
        const std::string none = co_await get(host, *sandbox, row.action);
        REQUIRE(none.empty());
      }
      const SandboxExit exit = co_await sandbox->exited();
      INFO(row.action << ": " << exit.detail);
      REQUIRE(exit.cause == row.cause);
      REQUIRE(exit.exit_code == row.code);
      REQUIRE(exit.signal == row.signal);
      const Result<Saved> late = co_await save(*sandbox, host.ground.dir.file("late"));
      REQUIRE_FALSE(late);  // case T14
      REQUIRE(late.error().code() == Errc::RuntimeFailed);
      const Status killed = co_await sandbox->destroy(std::chrono::milliseconds(0));
      REQUIRE(killed);
    }
  });
}

TEST_CASE("gvisor: an actor that ends before it is ready says how") {
  in_world(true, [](Host& host) -> async::Task<void> {
    auto spec = workload_spec();
    spec->mutable_containers(0)->add_args("fail");
    spec->mutable_containers(0)->add_args("9");
    const SandboxPtr sandbox = co_await boot(host, kUid, 2, spec);
    const Status open = co_await ready(*sandbox);
    REQUIRE_FALSE(open);
    INFO(open.error().message());
    REQUIRE(open.error().message().find("code 9") != std::string::npos);
    REQUIRE(open.error().message().find("refusing to start") != std::string::npos);
    const Status killed = co_await sandbox->destroy(std::chrono::milliseconds(0));
    REQUIRE(killed);
  });
}

TEST_CASE("gvisor: a gate that does not open in time is NotReady and says what was seen") {
  in_world(true, [](Host& host) -> async::Task<void> {
    auto spec = workload_spec();
    spec->mutable_containers(0)->mutable_readyz()->set_timeout("300ms");
    spec->mutable_containers(0)->mutable_readyz()->mutable_http()->set_path("/none");
    const SandboxPtr sandbox = co_await boot(host, kUid, 2, spec);
    const Status open = co_await ready(*sandbox);
    REQUIRE_FALSE(open);
    REQUIRE(open.error().code() == Errc::NotReady);
    REQUIRE(open.error().message().find("404") != std::string::npos);
    const Status killed = co_await sandbox->destroy(std::chrono::milliseconds(200));
    REQUIRE(killed);
  });
}

TEST_CASE("gvisor: a start that fails names the reason and leaves nothing") {
  // case T22
  in_world(true, [](Host& host) -> async::Task<void> {
    const std::string digest = co_await import_runsc(host);
    auto spec = workload_spec();
    spec->mutable_containers(0)->set_command(0, "/missing");
    const Result<runtime::Identity> reserved = co_await host.runtime->reserve();
    REQUIRE(reserved);
    Stages stages;
    const Result<SandboxPtr> sandbox = co_await host.runtime->boot(
        boot_plan(host.ground, digest, kUid, 2, spec), *reserved, stages);
    REQUIRE_FALSE(sandbox);
    REQUIRE(sandbox.error().code() == Errc::RuntimeFailed);
    REQUIRE(sandbox.error().message().find("/missing") != std::string::npos);
  });
}

TEST_CASE("gvisor: restore refuses what does not fit, and survives a damaged image") {
  // cases T22, T31, T32
  in_world(true, [](Host& host) -> async::Task<void> {
    const SandboxPtr sandbox = co_await boot(host, kUid, 2, workload_spec());
    const Status open = co_await ready(*sandbox);
    REQUIRE(open);
    const Result<Saved> saved = co_await save(*sandbox, host.ground.dir.file("snap"));
    REQUIRE(saved);
    const Status killed = co_await sandbox->destroy(std::chrono::milliseconds(0));
    REQUIRE(killed);

    Saved foreign = *saved;
    foreign.manifest = std::make_shared<v1alpha1::SnapshotManifest>(*saved->manifest);
    foreign.manifest->add_cpu_features("zz_future");
    const Result<SandboxPtr> no_cpu = co_await restore(host, foreign, kUid, 3);
    REQUIRE_FALSE(no_cpu);
    REQUIRE(no_cpu.error().code() == Errc::SnapshotIncompatible);
    REQUIRE(no_cpu.error().field() == "cpuFeatures");

    Saved broken = *saved;
    broken.directory = host.ground.dir.file("broken");
    std::filesystem::copy(saved->directory, broken.directory);
    std::filesystem::resize_file(broken.directory + "/pages.img", 1000);
    const Result<SandboxPtr> damaged = co_await restore(host, broken, kUid, 4);
    REQUIRE_FALSE(damaged);
    REQUIRE(damaged.error().code() == Errc::RuntimeFailed);

    Result<SandboxPtr> good = co_await restore(host, *saved, kUid, 5);
    REQUIRE(good);
    const Status opened = co_await ready(**good);
    REQUIRE(opened);
    const Status ended = co_await (*good)->destroy(std::chrono::milliseconds(0));
    REQUIRE(ended);
  });
}

TEST_CASE("gvisor: two actors of one image at a time, the image stays as it is") {
  // case T40
  in_world(true, [](Host& host) -> async::Task<void> {
    const SandboxPtr first = co_await boot(host, kUid, 2, workload_spec());
    auto spec = workload_spec();
    const std::string digest = co_await import_runsc(host);
    const Result<runtime::Identity> reserved = co_await host.runtime->reserve();
    REQUIRE(reserved);
    runtime::BootPlan plan = boot_plan(host.ground, digest, kOther, 2, spec);
    plan.incarnation.worker = "small-1";
    Stages stages;
    const Result<SandboxPtr> second =
        co_await host.runtime->boot(std::move(plan), *reserved, stages);
    REQUIRE(second);
    for (const runtime::Sandbox* each : {first.get(), second->get()}) {
      auto& sandbox = const_cast<runtime::Sandbox&>(*each);
      const Status open = co_await ready(sandbox);
      REQUIRE(open);
      const std::string count = co_await get(host, sandbox, "/count");
      REQUIRE(count == "1\n");
      const std::string wrote = co_await get(host, sandbox, "/write?path=/etc/new&data=x");
      REQUIRE(wrote == "ok\n");
    }
    const Status one = co_await first->destroy(std::chrono::milliseconds(0));
    REQUIRE(one);
    const Status two = co_await (*second)->destroy(std::chrono::milliseconds(0));
    REQUIRE(two);
  });
}

TEST_CASE("gvisor: what a dead daemon left is found and ended, what runs is shown as live") {
  // cases T12, T45
  const bool with_cgroup = GENERATE(true, false);
  in_world(with_cgroup, [](Host& host) -> async::Task<void> {
    SandboxPtr sandbox = co_await boot(host, kUid, 2, workload_spec());
    const Status open = co_await ready(*sandbox);
    REQUIRE(open);
    const pid_t pid = sandbox->identity().pid;
    sandbox.reset();  // closes, never kills
    REQUIRE(::kill(pid, 0) == 0);
    co_await host.runtime->shutdown();
    runtime::GvisorOptions options;
    options.cgroup_root = host.ground.cgroup_root;
    const auto next = runtime::make_gvisor(host.context, host.reaper, host.netns, host.assets,
                                           host.paths, options);
    const Result<std::vector<runtime::Leftover>> found = co_await next->observe();
    REQUIRE(found);
    std::set<std::string> kinds;
    bool live = false;
    for (const runtime::Leftover& leftover : *found) {
      kinds.insert(leftover.kind);
      live = live || leftover.live;
      REQUIRE(leftover.uid == kUid);
      REQUIRE(leftover.serial == 2);
    }
    REQUIRE(live);
    REQUIRE(kinds.contains("rundir"));
    REQUIRE(kinds.contains("netns"));
    REQUIRE(kinds.contains("overlay"));
    for (const runtime::Leftover& leftover : *found) {
      const Status purged = co_await next->purge(leftover);
      INFO(leftover.kind << " " << leftover.id);
      REQUIRE(purged);
      const Status again = co_await next->purge(leftover);
      REQUIRE(again);
    }
    const Result<std::vector<runtime::Leftover>> rest = co_await next->observe();
    REQUIRE(rest);
    REQUIRE(rest->empty());
    const async::ChildExit exit = co_await host.reaper.wait(pid);
    static_cast<void>(exit);  // by SIGKILL, or by itself when it saw its gofer go: it is reaped
    co_await next->shutdown();
  });
}
