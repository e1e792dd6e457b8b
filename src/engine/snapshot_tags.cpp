// What a snapshot is called, and what collecting has to know.
#include "ate/codec/codec.hpp"
#include "ate/core/validate.hpp"
#include "engine/state.hpp"

namespace ate::engine {

async::Task<Result<std::shared_ptr<const v1alpha1::Snapshot>>> Engine::patch_snapshot(
    std::string id, std::string merge_patch, Caller caller) {
  const std::shared_ptr<State> state = state_;
  ATE_CO_TRY(state->open_for_verbs());
  const SnapshotRows::Row row = state->snapshot_rows.find(id);
  if (row == nullptr) {
    co_return fail(Errc::NotFound, "no snapshot " + id);
  }
  if (row->kind() != "live") {
    co_return fail(Errc::StateConflict, "snapshot " + id + " is of kind " + row->kind() +
                                            "; only live ones have labels and tags");
  }
  auto changed = std::make_shared<v1alpha1::Snapshot>(*row);
  changed->mutable_metadata();
  ATE_CO_TRY(codec::merge_patch(merge_patch, {"metadata.labels", "metadata.tags"}, *changed));
  std::vector<Problem> problems = core::validate(changed->metadata());
  if (!problems.empty()) {
    co_return fail(core::to_error(std::move(problems)));
  }
  store::Batch batch;
  batch.put_snapshots.push_back(changed);
  std::shared_ptr<v1alpha1::Event> event = state->journal.event("snapshot.updated", row->actor());
  event->set_message(id);
  batch.events.push_back(std::move(event));
  ATE_CO_TRY(co_await state->journal.commit(std::move(batch)));
  if (!state->snapshot_rows.contains(id)) {
    co_return fail(Errc::NotFound, "snapshot " + id + " was deleted meanwhile");
  }
  state->snapshot_rows.put(changed);
  state->log.info("snapshot named", {{"snapshot", id}, {"request", caller.request_id}});
  co_return std::shared_ptr<const v1alpha1::Snapshot>(state->snapshot_view(id));
}

std::set<std::string> Engine::assets_in_use() const {
  std::set<std::string> in_use;
  for (const std::string& uid : state_->awake) {
    const EntryPtr entry = state_->actors.find_uid(uid);
    if (entry != nullptr && entry->live != nullptr && entry->live->guest != nullptr) {
      const std::set<std::string>& assets = entry->live->guest->assets;
      in_use.insert(assets.begin(), assets.end());
    }
  }
  return in_use;
}

bool Engine::busy() const {
  return !state_->ready || !state_->runs.empty();
}

}  // namespace ate::engine
