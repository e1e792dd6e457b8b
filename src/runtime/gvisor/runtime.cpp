// The gVisor side of runtime::Runtime.
#include <sys/utsname.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ate/artifacts/artifacts.hpp"
#include "ate/os/fs.hpp"
#include "ate/runtime/gvisor.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "runtime/gvisor/compatibility.hpp"
#include "runtime/gvisor/guest.hpp"
#include "runtime/gvisor/leftovers.hpp"
#include "runtime/gvisor/plans.hpp"
#include "runtime/gvisor/sandbox.hpp"
#include "runtime/gvisor/trial.hpp"

namespace ate::runtime {
namespace gvisor {
namespace {

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? std::string(name.release) : std::string();
}

class GvisorRuntime final : public Runtime {
 public:
  GvisorRuntime(async::Context& context, async::Reaper& reaper, net::NetnsFactory& netns,
                const artifacts::AssetStore& assets, const core::Paths& paths,
                GvisorOptions options)
      : services_(context, reaper, netns, assets, paths, std::move(options)) {}

  std::string class_name() const override { return "gvisor"; }

  async::Task<Status> self_test(std::map<std::string, std::string> assets,
                                std::map<std::string, std::string> options) override;
  async::Task<Result<std::map<std::string, std::string>>> fingerprint(
      std::map<std::string, std::string> assets,
      std::map<std::string, std::string> options) override;
  Status can_restore(const v1alpha1::SnapshotManifest& manifest) const override;
  async::Task<Result<Identity>> reserve() override;
  async::Task<void> release(Identity reserved) override;
  async::Task<Result<std::unique_ptr<Sandbox>>> boot(BootPlan plan, Identity reserved,
                                                     StageSink& stages) override;
  async::Task<Result<std::unique_ptr<Sandbox>>> restore(RestorePlan plan, Identity reserved,
                                                        StageSink& stages) override;
  async::Task<Result<std::vector<Leftover>>> observe() override;
  async::Task<Status> purge(Leftover leftover) override;
  async::Task<Status> forget_actor(std::string uid) override;
  async::Task<void> shutdown() override;

 private:
  async::Task<Status> tested(std::string digest, std::string platform, bool may_test);
  async::Task<Result<std::vector<std::string>>> features_of(std::string digest);
  Result<net::NetnsPair> take(const Identity& reserved);
  async::Task<Result<GuestPtr>> launch(StartPlan plan, Identity reserved, StageSink& stages);
  async::Task<Result<GuestPtr>> checked_boot(std::shared_ptr<const BootPlan> plan,
                                             Identity reserved, StageSink& stages);
  async::Task<Result<GuestPtr>> checked_restore(std::shared_ptr<const RestorePlan> plan,
                                                Identity reserved, StageSink& stages);

