#include "runtime/gvisor/plans.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "ate/artifacts/artifacts.hpp"
#include "ate/core/units.hpp"
#include "ate/image/image.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"
#include "runtime/gvisor/compatibility.hpp"
#include "runtime/gvisor/sandbox.hpp"

namespace ate::runtime::gvisor {
namespace {

using SpecPtr = std::shared_ptr<const v1alpha1::ActorTemplateSpec>;

Result<const ContainerImage*> image_of(const std::vector<ContainerImage>& images,
                                       const std::string& container) {
  const auto found = std::ranges::find(images, container, &ContainerImage::container);
  if (found == images.end()) {
    return fail(Errc::Internal, "no image was resolved for container " + container);
  }
  return &*found;
}

/// What boot and restore have in common.
Result<ContainerPlan> common_plan(const SpecPtr& spec, int index, const ContainerImage& image,
                                  const std::map<std::string, std::string>& volumes) {
  const v1alpha1::Container& container = spec->containers(index);
  ContainerPlan plan;
  plan.name = container.name();
  plan.rootfs = image.rootfs;
  plan.sidecar = container.sidecar();
  const int stop_signal = parse_signal(image.stop_signal);
  plan.stop_signal = stop_signal == 0 ? SIGTERM : stop_signal;
  if (container.has_readyz()) {
    // Shares ownership with the spec.
    plan.gate = std::shared_ptr<const v1alpha1::Readyz>(spec, &container.readyz());
  }
  plan.binds = [spec, index, volumes](const Layout& layout) {
    return bind_sources(layout, *spec, index, volumes);
  };
  return plan;
}

Status check_mounts(const std::string& rootfs, const v1alpha1::Container& container) {
  std::vector<image::MountPoint> points = {
      {core::kResolvConf, false}, {core::kHosts, false}, {core::kHostnameFile, false}};
  for (const v1alpha1::VolumeMount& mount : container.volume_mounts()) {
    points.push_back({mount.mount_path(), true});
  }
  return image::check_mount_points(rootfs, points);
}

Result<ContainerPlan> boot_container(const BootPlan& boot, int index) {
  const SpecPtr spec = boot.spec;
  ATE_ASSIGN(const ContainerImage* found, image_of(boot.images, spec->containers(index).name()));
  const ContainerImage& image = *found;
  ATE_TRY(check_mounts(image.rootfs, spec->containers(index)));
  ATE_ASSIGN(ContainerPlan plan, common_plan(spec, index, image, boot.volumes));
  core::OciPlan oci;
  oci.image = {.entrypoint = image.entrypoint,
               .cmd = image.cmd,
               .env = image.env,
               .working_dir = image.working_dir};
  ATE_ASSIGN(image::User user, image::resolve_user(image.rootfs, image.user));
  oci.user = {.uid = user.uid,
              .gid = user.gid,
              .additional_gids = std::move(user.additional_gids),
              .home = std::move(user.home)};
  oci.index = static_cast<std::size_t>(index);
  ATE_ASSIGN(oci.template_env, template_env(spec->containers(index), index, boot.secrets_dir));
  if (spec->containers_size() > 1) {
    oci.pod = {.name = plan.name, .sandbox = core::kRunscContainerId};
  }
  plan.make_spec = [spec, oci, index](const core::OciPaths& paths) {
    core::OciPlan whole = oci;
    whole.paths = paths;
    return core::build_oci_spec(whole, spec->containers(index));
  };
  return plan;
}

Status check_spec(const SpecPtr& spec) {
  if (spec == nullptr || spec->containers_size() == 0) {
    return fail(Errc::Internal, "a template without containers");
  }
  return {};
}

Error other_containers(const std::string& saved, const std::string& wanted) {
  return Error(Errc::SnapshotIncompatible,
               "the snapshot has the containers " + saved + ", the template generation " + wanted)
      .with_field("containers")
      .with("snapshotValue", saved)
      .with("templateValue", wanted);
}

/// The saved form of a container; null when the snapshot has but one.
Result<const v1alpha1::ContainerSnapshot*> saved_container(
    const v1alpha1::SnapshotManifest& manifest, const v1alpha1::ActorTemplateSpec& spec,
    const std::string& name) {
  const bool one = manifest.containers().empty();
  const auto found = std::ranges::find_if(manifest.containers(),
                                          [&name](const auto& c) { return c.name() == name; });
  const bool same_number =
      one ? spec.containers_size() == 1 : spec.containers_size() == manifest.containers_size();
  if (same_number && one) {
    return nullptr;
  }
  if (same_number && found != manifest.containers().end()) {
    return &*found;
  }
  std::string saved;
  for (const auto& container : manifest.containers()) {
    saved += (saved.empty() ? "" : ", ") + container.name();
  }
  std::string wanted;
  for (const auto& container : spec.containers()) {
    wanted += (wanted.empty() ? "" : ", ") + container.name();
  }
  return fail(other_containers(one ? "of one container" : saved, wanted));
}

Result<ContainerPlan> restore_container(const RestorePlan& plan, int index) {
  const SpecPtr spec = plan.spec;
  const std::shared_ptr<const v1alpha1::SnapshotManifest> manifest = plan.manifest;
  const std::string& name = spec->containers(index).name();
  ATE_ASSIGN(const ContainerImage* image, image_of(plan.images, name));
  ATE_ASSIGN(ContainerPlan out, common_plan(spec, index, *image, plan.volumes));
  ATE_ASSIGN(const v1alpha1::ContainerSnapshot* saved, saved_container(*manifest, *spec, name));
  if (saved == nullptr) {
    out.make_spec = [manifest](const core::OciPaths& paths) {
      return core::with_runtime_paths(manifest->oci_spec(), paths);
    };
    return out;
  }
  out.cold = saved->cold();
  out.sidecar = saved->sidecar();
  out.restarts = saved->restarts();
  if (saved->has_exit_code()) {
    out.exit_code = saved->exit_code();
  }
  out.make_spec = [manifest, saved](const core::OciPaths& paths) {
    return core::with_runtime_paths(saved->oci_spec(), paths);
  };
  return out;
}

/// What holds for the whole sandbox. A restored guest keeps the quota that it was saved with, which
/// is this one: a memory never moves to another generation of the template.
Status take_settings(const v1alpha1::ActorTemplateSpec& spec, StartPlan& start) {
  start.nat = spec.egress() == v1alpha1::ActorTemplateSpec::nat;
  if (!spec.disk_quota().empty()) {
    ATE_ASSIGN(start.disk_quota_bytes, core::parse_bytes(spec.disk_quota()));
  }
  return {};
}

}  // namespace

std::string value_or(const std::map<std::string, std::string>& map, const std::string& key,
                     const std::string& fallback) {
  const auto found = map.find(key);
  return found == map.end() || found->second.empty() ? fallback : found->second;
}

Result<StartPlan> plan_boot(const Services& services, const BootPlan& plan) {
  ATE_TRY(check_spec(plan.spec));
  StartPlan start;
  start.incarnation = plan.incarnation;
  start.platform = value_or(plan.options, kPlatformOption, kDefaultPlatform);
  ATE_TRY(take_settings(*plan.spec, start));
  ATE_ASSIGN(start.runsc, services.assets.path_of(value_or(plan.assets, kAsset, "")));
  for (int i = 0; i < plan.spec->containers_size(); ++i) {
    ATE_ASSIGN(ContainerPlan container, boot_container(plan, i));
    start.containers.push_back(std::move(container));
  }
  if (plan.spec->containers_size() > 1) {
    start.make_pause_spec = [](const core::OciPaths& paths) -> Result<std::string> {
      return core::build_pause_spec(paths);
    };
  }
  return start;
}

Result<StartPlan> plan_restore(const Services& services, const RestorePlan& plan) {
  ATE_TRY(check_spec(plan.spec));
  const std::shared_ptr<const v1alpha1::SnapshotManifest> manifest = plan.manifest;
  StartPlan start;
  start.incarnation = plan.incarnation;
  start.platform = runtime_value(*manifest, kPlatformOption);
  ATE_TRY(take_settings(*plan.spec, start));
  start.image_path = plan.directory;
  for (const v1alpha1::SnapshotFile& file : manifest->files()) {
    start.image_bytes += file.bytes();
  }
  ATE_ASSIGN(start.runsc, services.assets.path_of(asset_digest(*manifest)));
  for (int i = 0; i < plan.spec->containers_size(); ++i) {
    ATE_ASSIGN(ContainerPlan container, restore_container(plan, i));
    start.containers.push_back(std::move(container));
  }
  if (!manifest->containers().empty()) {
    start.make_pause_spec = [manifest](const core::OciPaths& paths) {
      return core::with_runtime_paths(manifest->oci_spec(), paths);
    };
  }
  return start;
}

}  // namespace ate::runtime::gvisor
