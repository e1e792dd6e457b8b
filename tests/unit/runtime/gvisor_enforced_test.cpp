// Budgets with a real runsc on a real cgroup v2 tree; skipped where controllers are v1's.
#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "runtime/world.hpp"
#include "support/run_coro.hpp"
#include "support/skipped.hpp"

using namespace ate;
using namespace ate::test;
using runtime::SandboxExit;

namespace {

const std::string kUid = "01j0abcdefghjkmnpqrstvwxyz";
constexpr std::chrono::seconds kLimit(120);

using SandboxPtr = std::unique_ptr<runtime::Sandbox>;

runtime::WorkerLimits limits_of(std::int64_t mebibytes) {
  runtime::WorkerLimits limits;
  limits.memory_bytes = mebibytes << 20;
  limits.cpu_milli = 1500;
  limits.pids = 1000;
  return limits;
}

async::Task<std::string> import_runsc(Host& host) {
  std::string path = std::getenv("ATE_TEST_RUNSC");
  const Result<std::string> digest = co_await host.assets.import(path, std::string());
  REQUIRE(digest);
  co_return *digest;
}

async::Task<SandboxPtr> boot(Host& host, std::int64_t serial, std::int64_t mebibytes) {
  const std::string digest = co_await import_runsc(host);
  const Result<runtime::Identity> reserved = co_await host.runtime->reserve();
  if (!reserved) {
    FAIL(reserved.error().message());
  }
  runtime::BootPlan plan = boot_plan(host.ground, digest, kUid, serial, workload_spec());
  plan.incarnation.limits = limits_of(mebibytes);
  Stages stages;
  Result<SandboxPtr> sandbox = co_await host.runtime->boot(std::move(plan), *reserved, stages);
  if (!sandbox) {
    FAIL(sandbox.error().message());
  }
  const Status open = co_await (*sandbox)->ready(stages);
  REQUIRE(open);
  co_return std::move(*sandbox);
}

template <class Scenario>
void enforced(Scenario scenario) {
  Ground ground;
  EnforcedTree tree;
  if (tree.root.empty()) {
    ATE_TEST_SKIPPED(tree.missing);
    return;
  }
  runtime::GvisorOptions options;
  options.enforcement = true;
  options.cgroup_root = tree.root;
  auto body = [&](async::Context& context) -> async::Task<void> {
    Host host(context, ground, options);
    co_await scenario(host, tree.root);
    co_await host.close();
  };
  run_coro(body, kLimit);
}

}  // namespace

TEST_CASE(
    "gvisor enforced: the leaf carries the budget, the guest sees it, a restore gets its own") {
  enforced([](Host& host, std::string root) -> async::Task<void> {
    const SandboxPtr sandbox = co_await boot(host, 2, 512);
    const std::string leaf = root + "/small-0/2";
    REQUIRE(read_file(leaf + "/memory.max") == "536870912\n");
    REQUIRE(read_file(leaf + "/memory.oom.group") == "1\n");
    REQUIRE(read_file(leaf + "/cpu.max") == "150000 100000\n");
    REQUIRE(read_file(leaf + "/pids.max") == "1000\n");
    REQUIRE(read_file(root + "/small-0/memory.max") == "536870912\n");
    const std::string seen = co_await get(host, *sandbox, "/read?path=/proc/meminfo");
    INFO(seen);
    REQUIRE(seen.find("MemTotal:         524288 kB") != std::string::npos);
    const std::string count = co_await get(host, *sandbox, "/count");
    REQUIRE(count == "1\n");
    auto manifest = std::make_shared<v1alpha1::SnapshotManifest>();
    const std::string directory = host.ground.dir.file("snap");
    std::filesystem::create_directories(directory);
    Stages stages;
    const Status saved = co_await sandbox->checkpoint(directory, manifest, stages);
    REQUIRE(saved);
    const Status ended = co_await sandbox->destroy(std::chrono::milliseconds(0));
    REQUIRE(ended);
    REQUIRE_FALSE(os::exists(leaf));

    const Result<runtime::Identity> reserved = co_await host.runtime->reserve();
    REQUIRE(reserved);
    runtime::RestorePlan plan;
    plan.incarnation = incarnation_of(kUid, 3);
    plan.incarnation.limits = limits_of(768);
    plan.spec = workload_spec();
    plan.directory = directory;
    plan.manifest = manifest;
    plan.images.push_back({.container = "app", .rootfs = host.ground.rootfs()});
    const Result<SandboxPtr> restored =
        co_await host.runtime->restore(std::move(plan), *reserved, stages);
    if (!restored) {
      FAIL(restored.error().message());
    }
    const Status open = co_await (*restored)->ready(stages);
    REQUIRE(open);
    REQUIRE(read_file(root + "/small-0/3/memory.max") == "805306368\n");
    const std::string again = co_await get(host, **restored, "/count");
    REQUIRE(again == "2\n");
    const Status gone = co_await (*restored)->destroy(std::chrono::milliseconds(0));
    REQUIRE(gone);
    REQUIRE(os::exists(root + "/small-0"));
  });
}

TEST_CASE("gvisor enforced: a guest beyond its budget is ended and the cause is told") {
  // case T44
  enforced([](Host& host, std::string root) -> async::Task<void> {
    const SandboxPtr sandbox = co_await boot(host, 2, 256);
    const std::string none = co_await get(host, *sandbox, "/alloc?mib=1024");
    REQUIRE(none.empty());
    const SandboxExit exit = co_await sandbox->exited();
    INFO(exit.detail);
    REQUIRE(exit.cause == SandboxExit::Cause::CgroupOom);
    REQUIRE(exit.detail.find(root + "/small-0/2") != std::string::npos);
    const Status gone = co_await sandbox->destroy(std::chrono::milliseconds(0));
    REQUIRE(gone);
  });
}