  Services services_;
  std::map<std::string, net::NetnsPair> reserved_;
  std::map<std::string, TrialPtr> trials_;                    // by digest and platform
  std::map<std::string, std::vector<std::string>> features_;  // by digest
};

async::Task<Status> GvisorRuntime::self_test(std::map<std::string, std::string> assets,
                                             std::map<std::string, std::string> options) {
  const std::string digest = value_or(assets, kAsset, "");
  if (digest.empty()) {
    co_return fail(Error(Errc::AssetInvalid, "a gvisor SandboxConfig needs the asset runsc")
                       .with_field("spec.assets.runsc"));
  }
  std::string platform = value_or(options, kPlatformOption, kDefaultPlatform);
  // Asked for again, a failed test is tried again: the reason may have gone.
  const auto found = trials_.find(digest + " " + platform);
  if (found != trials_.end() && found->second->health.state == Health::State::Failed) {
    trials_.erase(found);
  }
  co_return co_await tested(digest, std::move(platform), true);
}

/// Joins a running test, tells the result of an earlier one, or (may_test) runs it now.
async::Task<Status> GvisorRuntime::tested(std::string digest, std::string platform, bool may_test) {
  TrialPtr trial;
  const std::string key = digest + " " + platform;
  if (const auto found = trials_.find(key); found != trials_.end()) {
    trial = found->second;
    co_await trial->done.wait();
  } else if (!may_test) {
    co_return Status{};
  } else {
    trial = std::make_shared<Trial>(services_.context);
    trials_[key] = trial;
    Result<std::string> path = services_.assets.path_of(digest);
    if (!path) {
      trials_.erase(key);
      trial->done.set();
      co_return fail(std::move(path).error());
    }
    const Status result =
        co_await run_trial(services_, trial, digest, std::move(*path), std::move(platform));
    static_cast<void>(result);  // told below, to everybody alike
    features_[digest] = trial->cpu_features;
  }
  if (trial->health.state != Health::State::Passed) {
    co_return fail(Errc::Unavailable,
                   "runsc " + digest + " did not pass its self-test: " + trial->health.detail);
  }
  co_return Status{};
}

async::Task<Result<std::vector<std::string>>> GvisorRuntime::features_of(std::string digest) {
  const auto known = features_.find(digest);
  if (known != features_.end() && !known->second.empty()) {
    co_return known->second;
  }
  ATE_CO_ASSIGN(std::string path, services_.assets.path_of(digest));
  Result<std::vector<std::string>> features =
      co_await probe_cpu_features(services_, std::move(path));
  if (features) {
    features_[digest] = *features;
  }
  co_return features;
}

async::Task<Result<std::map<std::string, std::string>>> GvisorRuntime::fingerprint(
    std::map<std::string, std::string> assets, std::map<std::string, std::string> options) {
  const std::string digest = value_or(assets, kAsset, "");
  ATE_CO_ASSIGN(const std::vector<std::string> features, co_await features_of(digest));
  std::map<std::string, std::string> parts;
  parts["asset.runsc"] = digest;
  parts["platform"] = value_or(options, kPlatformOption, kDefaultPlatform);
  parts["network"] = kNetworkMode;
  parts["overlay"] = kOverlayMode;
  parts["specBuilder"] = core::kOciSpecBuilder;
  std::string& all = parts["cpuFeatures"];
  for (const std::string& feature : features) {
    all += (all.empty() ? "" : ",") + feature;
  }
  co_return parts;
}

Status GvisorRuntime::can_restore(const v1alpha1::SnapshotManifest& manifest) const {
  ATE_TRY(check_manifest(manifest));
  const std::string digest = asset_digest(manifest);
  if (const Result<std::string> path = services_.assets.path_of(digest); !path) {
    // Told of the snapshot, which needs it, not of a SandboxConfig that somebody just wrote.
    Error error = path.error();
    return fail(std::move(error)
                    .with_code(Errc::SnapshotIncompatible)
                    .with_field("assets.runsc")
                    .with("snapshotValue", digest));
  }
  // Not asked yet: restore() asks the snapshot's own binary before it starts anything.
  const auto known = features_.find(digest);
  return known == features_.end() ? Status{} : check_cpu(manifest, known->second);
}

async::Task<Result<Identity>> GvisorRuntime::reserve() {
  Result<net::NetnsPair> pair = co_await acquire_network(services_);
  if (!pair) {
    co_return fail(std::move(pair).error());
  }
  Identity identity{.pid = 0, .start_time = 0, .netns_id = pair->id};
  reserved_[identity.netns_id] = std::move(*pair);
  co_return identity;
}

async::Task<void> GvisorRuntime::release(Identity reserved) {
  const auto found = reserved_.find(reserved.netns_id);
  if (found == reserved_.end()) {
    co_return;
  }
  net::NetnsPair pair = std::move(found->second);
  reserved_.erase(found);
  co_await release_network(services_, std::move(pair));
}

Result<net::NetnsPair> GvisorRuntime::take(const Identity& reserved) {
  const auto found = reserved_.find(reserved.netns_id);
  if (found == reserved_.end()) {
    return fail(Errc::Internal, "network " + reserved.netns_id + " was not reserved here");
  }
  net::NetnsPair pair = std::move(found->second);
  reserved_.erase(found);
  return pair;
}

async::Task<Result<GuestPtr>> GvisorRuntime::launch(StartPlan plan, Identity reserved,
                                                    StageSink& stages) {
  ATE_CO_ASSIGN(plan.netns, take(reserved));
  co_return co_await start_guest(services_, std::move(plan), stages);
}

async::Task<Result<GuestPtr>> GvisorRuntime::checked_boot(std::shared_ptr<const BootPlan> plan,
                                                          Identity reserved, StageSink& stages) {
  const Status fit =
      co_await tested(value_or(plan->assets, kAsset, ""),
                      value_or(plan->options, kPlatformOption, kDefaultPlatform), true);
  ATE_CO_TRY(fit);
  // Reads the image's passwd and secret files.
  auto job = [this, plan]() { return plan_boot(services_, *plan); };
  Result<StartPlan> start = co_await async::run_blocking(services_.context, job);
  if (!start) {
    co_return fail(std::move(start).error());
  }
  co_return co_await launch(std::move(*start), reserved, stages);
}

async::Task<Result<GuestPtr>> GvisorRuntime::checked_restore(
    std::shared_ptr<const RestorePlan> plan, Identity reserved, StageSink& stages) {
  const v1alpha1::SnapshotManifest& manifest = *plan->manifest;
  ATE_CO_TRY(can_restore(manifest));
  const std::string digest = asset_digest(manifest);
  // A binary that only snapshots name isn't tested: the restore itself will tell.
  const Status fit = co_await tested(digest, runtime_value(manifest, kPlatformOption), false);
  ATE_CO_TRY(fit);
  const Result<std::vector<std::string>> features = co_await features_of(digest);
  ATE_CO_TRY(features);
  ATE_CO_TRY(check_cpu(manifest, *features));
  ATE_CO_ASSIGN(StartPlan start, plan_restore(services_, *plan));
  co_return co_await launch(std::move(start), reserved, stages);
}

async::Task<Result<std::unique_ptr<Sandbox>>> GvisorRuntime::boot(BootPlan plan, Identity reserved,
                                                                  StageSink& stages) {
  auto shared = std::make_shared<const BootPlan>(std::move(plan));
  Result<GuestPtr> guest = co_await checked_boot(shared, reserved, stages);
  if (!guest) {
    co_await release(reserved);
    co_return fail(std::move(guest).error());
  }
  const std::string digest = value_or(shared->assets, kAsset, "");
  Provenance provenance{.assets = shared->assets,
                        .cpu_features = features_[digest],
                        .kernel = kernel_release(),
                        .platform = value_or(shared->options, kPlatformOption, kDefaultPlatform)};
  co_return make_sandbox(std::move(*guest), std::move(provenance));
}

async::Task<Result<std::unique_ptr<Sandbox>>> GvisorRuntime::restore(RestorePlan plan,
                                                                     Identity reserved,
                                                                     StageSink& stages) {
  auto shared = std::make_shared<const RestorePlan>(std::move(plan));
  Result<GuestPtr> guest = co_await checked_restore(shared, reserved, stages);
  if (!guest) {
    co_await release(reserved);
    co_return fail(std::move(guest).error());
  }
  const v1alpha1::SnapshotManifest& manifest = *shared->manifest;
  Provenance provenance{
      .assets = {manifest.assets().begin(), manifest.assets().end()},
      .cpu_features = {manifest.cpu_features().begin(), manifest.cpu_features().end()},
      .kernel = kernel_release(),
      .platform = runtime_value(manifest, kPlatformOption)};
  co_return make_sandbox(std::move(*guest), std::move(provenance));
}

async::Task<Result<std::vector<Leftover>>> GvisorRuntime::observe() {
  // Copies: the search runs on the pool.
  const Held held{.guests = services_.alive, .networks = services_.networks};
  auto job = [this, held]() { return find_leftovers(services_, held); };
  co_return co_await async::run_blocking(services_.context, job);
}

async::Task<Status> GvisorRuntime::purge(Leftover leftover) {
  co_return co_await purge_leftover(services_, std::move(leftover));
}

async::Task<Status> GvisorRuntime::forget_actor(std::string uid) {
  if (services_.undead.contains(uid)) {
    co_return fail(Errc::RuntimeFailed, "a sandbox of actor " + uid + " would not end yet");
  }
  auto job = [this, uid]() { return os::remove_tree(services_.paths.actor(uid)); };
  co_return co_await async::run_blocking(services_.context, job);
}

async::Task<void> GvisorRuntime::shutdown() {
  while (!reserved_.empty()) {
    const Identity left{.pid = 0, .start_time = 0, .netns_id = reserved_.begin()->first};
    co_await release(left);
  }
  constexpr std::chrono::milliseconds kTeardown(500);
  const bool finished = co_await services_.teardown.drain(kTeardown);
  static_cast<void>(finished);  // IGNORED: what is cut short is found by observe()
  co_await services_.teardown.close();
  co_await services_.watchers.close();
  co_await services_.netns.drain();
}

}  // namespace
}  // namespace gvisor

std::unique_ptr<Runtime> make_gvisor(async::Context& context, async::Reaper& reaper,
                                     net::NetnsFactory& netns, const artifacts::AssetStore& assets,
                                     const core::Paths& paths, GvisorOptions options) {
  return std::make_unique<gvisor::GvisorRuntime>(context, reaper, netns, assets, paths,
                                                 std::move(options));
}

}  // namespace ate::runtime
