// What a start begins from: the memory, and the durable volumes (core/start.hpp decides).
#include "engine/state.hpp"

namespace ate::engine {

/// Which snapshots the start reads; core decides.
async::Task<Status> Engine::State::select_source(EntryPtr entry, RunPtr run,
                                                 std::shared_ptr<Start> start) {
  const std::shared_ptr<const v1alpha1::ActorRecord> record = entry->record();
  const core::Pointers pointers = pointers_of(*record);
  core::StartFacts facts;
  facts.golden = usable_golden(entry);
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
    case core::Source::Golden:
      if (start->snapshot.empty()) {  // else it is the one on trial
        start->snapshot = facts.golden;
      }
      if (start->snapshot.empty()) {
        start->source = core::Source::Boot;  // it has just been given up
      }
      break;
    case core::Source::Boot:
    case core::Source::Data:
    case core::Source::DataOnGolden:
      break;
  }
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
  if (start->choice.source == core::Source::DataOnGolden && start->choice.memory.empty()) {
    ATE_CO_ASSIGN(facts.golden, co_await await_golden(entry, run));
    start->choice = core::choose_start(facts);
  }
  start->source = start->choice.source;
  if (start->source == core::Source::Golden || start->source == core::Source::DataOnGolden) {
    start->held =
        std::make_shared<const MarkedIds>(held, std::vector<std::string>{start->choice.memory});
  }
  co_return Status();
}

async::Task<Status> Engine::State::open_memory(std::shared_ptr<Start> start) {
  ATE_CO_ASSIGN(start->opened, co_await open_row(start->choice.memory));
  co_return start->runtime->can_restore(*start->opened.manifest);
}

async::Task<Status> Engine::State::open_source(EntryPtr entry, RunPtr run,
                                               std::shared_ptr<Start> start) {
  ATE_CO_TRY(co_await select_source(entry, run, start));
  const std::string& memory = start->choice.memory;
  const std::string copies =
      start->choice.volumes == core::kVolumesAsNew ? std::string() : start->choice.volumes;
  if (memory.empty() && copies.empty()) {
    co_return Status();
  }
  StageTimer timer(*run, clock, "open-snapshot");
  if (!memory.empty()) {
    const Status opened = co_await open_memory(start);
    start->bad_memory = !opened;
    ATE_CO_TRY(Status(opened));
  }
  if (copies.empty()) {
    co_return Status();
  }
  if (copies == memory) {
    start->copies = start->opened;
  } else {
    ATE_CO_ASSIGN(start->copies, co_await open_row(copies));
  }
  co_return snapshots.check_space(volumes.restore_bytes(*start->copies.manifest));
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
