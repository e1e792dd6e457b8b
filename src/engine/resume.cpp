// SUSPENDED, PAUSED (and with {boot: true} EXITED, CRASHED) -> RUNNING.
#include "ate/core/units.hpp"
#include "ate/util/ids.hpp"
#include "engine/side.hpp"
#include "engine/state.hpp"

namespace ate::engine {

namespace {

constexpr const char* kGuestAddress = "169.254.17.2";
constexpr std::chrono::milliseconds kCancelPeriod(200);

runtime::ContainerImage to_image(const std::string& container, const image::Unpacked& unpacked) {
  runtime::ContainerImage out;
  out.container = container;
  out.digest = unpacked.digest;
  out.rootfs = unpacked.rootfs;
  out.entrypoint = unpacked.config.entrypoint;
  out.cmd = unpacked.config.cmd;
  out.env = unpacked.config.env;
  out.user = unpacked.config.user;
  out.working_dir = unpacked.config.working_dir;
  out.stop_signal = unpacked.config.stop_signal;
  return out;
}

/// A restored guest has open files of exactly these root file systems.
Status check_images(const v1alpha1::SnapshotManifest& manifest,
                    const std::vector<runtime::ContainerImage>& images) {
  for (const runtime::ContainerImage& image : images) {
    const auto saved = manifest.images().find(image.container);
    if (saved != manifest.images().end() && saved->second != image.digest) {
      return fail(Error(Errc::SnapshotIncompatible,
                        "container " + image.container + " was saved on image " + saved->second +
                            ", the template generation now has " + image.digest)
                      .with("snapshotImage", saved->second)
                      .with("templateImage", image.digest));
    }
  }
  return {};
}

runtime::Incarnation incarnation_of(const Entry& entry, const Start& start) {
  runtime::Incarnation incarnation;
  incarnation.atespace = entry.atespace();
  incarnation.name = entry.name();
  incarnation.uid = entry.uid();
  incarnation.template_name = start.blueprint->metadata().name();
  incarnation.template_generation = start.blueprint->metadata().generation();
  incarnation.serial = start.serial;
  incarnation.worker = start.slot.worker;
  incarnation.limits = start.slot.limits;
  return incarnation;
}

/// What the runtime says of a memory that meets files it has never seen is no explanation.
Error told_of(const Start& start, Error error) {
  if (start.source != core::Source::DataOnGolden) {
    return error;
  }
  return std::move(error).context(
      "golden snapshot " + start.choice.memory +
      " could not be restored onto the actor's own volumes, where each file that its guest has "
      "open must be there under its name and of its kind (`resume` with {\"boot\": true} starts "
      "cold on them)");
}

void show_volumes(const Start& start, v1alpha1::ActorStatus& status) {
  status.clear_volumes();
  for (const artifacts::Volume& volume : start.volumes) {
    v1alpha1::VolumeStatus& shown = *status.add_volumes();
    shown.set_name(volume.name);
    shown.set_size_bytes(volume.size_bytes);
    shown.set_quota(volume.size_bytes == 0 ? "none" : volume.enforced ? "enforced" : "unenforced");
    if (volume.size_bytes > 0) {
      shown.set_message(volume.why_not);
    }
  }
}

void show_disk(const Start& start, v1alpha1::ActorStatus& status) {
  const std::string& asked = start.blueprint->spec().disk_quota();
  v1alpha1::DiskStatus& shown = *status.mutable_disk();
  shown.set_size_bytes(core::parse_bytes(asked).value_or(0));
  shown.set_quota(asked.empty() ? "none" : "enforced");
}

std::shared_ptr<const v1alpha1::ActorTemplateSpec> spec_of(const Start& start) {
  return {start.blueprint, &start.blueprint->spec()};
}

}  // namespace

async::Task<Status> Engine::State::run_resume(EntryPtr entry, RunPtr run, core::Decision decision) {
  auto start = std::make_shared<Start>();
  start->origin = entry->state();
  start->source = decision.source;
  Status status = co_await prepare_start(entry, run, start);
  if (!status) {
    distrust_golden(entry, *start, status.error());
    co_return status;
  }
  status = co_await begin_start(entry, run, start);
  if (!status && !run->intent) {
    co_await drop_start(entry, start);
    co_return status;
  }
  if (status) {
    status = co_await launch(entry, run, start);
  }
  if (status) {
    status = co_await commit_running(entry, run, start);
  }
  start->held.reset();
  if (!status) {
    distrust_golden(entry, *start, status.error());
    co_await undo_start(entry, run, start, status.error());
  }
  co_return status;
}

async::Task<Status> Engine::State::prepare_start(EntryPtr entry, RunPtr run,
                                                 std::shared_ptr<Start> start) {
  StageTimer timer(*run, clock, "select");
  const GuestPtr leftover = live(entry)->guest;
  if (leftover != nullptr) {
    // An earlier sandbox that would not end: never two of one actor.
    ATE_CO_TRY(co_await retire(entry, leftover, std::chrono::milliseconds(0)));
  }
  const std::shared_ptr<const v1alpha1::ActorRecord> record = entry->record();
  const v1alpha1::TemplateRef& reference = record->actor().spec().template_();
  start->blueprint =
      templates.find_template(entry->atespace(), reference.name(), reference.generation());
  if (start->blueprint == nullptr) {
    co_return fail(Errc::StateConflict, "actor " + entry->label() + ": its ActorTemplate " +
                                            reference.name() + " generation " +
                                            std::to_string(reference.generation()) + " is gone");
  }
  const std::string class_name =
      v1alpha1::SandboxClass_Name(start->blueprint->spec().sandbox_class());
  const auto found = runtimes.find(class_name);
  if (found == runtimes.end()) {
    co_return fail(Errc::Unavailable, "this node has no runtime of class " + class_name);
  }
  start->runtime = found->second;
  start->serial = std::max<std::int64_t>(record->next_serial(), 1);
  ATE_CO_TRY(co_await open_source(entry, run, start));
  ATE_CO_TRY(co_await take_worker(entry, start));
  Result<runtime::Identity> reserved = co_await start->runtime->reserve();
  if (!reserved) {
    worker_free(start->slot.worker, entry->uid());
    co_return fail(std::move(reserved).error());
  }
  start->reserved = std::move(*reserved);
  start->reserved_open = true;
  co_return Status();
}

async::Task<Status> Engine::State::take_worker(EntryPtr entry, std::shared_ptr<Start> start) {
  const v1alpha1::ActorTemplateSpec& spec = start->blueprint->spec();
  ATE_CO_ASSIGN(core::Demand demand, workers.demand(spec, start->opened.manifest.get()));
  demand.spare = start->spare;
  if (start->size) {
    demand.baked = start->size;
  }
  ATE_CO_ASSIGN(start->slot, co_await take_slot(std::move(demand), entry->uid()));
  if (start->opened.manifest == nullptr) {
    const std::string class_name = v1alpha1::SandboxClass_Name(spec.sandbox_class());
    start->config = templates.sandbox_config(start->slot.sandbox_config, class_name);
    if (start->config == nullptr) {
      worker_free(start->slot.worker, entry->uid());
      co_return fail(Errc::Unavailable,
                     start->slot.sandbox_config.empty()
                         ? "no SandboxConfig is the default of class " + class_name
                         : "there is no SandboxConfig " + start->slot.sandbox_config);
    }
  }
  mark_in_use(*start);
  co_return Status();
}

async::Task<void> Engine::State::drop_start(EntryPtr entry, std::shared_ptr<Start> start) {
  if (std::exchange(start->reserved_open, false)) {
    co_await start->runtime->release(start->reserved);
  }
  worker_free(start->slot.worker, entry->uid());
}

async::Task<Status> Engine::State::fetch_images(std::shared_ptr<Start> start) {
  const Result<Templates::Images> images = co_await templates.images(start->blueprint);
  if (!images) {
    co_return fail(images.error());
  }
  for (const auto& [container, unpacked] : *images) {
    start->images.push_back(to_image(container, unpacked));
  }
  co_return start->opened.manifest == nullptr
      ? Status()
      : check_images(*start->opened.manifest, start->images);
}

async::Task<Status> Engine::State::begin_start(EntryPtr entry, RunPtr run,
                                               std::shared_ptr<Start> start) {
  ATE_CO_TRY(next_stage(*run));
  ATE_CO_TRY(pass_failpoint("resume-before-intent"));
  Side<void> images(context, background, "images", fetch_images(start));
  Change change;
  change.run = run;
  change.edit = [this, start](v1alpha1::ActorRecord& record) {
    v1alpha1::ActorStatus& status = *record.mutable_actor()->mutable_status();
    record.set_booted_from_state(encode_origin(start->origin, status.reason()));
    record.set_next_serial(start->serial + 1);
    record.set_boot_id(settings.boot_id);
    record.set_netns_id(start->reserved.netns_id);
    set_marks(record, core::marks_of_start(start->marks));
    set_state(record, core::State::Resuming);
    status.set_reason("");
    status.set_message("");
    status.clear_containers();
    status.set_worker(start->slot.worker);
  };
  StageTimer timer(*run, clock, "intent");
  const Status saved = co_await this->change(entry, std::move(change));
  timer.stop();
  run->intent = saved.has_value();
  if (saved) {
    run->begun.set();
  }
  ATE_CO_TRY(Status(saved));
  // An image that is still being unpacked takes its time; a force delete need not wait for it.
  bool there = co_await images.wait_for(kCancelPeriod);
  while (!there) {
    ATE_CO_TRY(next_stage(*run));
    there = co_await images.wait_for(kCancelPeriod);
  }
  const Status fetched = co_await images.join();
  ATE_CO_TRY(Status(fetched));
  co_return pass_failpoint("resume-after-intent");
}

async::Task<Result<std::unique_ptr<runtime::Sandbox>>> Engine::State::launch_sandbox(
    EntryPtr entry, RunPtr run, std::shared_ptr<Start> start) {
  start->reserved_open = false;  // from here on it is the runtime's
  std::map<std::string, std::string> directories;
  for (const artifacts::Volume& volume : start->volumes) {
    directories.emplace(volume.name, volume.path);
  }
  if (start->opened.manifest == nullptr) {
    runtime::BootPlan plan;
    plan.incarnation = incarnation_of(*entry, *start);
    plan.spec = spec_of(*start);
    plan.images = start->images;
    plan.volumes = std::move(directories);
    const auto& pinned = start->config->status().pinned();
    plan.assets.insert(pinned.begin(), pinned.end());
    if (!start->config->spec().gvisor().platform().empty()) {
      plan.options["platform"] = start->config->spec().gvisor().platform();
    }
    plan.secrets_dir = settings.secrets_dir;
    co_return co_await start->runtime->boot(std::move(plan), start->reserved, *run);
  }
  runtime::RestorePlan plan;
  plan.incarnation = incarnation_of(*entry, *start);
  plan.spec = spec_of(*start);
  plan.directory = start->opened.directory;
  plan.manifest = start->opened.manifest;
  plan.images = start->images;
  plan.volumes = std::move(directories);
  co_return co_await start->runtime->restore(std::move(plan), start->reserved, *run);
}

async::Task<Status> Engine::State::launch(EntryPtr entry, RunPtr run,
                                          std::shared_ptr<Start> start) {
  ATE_CO_TRY(next_stage(*run));
  ATE_CO_TRY(co_await ready_volumes(entry, run, start));
  ATE_CO_TRY(next_stage(*run));
  start->touched = true;
  std::optional<Side<void>> verify;
  if (start->opened.manifest != nullptr && !start->opened.trusted) {
    verify.emplace(context, background, "verify", snapshots.verify_payload(start->opened));
  }
  Result<std::unique_ptr<runtime::Sandbox>> sandbox = co_await launch_sandbox(entry, run, start);
  GuestPtr guest;
  if (sandbox) {
    guest = adopt(entry, std::move(*sandbox), *start);
  }
  if (verify) {
    StageTimer timer(*run, clock, "verify");
    // Its word comes first: a corrupt payload is why a restore fails.
    const Status whole = co_await verify->join();
    start->bad_memory = !whole;
    ATE_CO_TRY(Status(whole));
  }
  if (!sandbox) {
    co_return fail(told_of(*start, std::move(sandbox).error()));
  }
  ATE_CO_TRY(pass_failpoint("resume-after-launch"));
  ATE_CO_TRY(next_stage(*run));
  ATE_CO_TRY(co_await guest->sandbox->ready(*run));
  ATE_CO_TRY(next_stage(*run));
  co_return pass_failpoint("resume-after-ready");
}

async::Task<Status> Engine::State::commit_running(EntryPtr entry, RunPtr run,
                                                  std::shared_ptr<Start> start) {
  const GuestPtr guest = live(entry)->guest;
  if (guest == nullptr || guest->destroying) {
    co_return fail(Errc::Cancelled, "its sandbox was ended meanwhile");
  }
  core::Ending ending;
  ending.state = core::State::Resuming;
  ending.origin = start->origin;
  const core::Settled settled = core::settle(ending, core::Outcome::Done);
  const bool restart = run->command() == core::Command::Restart;
  const runtime::Identity identity = guest->sandbox->identity();
  Change change;
  change.run = run;
  change.ends_run = true;
  change.edit = [guest, start, settled, restart, identity](v1alpha1::ActorRecord& record) {
    v1alpha1::ActorStatus& status = *record.mutable_actor()->mutable_status();
    set_state(record, settled.state);
    status.set_reason(settled.reason);
    status.set_message("");
    status.set_restored_from(std::string(core::name(start->source)));
    status.set_address(kGuestAddress);
    status.mutable_sandbox()->set_class_(start->blueprint->spec().sandbox_class());
    status.mutable_sandbox()->set_serial(start->serial);
    status.mutable_guest()->set_memory_bytes(guest->limits.guest_memory_bytes);
    status.mutable_guest()->set_vcpus(guest->limits.guest_vcpus);
    write_containers(record, guest->sandbox->containers());
    record.set_sandbox_pid(identity.pid);
    record.set_sandbox_start(static_cast<std::int64_t>(identity.start_time));
    record.set_booted_from_state("");
    set_marks(record, core::marks_of_run());
    show_volumes(*start, status);
    show_disk(*start, status);
    if (restart) {
      status.set_restarts(status.restarts() + 1);
      record.set_restart_streak(record.restart_streak() + 1);
    } else {
      record.set_restart_streak(0);
    }
  };
  StageTimer timer(*run, clock, "commit");
  ATE_CO_TRY(co_await this->change(entry, std::move(change)));
  timer.stop();
  const std::shared_ptr<Live> live = this->live(entry);
  live->last_activity = now();
  live->network_bytes = guest->sandbox->network_bytes();
  // The state is RUNNING now: this failpoint can only end the process.
  static_cast<void>(failpoint("resume-after-commit"));
  co_return Status();
}

async::Task<void> Engine::State::end_start(EntryPtr entry, std::shared_ptr<Start> start) {
  const GuestPtr guest = live(entry)->guest;
  if (guest != nullptr) {
    const Status gone = co_await retire(entry, guest, std::chrono::milliseconds(0));
    static_cast<void>(gone);  // logged there; the worker stays taken until it is gone
  } else {
    co_await drop_start(entry, start);
  }
}

async::Task<void> Engine::State::undo_start(EntryPtr entry, RunPtr run,
                                            std::shared_ptr<Start> start, Error error) {
  co_await end_start(entry, start);
  const auto [origin, origin_reason] = decode_origin(entry->record()->booted_from_state());
  core::Ending ending;
  ending.state = core::State::Resuming;
  ending.origin = origin;
  ending.origin_reason = origin_reason;
  const core::Settled settled = core::settle(
      ending, error.code() == Errc::Cancelled ? core::Outcome::Cancelled : core::Outcome::Failed);
  Change change;
  change.run = run;
  change.ends_run = true;
  change.error = error;
  change.message = error.message();
  change.even_unsaved = true;
  const bool restart = run->command() == core::Command::Restart;
  const WallTime wall = clock.wall();
  change.edit = [this, settled, restart, wall, start,
                 message = error.message()](v1alpha1::ActorRecord& record) {
    set_state(record, settled.state);
    if (!start->touched) {
      set_marks(record, start->marks);  // nothing has written to them
    }
    if (restart) {
      record.set_restart_streak(record.restart_streak() + 1);
      plan_restart(record, settled.state, wall);
    }
    record.mutable_actor()->mutable_status()->set_reason(settled.reason);
    record.mutable_actor()->mutable_status()->set_message(escape_text(message, 1024));
  };
  const Status saved = co_await this->change(entry, std::move(change));
  static_cast<void>(saved);  // logged there; reconcile would come to the same state
}

}  // namespace ate::engine
