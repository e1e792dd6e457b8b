// One writer per actor: copy the record, commit, swap it in.
#include "ate/core/json.hpp"
#include "engine/state.hpp"

namespace ate::engine {

void settle_fields(v1alpha1::ActorRecord& record, core::State from, WallTime now) {
  const core::State to = state_of(record);
  v1alpha1::ActorStatus& status = *record.mutable_actor()->mutable_status();
  if (from != to || status.since().empty()) {
    status.set_since(format_rfc3339(now));
  }
  if (to != core::State::Exited && to != core::State::Crashed && to != core::State::Resuming) {
    record.set_restart_not_before_ms(0);
    record.set_ended_by_operator(false);
    status.clear_exit_code();
  }
  if (!core::is_transient(to) && to != core::State::Running) {
    status.clear_worker();
    status.clear_sandbox();
    status.clear_guest();
    status.clear_address();
    status.clear_restored_from();
    if (to != core::State::Exited && to != core::State::Crashed) {
      status.clear_containers();
    }
    record.set_netns_id("");
    record.set_sandbox_pid(0);
    record.set_sandbox_start(0);
    record.set_booted_from_state("");
  }
}

std::shared_ptr<Live> Engine::State::live(const EntryPtr& entry) {
  if (entry->live == nullptr) {
    entry->live = std::make_shared<Live>(context);
    entry->live->last_activity = now();
  }
  return entry->live;
}

void Engine::State::maybe_rest(const EntryPtr& entry) {
  const std::shared_ptr<Live>& live = entry->live;
  if (live == nullptr || live.use_count() > 1) {
    return;
  }
  const bool busy = live->run != nullptr || live->guest != nullptr || live->ending != nullptr ||
                    live->parked > 0 || live->holds + live->tunnels > 0 || live->write.locked() ||
                    live->restart_failures > 0;
  if (!busy && entry->state() != core::State::Running) {
    entry->live.reset();
  }
}

std::string Engine::State::render(const Error& error, const Run& run) const {
  const std::string instance = "/v1/operations/" + run.id();
  if (settings.render_error) {
    return settings.render_error(error, instance, run.caller().request_id);
  }
  return "{\"detail\":" + core::json_quote(error.message()) + "}";
}

void Engine::State::end_run(const RunPtr& run, const std::optional<Error>& error) {
  run->end(error, error ? render(*error, *run) : std::string());
}

async::Task<Status> Engine::State::change(EntryPtr entry, Change change) {
  const std::shared_ptr<Live> live = this->live(entry);
  const async::Mutex::Lock lock = co_await live->write.lock();
  if (entry->removed) {
    co_return fail(Errc::NotFound, "actor " + entry->label() + " is gone");
  }
  auto record = std::make_shared<v1alpha1::ActorRecord>(*entry->record());
  const core::State from = state_of(*record);
  if (change.edit) {
    change.edit(*record);
  }
  settle_fields(*record, from, clock.wall());
  const core::State to = state_of(*record);
  record->mutable_actor()->mutable_metadata()->set_resource_version(
      std::to_string(journal.next_version()));
  store::Batch batch;
  std::string reason = record->actor().status().reason();
  if (change.run != nullptr) {
    record->mutable_actor()->mutable_status()->set_last_operation(change.run->id());
    record->set_running_operation(change.ends_run ? std::string() : change.run->id());
    if (change.ends_run) {
      end_run(change.run, change.error);
      change.run->committing = true;
    }
    batch.put_operations.push_back(change.run->row());
  }
  const auto add_event = [&](const std::string& type) {
    std::shared_ptr<v1alpha1::Event> event = journal.event(type, entry->ref());
    event->set_reason(reason);
    event->set_message(change.message);
    if (change.run != nullptr) {
      event->set_operation(change.run->id());
    }
    if (type == "actor.state") {
      event->set_from(std::string(core::name(from)));
      event->set_to(std::string(core::name(to)));
    }
    batch.events.push_back(std::move(event));
  };
  if (from != to && !change.remove) {
    add_event("actor.state");
  }
  if (!change.event.empty()) {
    add_event(change.event);
  }
  if (change.ends_run && change.run != nullptr) {
    reason = change.error ? change.error->message() : std::string("done");
    add_event("operation.finished");
  }
  batch.put_snapshots = change.put_snapshots;
  batch.delete_snapshots = change.drop_snapshots;
  if (change.remove) {
    batch.delete_actors.push_back(entry->uid());
  } else {
    batch.put_actors.push_back(record);
  }
  const Status status = co_await journal.commit(std::move(batch));
  if (change.run != nullptr) {
    change.run->committing = false;  // nothing is read between here and swap_in
  }
  if (!status) {
    if (change.run != nullptr && change.ends_run && change.even_unsaved) {
      journal.later(change.run->row());
    }
    if (!change.even_unsaved) {
      if (change.ends_run && change.run != nullptr) {
        change.run->reopen();  // how it really ends is still to come
      }
      co_return status;
    }
    dirty.insert(entry->uid());
    log.error("a change of an actor could not be saved; it is tried again",
              {{"actor", entry->label()}, {"error", status.error().message()}});
  } else {
    dirty.erase(entry->uid());
  }
  swap_in(entry, record, change);
  co_return status;
}

void Engine::State::swap_in(const EntryPtr& entry,
                            const std::shared_ptr<const v1alpha1::ActorRecord>& record,
                            const Change& change) {
  for (const auto& snapshot : change.put_snapshots) {
    snapshot_rows.put(snapshot);
  }
  for (const std::string& id : change.drop_snapshots) {
    snapshot_rows.erase(id);
  }
  const core::State to = state_of(*record);
  if (change.remove) {
    awake.erase(entry->uid());
    restarts.erase(entry->uid());
    stranded.erase(entry->uid());
    dirty.erase(entry->uid());
    expiries.erase(entry->uid());
    actors.erase(entry);
    if (!goldens.empty()) {
      kick_goldens();  // it may have been the last one of its generation
    }
    return;
  }
  actors.replace(entry, record);
  note_ttl(*record);
  if (to == core::State::Running) {
    awake.insert(entry->uid());
  } else {
    awake.erase(entry->uid());
  }
  if (record->restart_not_before_ms() == 0) {
    restarts.erase(entry->uid());
  } else {
    restarts[entry->uid()] = record->restart_not_before_ms();
  }
}

async::Task<void> Engine::State::save_dirty() {
  const std::set<std::string> uids = dirty;
  for (const std::string& uid : uids) {
    const EntryPtr entry = actors.find_uid(uid);
    if (entry == nullptr) {
      dirty.erase(uid);
      continue;
    }
    if (entry->live != nullptr && entry->live->run != nullptr) {
      continue;  // its own commits carry the record
    }
    Change again;
    again.edit = [](v1alpha1::ActorRecord&) {};
    const Status status = co_await change(entry, std::move(again));
    if (!status) {
      co_return;  // the store is still in trouble
    }
    maybe_rest(entry);
  }
}

Status pass_failpoint(const std::string& name) {
  if (failpoint(name)) {
    return fail(Errc::Internal, "failpoint " + name);
  }
  return {};
}

Status next_stage(const Run& run) {
  if (run.cancel) {
    return fail(Errc::Cancelled, "cancelled by DELETE ?force");
  }
  return {};
}

}  // namespace ate::engine
