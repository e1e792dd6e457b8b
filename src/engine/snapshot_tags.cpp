// What a snapshot is called, and what collecting has to know.
#include "ate/codec/codec.hpp"
#include "ate/core/validate.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "engine/state.hpp"

namespace ate::engine {

async::Task<Result<std::shared_ptr<const v1alpha1::Snapshot>>> Engine::patch_snapshot(
    std::string id, std::string merge_patch, Caller caller) {
  const std::shared_ptr<State> state = state_;
  ATE_CO_TRY(state->open_for_verbs());
  const SnapshotRows::Row row = state->snapshot_rows.find(id);
  if (row == nullptr || state->leaving.contains(id)) {
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

/// What must stay while it starts and runs, even when its template, its config or its snapshot go.
void Engine::State::mark_in_use(Start& start) {
  auto digests = std::make_shared<std::vector<std::string>>();
  for (const v1alpha1::ImageStatus& image : start.blueprint->status().images()) {
    digests->push_back(image.digest());
  }
  // A snapshot brings its own binaries.
  const auto& assets = start.opened.manifest != nullptr ? start.opened.manifest->assets()
                                                        : start.config->status().pinned();
  for (const auto& [name, digest] : assets) {
    digests->push_back(digest);
  }
  std::erase_if(in_use, [](const auto& each) { return each.expired(); });
  in_use.push_back(digests);
  start.in_use = std::move(digests);
}

std::set<std::string> Engine::in_use() const {
  std::set<std::string> digests;
  for (const auto& each : state_->in_use) {
    if (const auto held = each.lock()) {
      digests.insert(held->begin(), held->end());
    }
  }
  return digests;
}

bool Engine::is_ready() const {
  return state_->ready;
}

}  // namespace ate::engine
