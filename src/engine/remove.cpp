// Revert and delete: what ends a sandbox without saving it.
#include "ate/core/units.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "engine/state.hpp"

namespace ate::engine {

async::Task<Status> Engine::State::run_revert(EntryPtr entry, RunPtr run, core::Decision decision,
                                              VerbOptions options) {
  ATE_CO_TRY(pass_failpoint("revert-before-intent"));
  const core::Pointers before = pointers_of(*entry->record());
  const core::VolumeMarks marks = core::marks_of_revert(
      marks_of(*entry->record()), before.committed.empty() ? before.base : before.committed,
      options.keep_volumes);
  Status ended;
  if (!decision.at_once) {
    Change intent;
    intent.run = run;
    intent.edit = [marks](v1alpha1::ActorRecord& record) {
      set_state(record, core::State::Reverting);
      set_marks(record, marks);  // a start that finishes the revert needs them
      record.mutable_actor()->mutable_status()->set_reason("");
    };
    ATE_CO_TRY(co_await this->change(entry, std::move(intent)));
    run->intent = true;
    run->begun.set();
    ended = pass_failpoint("revert-after-intent");
  }
  const GuestPtr guest = live(entry)->guest;
  if (ended && guest != nullptr) {
    StageTimer timer(*run, clock, "destroy");
    ended = co_await retire(entry, guest, options.grace.value_or(std::chrono::milliseconds(0)));
    timer.stop();
  }
  if (ended) {
    ended = pass_failpoint("revert-after-destroy");
  }
  if (!ended && decision.at_once) {
    co_return ended;  // nothing has changed: what is left of its sandbox is in the way
  }
  core::Ending ending;
  ending.state = core::State::Reverting;
  ending.pointers = pointers_of(*entry->record());
  const core::Settled settled =
      core::settle(ending, ended ? core::Outcome::Done : core::Outcome::Failed);
  const core::Moved moved = core::move_pointers(ending.pointers, settled);
  const std::shared_ptr<const MarkedIds> going = release(entry, moved.garbage);
  Change change;
  change.run = run;
  change.ends_run = true;
  change.drop_snapshots = going->ids();
  change.even_unsaved = !decision.at_once;
  if (!ended) {
    change.error = ended.error();
    change.message = ended.error().message();
  }
  change.edit = [settled, moved, marks, failed = !ended](v1alpha1::ActorRecord& record) {
    set_marks(record, failed ? core::marks_of_run() : marks);
    set_state(record, settled.state);
    record.mutable_actor()->mutable_status()->set_reason(settled.reason);
    record.mutable_actor()->mutable_status()->set_message("");
    record.set_ended_by_operator(failed);
    set_pointers(record, moved.pointers);
  };
  StageTimer timer(*run, clock, "commit");
  const Status saved = co_await this->change(entry, std::move(change));
  timer.stop();
  if (!saved && decision.at_once) {
    co_return saved;
  }
  run->intent = true;
  static_cast<void>(failpoint("revert-after-commit"));
  if (saved) {
    discard(going->ids());
  }
  co_return ended;
}

std::chrono::milliseconds Engine::State::termination_grace(const EntryPtr& entry) const {
  const v1alpha1::ActorRecord& record = *entry->record();
  const v1alpha1::TemplateRef& ref = record.actor().spec().template_();
  const auto source =
      templates.find_template(record.actor().metadata().atespace(), ref.name(), ref.generation());
  const Result<std::chrono::milliseconds> grace =
      core::parse_duration(source != nullptr ? source->spec().termination_grace() : "");
  return grace ? *grace : std::chrono::milliseconds(0);
}

async::Task<Status> Engine::State::run_remove(EntryPtr entry, RunPtr run, VerbOptions options) {
  ATE_CO_TRY(pass_failpoint("delete-before-intent"));
  Change intent;
  intent.run = run;
  if (run->caller().request_id == kTtlCaller) {
    intent.event = "actor.expired";
    intent.message = "spec.ttl " + entry->actor()->spec().ttl() + " has passed";
  }
  intent.edit = [](v1alpha1::ActorRecord& record) {
    set_state(record, core::State::Deleting);
    record.mutable_actor()->mutable_status()->set_reason("");
  };
  ATE_CO_TRY(co_await this->change(entry, std::move(intent)));
  run->intent = true;
  run->begun.set();
  Status status = pass_failpoint("delete-after-intent");
  const GuestPtr guest = live(entry)->guest;
  if (status && guest != nullptr) {
    StageTimer timer(*run, clock, "destroy");
    status = co_await retire(entry, guest, options.grace.value_or(termination_grace(entry)));
  }
  if (status) {
    status = pass_failpoint("delete-after-destroy");
  }
  core::Ending ending;
  ending.state = core::State::Deleting;
  ending.pointers = pointers_of(*entry->record());
  const core::Settled settled = core::settle(ending, core::Outcome::Done);
  const std::shared_ptr<const MarkedIds> going =
      release(entry, core::move_pointers(ending.pointers, settled).garbage);
  if (status) {
    co_await remove_files(entry, run, going);
    status = pass_failpoint("delete-after-files");
  }
  if (status) {
    Change change;
    change.run = run;
    change.ends_run = true;
    change.remove = true;
    change.event = "actor.deleted";
    change.drop_snapshots = going->ids();
    StageTimer timer(*run, clock, "commit");
    status = co_await this->change(entry, std::move(change));
    timer.stop();
    static_cast<void>(failpoint("delete-after-commit"));
  }
  if (!status && !entry->removed) {
    // It stays DELETING; housekeeping or the next DELETE goes on.
    end_run(run, status.error());
    journal.later(run->row());
  }
  co_return status;
}

async::Task<void> Engine::State::remove_files(EntryPtr entry, RunPtr run,
                                              std::shared_ptr<const MarkedIds> going) {
  StageTimer timer(*run, clock, "files");
  for (const std::string& id : going->ids()) {
    co_await collect(id);
  }
  co_await forget(entry->uid());
}

async::Task<void> Engine::State::forget(std::string uid) {
  bool gone = true;
  for (const auto& [name, runtime] : runtimes) {
    const Status status = co_await runtime->forget_actor(uid);
    if (!status) {
      gone = false;
      log.error("files of a deleted actor would not go; it is tried again",
                {{"uid", uid}, {"error", status.error().message()}});
    }
  }
  if (gone) {
    forget_pending.erase(uid);
  } else {
    forget_pending.insert(uid);
  }
}

}  // namespace ate::engine
