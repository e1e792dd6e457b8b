// A snapshot of an actor that goes on running: it stands still for the checkpoint only. From then
// on other verbs may begin; fsync, checksums and the commit go on beside them.
#include "engine/snapshot_ops.hpp"

namespace ate::engine {

async::Task<Status> Engine::State::run_live(EntryPtr entry, RunPtr run, VerbOptions options) {
  auto save = std::make_shared<Save>();
  save->transient = core::State::Running;
  ATE_CO_TRY(co_await prepare_save(entry, run, save));
  Status status = co_await take_live(run, save);
  if (!status && !run->intent) {
    co_return status;
  }
  if (!status) {
    Error told = co_await undo_save(entry, run, save, status.error());
    discard({save->id});
    co_return fail(std::move(told));
  }
  let_go(entry, run);
  status = co_await seal(run, save);
  if (status) {
    status = co_await commit_live(run, save, options.metadata);
  }
  if (!status) {
    co_await give_up_live(run, save, status.error());
  }
  co_return status;
}

/// Until the guest runs again. The actor's record does not change: a start finds what is left of
/// the snapshot by its place, and the operation by its row.
async::Task<Status> Engine::State::take_live(RunPtr run, std::shared_ptr<Save> save) {
  StageTimer intent(*run, clock, "intent");
  store::Batch batch;
  batch.put_operations.push_back(run->row());
  ATE_CO_TRY(co_await journal.commit(std::move(batch)));
  intent.stop();
  run->intent = true;
  run->begun.set();
  ATE_CO_TRY(pass_failpoint("snapshot-after-intent"));
  ATE_CO_ASSIGN(const std::string path, co_await snapshots.begin(save->id));
  ATE_CO_TRY(co_await capture(run, save, path));
  StageTimer resuming(*run, clock, "unpause");
  ATE_CO_TRY(co_await save->guest->sandbox->unpause());
  resuming.stop();
  co_return pass_failpoint("snapshot-after-unpause");
}

async::Task<Status> Engine::State::commit_live(
    RunPtr run, std::shared_ptr<Save> save,
    std::shared_ptr<const v1alpha1::SnapshotMetadata> metadata) {
  const std::shared_ptr<v1alpha1::Snapshot> row = snapshot_row(*save->manifest, save->sealed);
  if (metadata != nullptr) {
    *row->mutable_metadata() = *metadata;
  }
  StageTimer timer(*run, clock, "commit");
  std::shared_ptr<v1alpha1::Event> event = journal.event("snapshot.created", row->actor());
  event->set_operation(run->id());
  event->set_message(row->id());
  run->snapshot = row->id();
  const Status saved = co_await commit_alone(run, std::nullopt, row, std::move(event));
  if (!saved) {
    run->snapshot.clear();
    co_return saved;
  }
  timer.stop();
  run->prolong();
  journal.later(run->row());
  snapshot_rows.put(row);
  static_cast<void>(failpoint("snapshot-after-commit"));
  co_return Status();
}

async::Task<void> Engine::State::give_up_live(RunPtr run, std::shared_ptr<Save> save, Error error) {
  const Status saved = co_await commit_alone(run, error, nullptr, nullptr);
  if (!saved) {
    end_run(run, error);
    journal.later(run->row());
  }
  discard({save->id});
}

/// The end of an operation that holds no actor any more: the record is not touched, it may even be
/// gone.
async::Task<Status> Engine::State::commit_alone(RunPtr run, std::optional<Error> error,
                                                std::shared_ptr<const v1alpha1::Snapshot> row,
                                                std::shared_ptr<v1alpha1::Event> event) {
  end_run(run, error);
  const std::shared_ptr<const v1alpha1::Operation> operation = run->row();
  store::Batch batch;
  batch.put_operations.push_back(operation);
  if (row != nullptr) {
    batch.put_snapshots.push_back(row);
  }
  if (event != nullptr) {
    batch.events.push_back(std::move(event));
  }
  std::shared_ptr<v1alpha1::Event> finished =
      journal.event("operation.finished", operation->actor());
  finished->set_operation(run->id());
  finished->set_reason(error ? error->message() : std::string("done"));
  batch.events.push_back(std::move(finished));
  Status saved = co_await journal.commit(std::move(batch));
  if (!saved) {
    run->reopen();
  }
  co_return saved;
}

}  // namespace ate::engine
