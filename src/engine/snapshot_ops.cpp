// RUNNING -> PAUSED or SUSPENDED through a snapshot, PAUSED -> SUSPENDED, and what becomes of
// snapshots.
#include "engine/snapshot_ops.hpp"

#include "ate/util/ids.hpp"
#include "engine/side.hpp"

namespace ate::engine {

namespace {

/// Manifest, state files and directory blocks beside the guest's memory.
constexpr std::int64_t kBesideMemory = std::int64_t{16} << 20;

std::shared_ptr<v1alpha1::SnapshotManifest> new_manifest(const Entry& entry, const Guest& guest,
                                                         const std::string& id,
                                                         const std::string& kind, WallTime now) {
  const std::shared_ptr<const v1alpha1::Actor> actor = entry.actor();
  auto manifest = std::make_shared<v1alpha1::SnapshotManifest>();
  manifest->set_version(1);
  manifest->set_id(id);
  *manifest->mutable_actor() = entry.ref();
  *manifest->mutable_template_() = actor->spec().template_();
  manifest->set_kind(kind);
  manifest->set_scope("FULL");
  manifest->set_created_at(format_rfc3339(now));
  manifest->set_sandbox_class(actor->status().sandbox().class_());
  manifest->set_memory_bytes(guest.limits.guest_memory_bytes);
  manifest->set_vcpus(guest.limits.guest_vcpus);
  manifest->set_overhead_bytes(guest.overhead_bytes);
  manifest->mutable_images()->insert(guest.images.begin(), guest.images.end());
  return manifest;
}

const char* kind_of(core::State transient) {
  if (transient == core::State::Running) {
    return "live";
  }
  return transient == core::State::Pausing ? "pause" : "suspend";
}

}  // namespace

std::string failpoint_name(const Run& run, const char* where) {
  return run.verb + "-" + where;
}

std::shared_ptr<v1alpha1::Snapshot> snapshot_row(const v1alpha1::SnapshotManifest& manifest,
                                                 const artifacts::SnapshotStore::Sealed& sealed) {
  auto row = std::make_shared<v1alpha1::Snapshot>();
  row->set_id(manifest.id());
  *row->mutable_actor() = manifest.actor();
  *row->mutable_template_() = manifest.template_();
  row->set_kind(manifest.kind());
  row->set_scope(manifest.scope());
  row->set_created_at(manifest.created_at());
  row->set_bytes(sealed.bytes);
  row->set_manifest_sha256(sealed.manifest_sha256);
  row->set_state("Ready");
  for (const v1alpha1::SnapshotVolume& volume : manifest.volumes()) {
    row->set_volume_bytes(row->volume_bytes() + volume.bytes());
  }
  return row;
}

async::Task<Status> Engine::State::run_save(EntryPtr entry, RunPtr run, core::Decision decision,
                                            VerbOptions options) {
  if (decision.at_once) {
    co_return co_await commit_paused(entry, run, options.scope);
  }
  auto save = std::make_shared<Save>();
  save->transient = decision.transient;
  save->scope = scope_of(entry, decision.transient, options.scope);
  save->grace = options.grace.value_or(termination_grace(entry));
  if (options.grace) {
    co_await drain_holds(entry, run, *options.grace);
  }
  ATE_CO_TRY(co_await prepare_save(entry, run, save));
  Status status = co_await write_snapshot(entry, run, save);
  if (!status && !run->intent) {
    discard({save->id});
    co_return status;
  }
  if (status) {
    status = co_await flip(entry, run, save);
  }
  if (!status) {
    Error told = co_await undo_save(entry, run, save, status.error());
    co_return fail(std::move(told));
  }
  {
    // It is durable; now nothing of the old incarnation may stay before the reply.
    StageTimer timer(*run, clock, "destroy");
    const Status gone = co_await retire(entry, save->guest, std::chrono::milliseconds(0));
    static_cast<void>(gone);  // logged there; the suspend itself is done (case T13)
  }
  run->prolong();
  journal.later(run->row());
  static_cast<void>(failpoint(failpoint_name(*run, "after-destroy")));
  co_return Status();
}

/// A grace lets the connections that are open end by themselves before the guest stands still.
async::Task<void> Engine::State::drain_holds(EntryPtr entry, RunPtr run,
                                             std::chrono::milliseconds grace) {
  StageTimer timer(*run, clock, "drain");
  const std::shared_ptr<Live> live = this->live(entry);
  if (live->holds + live->tunnels > 0) {
    const bool ended = co_await live->let_go.wait_for(grace);
    static_cast<void>(ended);  // what is still open then is saved as it is
  }
}

async::Task<Status> Engine::State::commit_paused(EntryPtr entry, RunPtr run, std::string scope) {
  const SnapshotRows::Row paused = snapshot_rows.find(pointers_of(*entry->record()).pause);
  if (!scope.empty() && paused != nullptr && paused->scope() != scope) {
    co_return fail(Error(Errc::StateConflict, "actor " + entry->label() +
                                                  ": it was paused with scope " + paused->scope() +
                                                  ", and a suspend commits that snapshot")
                       .with_field("scope"));
  }
  ATE_CO_TRY(pass_failpoint("suspend-before-intent"));
  core::Ending ending;
  ending.state = core::State::Suspending;
  ending.pointers = pointers_of(*entry->record());
  const core::Settled settled = core::settle(ending, core::Outcome::Done);
  const core::Moved moved = core::move_pointers(ending.pointers, settled);
  const std::shared_ptr<const MarkedIds> going = release(entry, moved.garbage);
  Change change;
  change.run = run;
  change.ends_run = true;
  change.drop_snapshots = going->ids();
  const SnapshotRows::Row row = snapshot_rows.find(moved.pointers.committed);
  if (row != nullptr) {
    auto promoted = std::make_shared<v1alpha1::Snapshot>(*row);
    promoted->set_kind("suspend");
    change.put_snapshots.push_back(std::move(promoted));
  }
  change.edit = [settled, moved](v1alpha1::ActorRecord& record) {
    set_state(record, settled.state);
    record.mutable_actor()->mutable_status()->set_reason(settled.reason);
    set_pointers(record, moved.pointers);
  };
  ATE_CO_TRY(co_await this->change(entry, std::move(change)));
  run->intent = true;
  discard(going->ids());
  co_return Status();
}

async::Task<Status> Engine::State::prepare_save(EntryPtr entry, RunPtr run,
                                                std::shared_ptr<Save> save) {
  StageTimer timer(*run, clock, "select");
  const std::shared_ptr<Live> live = this->live(entry);
  save->guest = live->guest;
  if (save->guest == nullptr || save->guest->exit) {
    co_return fail(Errc::StateConflict, "actor " + entry->label() + ": its guest has just ended");
  }
  save->volumes = volume_names(entry);
  ATE_CO_TRY(check_save_scope(entry, *save));
  std::int64_t expected = kBesideMemory;
  if (save->scope == core::Scope::Full) {
    expected += co_await save->guest->sandbox->resident_bytes();
  }
  if (!save->volumes.empty()) {
    ATE_CO_ASSIGN(const std::int64_t copies, co_await volumes.foresee(entry->uid(), save->volumes));
    expected += copies;
  }
  ATE_CO_TRY(snapshots.check_space(expected));
  save->id = make_ulid(clock.wall());
  save->manifest =
      new_manifest(*entry, *save->guest, save->id,
                   save->kind.empty() ? kind_of(save->transient) : save->kind, clock.wall());
  save->manifest->set_scope(std::string(core::name(save->scope)));
  ATE_CO_TRY(next_stage(*run));
  co_return pass_failpoint(failpoint_name(*run, "before-intent"));
}

async::Task<Status> Engine::State::write_snapshot(EntryPtr entry, RunPtr run,
                                                  std::shared_ptr<Save> save) {
  Side<std::string> directory(context, background, "snapshot-begin", snapshots.begin(save->id));
  Change change;
  change.run = run;
  change.edit = [save](v1alpha1::ActorRecord& record) {
    set_state(record, save->transient);
    record.mutable_actor()->mutable_status()->set_reason("");
    record.mutable_actor()->mutable_status()->set_message("");
    record.set_pending_snapshot(save->id);
  };
  StageTimer intent(*run, clock, "intent");
  const Status saved = co_await this->change(entry, std::move(change));
  intent.stop();
  run->intent = saved.has_value();
  if (saved) {
    run->begun.set();
  }
  const Result<std::string> path = co_await directory.join();
  ATE_CO_TRY(Status(saved));
  if (!path) {
    co_return fail(path.error());
  }
  ATE_CO_TRY(pass_failpoint(failpoint_name(*run, "after-intent")));
  ATE_CO_TRY(co_await capture(run, save, *path));
  ATE_CO_TRY(co_await seal(run, save));
  co_return next_stage(*run);
}

/// All that has to happen while the guest stands still.
async::Task<Status> Engine::State::capture(RunPtr run, std::shared_ptr<Save> save,
                                           std::string directory) {
  ATE_CO_TRY(next_stage(*run));
  if (save->scope == core::Scope::Full) {
    ATE_CO_TRY(co_await save->guest->sandbox->checkpoint(directory, save->manifest, *run));
  } else {
    ATE_CO_TRY(co_await stop_guest(run, save));
  }
  ATE_CO_TRY(pass_failpoint(failpoint_name(*run, "after-checkpoint")));
  if (!save->volumes.empty()) {
    ATE_CO_TRY(next_stage(*run));
    ATE_CO_TRY(co_await save_volumes(run, save, std::move(directory)));
  }
  co_return next_stage(*run);
}

async::Task<Status> Engine::State::seal(RunPtr run, std::shared_ptr<Save> save) {
  StageTimer timer(*run, clock, "seal");
  ATE_CO_ASSIGN(save->sealed, co_await snapshots.seal(save->id, save->manifest));
  timer.stop();
  co_return pass_failpoint(failpoint_name(*run, "after-seal"));
}

async::Task<Status> Engine::State::flip(EntryPtr entry, RunPtr run, std::shared_ptr<Save> save) {
  core::Ending ending;
  ending.state = save->transient;
  ending.pointers = pointers_of(*entry->record());
  const core::Settled settled = core::settle(ending, core::Outcome::Done);
  const core::Moved moved = core::move_pointers(ending.pointers, settled);
  const std::shared_ptr<const MarkedIds> going = release(entry, moved.garbage);
  Change change;
  change.run = run;
  change.ends_run = true;
  change.put_snapshots.push_back(snapshot_row(*save->manifest, save->sealed));
  change.drop_snapshots = going->ids();
  change.edit = [settled, moved, save](v1alpha1::ActorRecord& record) {
    set_state(record, settled.state);
    record.mutable_actor()->mutable_status()->set_reason(settled.reason);
    set_pointers(record, moved.pointers);
    set_marks(record, core::marks_of_save(save->id));
  };
  StageTimer timer(*run, clock, "commit");
  ATE_CO_TRY(co_await this->change(entry, std::move(change)));
  timer.stop();
  static_cast<void>(failpoint(failpoint_name(*run, "after-commit")));
  discard(going->ids());
  co_return Status();
}

async::Task<Error> Engine::State::undo_save(EntryPtr entry, RunPtr run, std::shared_ptr<Save> save,
                                            Error error) {
  const GuestPtr guest = save->guest;
  core::Outcome outcome =
      error.code() == Errc::Cancelled ? core::Outcome::Cancelled : core::Outcome::Failed;
  Status unpaused;
  if (!guest->destroying) {
    unpaused = co_await guest->sandbox->unpause();
  }
  if (!unpaused && !guest->exit) {
    const bool ended = co_await guest->ended.wait_for(kDeathNotice);
    static_cast<void>(ended);
  }
  runtime::SandboxExit exit;
  if (guest->exit) {
    exit = *guest->exit;
    if (!guest->destroying) {
      error = ended_meanwhile(*entry, *guest, std::move(error));
    }
  } else if (!unpaused) {
    exit.detail = "it could not be unpaused after a failed snapshot: " + unpaused.error().message();
  }
  core::Ending ending;
  ending.state = save->transient;
  ending.pointers = pointers_of(*entry->record());
  ending.cause = guest->destroying ? "killed-by-operator" : cause_words(exit, false);
  const bool gone = guest->exit || !unpaused || guest->destroying;
  if (gone) {
    const bool own = exit.cause == runtime::SandboxExit::Cause::Exited && !guest->destroying;
    outcome = own ? core::Outcome::GuestExited : core::Outcome::GuestCrashed;
  }
  const core::Settled settled = core::settle(ending, outcome);
  const core::Moved moved = core::move_pointers(ending.pointers, settled);
  const bool by_operator = guest->destroying;
  const WallTime wall = clock.wall();
  Change change;
  change.run = run;
  change.ends_run = true;
  change.error = error;
  change.message = error.message();
  change.even_unsaved = true;
  change.edit = [this, settled, moved, exit, gone, by_operator, wall,
                 containers = guest->sandbox->containers(),
                 message = error.message()](v1alpha1::ActorRecord& record) {
    set_pointers(record, moved.pointers);
    if (gone) {
      write_guest_end(record, settled, exit, containers);
      record.set_ended_by_operator(by_operator);
      plan_restart(record, settled.state, wall);
      return;
    }
    set_state(record, settled.state);
    record.mutable_actor()->mutable_status()->set_reason(settled.reason);
    record.mutable_actor()->mutable_status()->set_message(escape_text(message, 1024));
  };
  const Status saved = co_await this->change(entry, std::move(change));
  static_cast<void>(saved);  // logged there; memory goes on
  if (gone) {
    const Status ended = co_await retire(entry, guest, std::chrono::milliseconds(0));
    static_cast<void>(ended);  // logged there; kept for another try
  }
  discard(moved.garbage);
  co_return error;
}

void Engine::State::discard(std::vector<std::string> ids) {
  for (std::string& id : ids) {
    background.spawn("snapshot-gc", collect(std::move(id)));
  }
}

async::Task<void> Engine::State::collect(std::string id) {
  const std::shared_ptr<State> self = shared_from_this();
  Status status = pass_failpoint("snapshot-gc");
  if (status) {
    status = co_await snapshots.remove(id);
  }
  if (status) {
    gc_pending.erase(id);
    co_return;
  }
  gc_pending.insert(id);
  log.error("snapshot GC failed; it is tried again",
            {{"snapshot", id}, {"error", status.error().message()}});
}

async::Task<Status> Engine::State::verify_snapshot(std::string id) {
  const std::shared_ptr<State> self = shared_from_this();
  const SnapshotRows::Row row = snapshot_rows.find(id);
  if (row == nullptr) {
    co_return fail(Errc::NotFound, "no snapshot " + id);
  }
  const std::string sha256 = row->manifest_sha256();
  ATE_CO_ASSIGN(artifacts::SnapshotStore::Opened opened, co_await snapshots.open(id, sha256));
  ATE_CO_TRY(co_await snapshots.verify_payload(opened));
  co_return co_await volumes.verify(std::move(opened));
}

}  // namespace ate::engine
