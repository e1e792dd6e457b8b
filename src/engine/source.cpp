// What a start begins from: the memory, and the durable volumes (core/start.hpp decides).
#include "engine/state.hpp"

namespace ate::engine {

async::Task<Status> Engine::State::open_source(EntryPtr entry, RunPtr run,
                                               std::shared_ptr<Start> start) {
  const core::Pointers pointers = pointers_of(*entry->record());
  switch (start->source) {
    case core::Source::Pause:
      start->snapshot = pointers.pause;
      break;
    case core::Source::Committed:
      start->snapshot = pointers.committed;
      break;
    case core::Source::Fork:
      start->snapshot = pointers.base;
      break;
    case core::Source::Golden: {
      const Golden* golden = golden_of(entry);
      if (start->snapshot.empty() && golden != nullptr) {
        start->snapshot = golden->snapshot;
      }
      start->held =
          std::make_shared<const MarkedIds>(held, std::vector<std::string>{start->snapshot});
      break;
    }
    case core::Source::Boot:
    case core::Source::Data:
      break;
  }
  const std::shared_ptr<const v1alpha1::ActorRecord> record = entry->record();
  core::StartFacts facts;
  facts.source = start->source;
  facts.marks = start->marks = marks_of(*record);
  facts.snapshot.id = start->snapshot;
  if (!start->snapshot.empty()) {
    const SnapshotRows::Row row = snapshot_rows.find(start->snapshot);
    if (row == nullptr) {
      co_return fail(Errc::SnapshotCorrupt, "snapshot " + start->snapshot + " has no row");
    }
    const v1alpha1::TemplateRef& now = record->actor().spec().template_();
    facts.snapshot.scope = core::parse_scope(row->scope()).value_or(core::Scope::Full);
    facts.snapshot.same_generation =
        row->template_().name() == now.name() && row->template_().generation() == now.generation();
  }
  start->choice = core::choose_start(facts);
  start->source = start->choice.source;
  const std::string& memory = start->choice.memory;
  const std::string copies =
      start->choice.volumes == core::kVolumesAsNew ? std::string() : start->choice.volumes;
  if (memory.empty() && copies.empty()) {
    co_return Status();
  }
  StageTimer timer(*run, clock, "open-snapshot");
  // The two are the same one, or there is but one of them.
  ATE_CO_ASSIGN(const artifacts::SnapshotStore::Opened opened,
                co_await open_row(memory.empty() ? copies : memory));
  if (!copies.empty()) {
    start->copies = opened;
    ATE_CO_TRY(snapshots.check_space(volumes.restore_bytes(*opened.manifest)));
  }
  if (memory.empty()) {
    co_return Status();
  }
  start->opened = opened;
  co_return start->runtime->can_restore(*start->opened.manifest);
}

async::Task<Result<artifacts::SnapshotStore::Opened>> Engine::State::open_row(std::string id) {
  const SnapshotRows::Row row = snapshot_rows.find(id);
  if (row == nullptr) {
    co_return fail(Errc::SnapshotCorrupt, "snapshot " + id + " has no row");
  }
  Result<artifacts::SnapshotStore::Opened> opened =
      co_await snapshots.open(id, row->manifest_sha256());
  if (!opened) {
    co_return fail(std::move(opened).error().context("snapshot " + id));
  }
  co_return opened;
}

}  // namespace ate::engine
