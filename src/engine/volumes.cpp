// Durable volumes: what a start finds in them, and how a snapshot gets its copies
// (docs/volumes.md).
#include <algorithm>

#include "ate/core/units.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "engine/snapshot_ops.hpp"

namespace ate::engine {

namespace {

/// Whose a new volume is: the user of the first container that may write to it.
Status find_owner(const v1alpha1::ActorTemplateSpec& spec,
                  const std::vector<runtime::ContainerImage>& images, artifacts::VolumePlan& plan) {
  for (const v1alpha1::Container& container : spec.containers()) {
    const bool writes =
        std::ranges::any_of(container.volume_mounts(), [&plan](const v1alpha1::VolumeMount& mount) {
          return mount.name() == plan.name && !mount.read_only();
        });
    const auto image = std::ranges::find(
        images, container.name(), [](const runtime::ContainerImage& i) { return i.container; });
    if (writes && image != images.end()) {
      ATE_ASSIGN(const image::User user, image::resolve_user(image->rootfs, image->user));
      plan.uid = user.uid;
      plan.gid = user.gid;
      return {};
    }
  }
  return {};
}

/// Blocking: it reads the images' passwd files.
Result<std::vector<artifacts::VolumePlan>> plan_volumes(
    const v1alpha1::ActorTemplateSpec& spec, const std::vector<runtime::ContainerImage>& images) {
  std::vector<artifacts::VolumePlan> plans;
  for (const v1alpha1::Volume& volume : spec.volumes()) {
    if (!volume.has_durable_dir()) {
      continue;
    }
    artifacts::VolumePlan plan;
    plan.name = volume.name();
    if (!volume.durable_dir().size().empty()) {
      ATE_ASSIGN(plan.size_bytes, core::parse_bytes(volume.durable_dir().size()));
    }
    ATE_TRY(find_owner(spec, images, plan));
    plans.push_back(std::move(plan));
  }
  return plans;
}

bool has_volumes(const v1alpha1::ActorTemplateSpec& spec) {
  return std::ranges::any_of(spec.volumes(), [](const auto& v) { return v.has_durable_dir(); });
}

}  // namespace

std::shared_ptr<const v1alpha1::ActorTemplate> Engine::State::blueprint_of(
    const EntryPtr& entry) const {
  const std::shared_ptr<const v1alpha1::Actor> actor = entry->actor();
  const v1alpha1::TemplateRef& reference = actor->spec().template_();
  return templates.find_template(entry->atespace(), reference.name(), reference.generation());
}

Status Engine::State::check_save_scope(const EntryPtr& entry, const Save& save) const {
  const std::string scope(core::name(save.scope));
  if (save.scope != core::Scope::Full && save.volumes.empty()) {
    return fail(Error(Errc::InvalidValue,
                      "scope " + scope + " keeps durable volumes only, and the template has none")
                    .with_field("scope"));
  }
  const auto blueprint = blueprint_of(entry);
  const bool golden = blueprint != nullptr && blueprint->spec().snapshots().golden();
  if (save.scope == core::Scope::DataOnGolden && !golden) {
    return fail(Error(Errc::InvalidValue, "scope " + scope +
                                              " starts from the golden snapshot, and the template "
                                              "generation asks for none (snapshots.golden)")
                    .with_field("scope"));
  }
  return {};
}

core::Scope Engine::State::scope_of(const EntryPtr& entry, core::State transient,
                                    const std::string& asked) const {
  if (const std::optional<core::Scope> scope = core::parse_scope(asked)) {
    return *scope;
  }
  const auto blueprint = blueprint_of(entry);
  if (blueprint == nullptr) {
    return core::Scope::Full;
  }
  const v1alpha1::SnapshotPolicy& policy = blueprint->spec().snapshots();
  const v1alpha1::SnapshotPolicy::Scope scope =
      transient == core::State::Pausing ? policy.on_pause() : policy.on_suspend();
  return core::parse_scope(v1alpha1::SnapshotPolicy::Scope_Name(scope)).value_or(core::Scope::Full);
}

std::vector<std::string> Engine::State::volume_names(const EntryPtr& entry) const {
  const auto blueprint = blueprint_of(entry);
  std::vector<std::string> names;
  if (blueprint != nullptr) {
    for (const v1alpha1::Volume& volume : blueprint->spec().volumes()) {
      if (volume.has_durable_dir()) {
        names.push_back(volume.name());
      }
    }
  }
  return names;
}

async::Task<Status> Engine::State::ready_volumes(EntryPtr entry, RunPtr run,
                                                 std::shared_ptr<Start> start) {
  const bool saved =
      start->copies.manifest != nullptr && start->copies.manifest->volumes_size() > 0;
  if (!saved && !has_volumes(start->blueprint->spec())) {
    co_return Status();
  }
  StageTimer timer(*run, clock, "volumes");
  if (!start->choice.volumes.empty()) {
    ATE_CO_TRY(co_await bring_back(entry, run, start));
  }
  std::function<Result<std::vector<artifacts::VolumePlan>>()> plan = [start] {
    return plan_volumes(start->blueprint->spec(), start->images);
  };
  ATE_CO_ASSIGN(const std::vector<artifacts::VolumePlan> plans,
                co_await async::run_blocking(context, std::move(plan)));
  ATE_CO_ASSIGN(start->volumes, co_await volumes.make(entry->uid(), plans));
  co_return Status();
}

async::Task<Status> Engine::State::bring_back(EntryPtr entry, RunPtr run,
                                              std::shared_ptr<Start> start) {
  start->touched = true;
  const artifacts::VolumeStore::Cancelled cancelled = [run] { return run->cancel.load(); };
  Status back;
  if (start->choice.volumes == core::kVolumesAsNew) {
    back = co_await volumes.reset(entry->uid());
  } else {
    back = co_await volumes.restore(entry->uid(), start->copies, cancelled);
  }
  if (!back) {
    co_await tidy_volumes(entry->uid());
  }
  co_return back;
}

async::Task<Status> Engine::State::stop_guest(RunPtr run, std::shared_ptr<Save> save) {
  StageTimer timer(*run, clock, "stop");
  // The worker stays taken until the record says that it is free.
  save->guest->destroying = true;
  co_return co_await save->guest->sandbox->destroy(save->grace);
}

async::Task<Status> Engine::State::save_volumes(RunPtr run, std::shared_ptr<Save> save,
                                                std::string directory) {
  StageTimer timer(*run, clock, "volumes");
  const artifacts::VolumeStore::Cancelled cancelled = [run] { return run->cancel.load(); };
  co_return co_await volumes.save(run->actor_uid(), save->volumes, std::move(directory),
                                  save->manifest, cancelled);
}

async::Task<void> Engine::State::tidy_volumes(std::string uid) {
  const Status status = co_await volumes.remove(uid, false);
  if (!status) {
    // The next start of the actor tries again.
    log.error("what an interrupted restore of volumes left would not go",
              {{"uid", uid}, {"error", status.error().message()}});
  }
}

}  // namespace ate::engine
