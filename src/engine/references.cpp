// Who names a snapshot, and what becomes of one that nobody names any more.
#include "engine/state.hpp"

namespace ate::engine {

std::vector<std::string> Engine::State::users_of(const v1alpha1::Snapshot& snapshot) const {
  std::vector<std::string> users = actors.users_of(snapshot, std::string());
  for (const auto& [generation, golden] : goldens) {
    if (snapshot.kind() == "golden" && golden.snapshot == snapshot.id()) {
      users.push_back("ActorTemplate " + std::get<0>(generation) + "/" + std::get<1>(generation) +
                      " generation " + std::to_string(std::get<2>(generation)));
    }
  }
  return users;
}

bool Engine::State::needed(const v1alpha1::Snapshot& row, const std::string& but) const {
  if (row.kind() == "golden") {
    return held.contains(row.id()) || !users_of(row).empty();
  }
  return stands_alone(row) || held.contains(row.id()) || !actors.users_of(row, but).empty();
}

std::shared_ptr<const MarkedIds> Engine::State::release(const EntryPtr& entry,
                                                        const std::vector<std::string>& ids) {
  std::vector<std::string> gone;
  for (const std::string& id : ids) {
    const SnapshotRows::Row row = snapshot_rows.find(id);
    if (row != nullptr && needed(*row, entry->uid())) {
      orphans.insert(id);  // the others may give it up at this very moment as well
    } else {
      gone.push_back(id);
    }
  }
  return std::make_shared<const MarkedIds>(leaving, std::move(gone));
}

/// Snapshots whose users each left them to the other.
async::Task<void> Engine::State::collect_orphans() {
  std::set<std::string> left = std::exchange(orphans, {});
  for (const std::string& id : left) {
    const SnapshotRows::Row row = snapshot_rows.find(id);
    if (row == nullptr || leaving.contains(id)) {
      continue;
    }
    if (needed(*row, std::string())) {
      if (row->kind() != "live") {
        orphans.insert(id);
      }
      continue;
    }
    const MarkedIds going(leaving, {id});
    const Status dropped = co_await drop_row(row);
    if (!dropped) {
      orphans.insert(id);
    }
  }
}

async::Task<Status> Engine::State::drop_row(SnapshotRows::Row row) {
  store::Batch batch;
  batch.delete_snapshots.push_back(row->id());
  std::shared_ptr<v1alpha1::Event> event = journal.event("snapshot.deleted", row->actor());
  event->set_message(row->id());
  batch.events.push_back(std::move(event));
  ATE_CO_TRY(co_await journal.commit(std::move(batch)));
  snapshot_rows.erase(row->id());
  discard({row->id()});
  co_return Status();
}

async::Task<Status> Engine::State::remove_snapshot(std::string id, Caller caller) {
  const std::shared_ptr<State> self = shared_from_this();
  ATE_CO_TRY(open_for_verbs());
  const SnapshotRows::Row snapshot = snapshot_rows.find(id);
  if (snapshot == nullptr || leaving.contains(id)) {
    co_return fail(Errc::NotFound, "no snapshot " + id);
  }
  std::vector<std::string> users = users_of(*snapshot);
  if (!users.empty() || held.contains(id)) {
    std::string names;
    for (const std::string& user : users) {
      names += (names.empty() ? "" : ", ") + user;
    }
    co_return fail(Error(Errc::InUse, "snapshot " + id + " is what " +
                                          (names.empty() ? "a new fork" : names) + " resumes from")
                       .with("usedBy", std::move(users)));
  }
  const MarkedIds going(leaving, {id});
  ATE_CO_TRY(co_await drop_row(snapshot));
  log.info("snapshot deleted", {{"snapshot", id}, {"request", caller.request_id}});
  co_return Status();
}

}  // namespace ate::engine
