// Takes over what the store and the host hold, decides with core/reconcile, and does it.
#include <algorithm>

#include "ate/core/json.hpp"
#include "engine/side.hpp"
#include "engine/state.hpp"

namespace ate::engine {

namespace {

constexpr std::size_t kPurgedAtOnce = 16;

core::ActorFacts facts_of(const v1alpha1::ActorRecord& record) {
  core::ActorFacts facts;
  facts.uid = record.actor().metadata().uid();
  facts.state = state_of(record);
  const auto [origin, origin_reason] = decode_origin(record.booted_from_state());
  facts.origin = origin;
  facts.origin_reason = origin_reason;
  facts.reason = record.actor().status().reason();
  facts.pointers = pointers_of(record);
  facts.boot_id = record.boot_id();
  facts.assigned = record.actor().status().has_worker() || !record.netns_id().empty();
  facts.operation = !record.running_operation().empty();
  return facts;
}

}  // namespace

struct Engine::State::Survey {
  std::vector<std::pair<runtime::Runtime*, runtime::Leftover>> leftovers;
  core::Observed observed;
};

Status Engine::State::load(const store::Loaded& loaded) {
  journal.load(loaded);
  facts_at_load.clear();
  facts_at_load.reserve(loaded.actors.size());
  for (const auto& record : loaded.actors) {
    facts_at_load.push_back(facts_of(*record));
    const auto entry = std::make_shared<Entry>(record);
    if (actors.find_uid(entry->uid()) != nullptr) {
      return fail(Errc::Internal, "the store holds actor " + entry->uid() + " twice");
    }
    actors.insert(entry);
    note_ttl(*record);
    if (record->restart_not_before_ms() != 0 && !core::is_transient(entry->state())) {
      restarts[entry->uid()] = record->restart_not_before_ms();
    }
  }
  for (const auto& snapshot : loaded.snapshots) {
    snapshot_rows.put(snapshot);
  }
  load_goldens();
  operations_at_load = loaded.running_operations;
  return {};
}

async::Task<Status> Engine::State::survey(std::shared_ptr<Survey> seen) {
  for (const auto& [name, runtime] : runtimes) {
    ATE_CO_ASSIGN(const std::vector<runtime::Leftover> found, co_await runtime->observe());
    for (const runtime::Leftover& leftover : found) {
      seen->leftovers.emplace_back(runtime, leftover);
      seen->observed.remains.push_back({leftover.kind, leftover.id, leftover.uid, leftover.live});
    }
  }
  ATE_CO_ASSIGN(const artifacts::SnapshotStore::Listing listing, co_await snapshots.list());
  seen->observed.complete = listing.complete;
  seen->observed.partial = listing.partial;
  snapshot_rows.visit([&seen](const SnapshotRows::Row& row) {
    seen->observed.snapshot_rows.push_back(row->id());
    if (stands_alone(*row)) {
      seen->observed.standing.push_back(row->id());
    }
  });
  seen->observed.boot_id = settings.boot_id;
  co_return Status();
}

async::Task<void> Engine::State::purge_all(std::shared_ptr<Survey> seen,
                                           std::vector<std::size_t> order) {
  std::size_t next = 0;
  while (next < order.size()) {
    // One kind at a time: a namespace is not taken away under a process that is still being ended.
    const std::string kind = seen->leftovers[order[next]].second.kind;
    std::vector<Side<void>> batch;
    while (next < order.size() && batch.size() < kPurgedAtOnce &&
           seen->leftovers[order[next]].second.kind == kind) {
      const auto& [runtime, leftover] = seen->leftovers[order[next++]];
      batch.emplace_back(context, background, "purge", runtime->purge(leftover));
    }
    for (Side<void>& side : batch) {
      const Status status = co_await side.join();
      if (!status) {
        log.error("something of an earlier run would not go",
                  {{"kind", kind}, {"error", status.error().message()}});
      }
    }
  }
}

async::Task<Status> Engine::State::commit_plan(std::shared_ptr<const core::Plan> plan) {
  store::Batch batch;
  std::set<std::string> finished;
  const WallTime wall = clock.wall();
  std::vector<std::pair<EntryPtr, std::shared_ptr<const v1alpha1::ActorRecord>>> swaps;
  for (const core::ActorAction& action : plan->actors) {
    const EntryPtr entry = actors.find_uid(action.uid);
    auto record = std::make_shared<v1alpha1::ActorRecord>(*entry->record());
    const core::State from = state_of(*record);
    set_state(*record, action.settled.state);
    record->mutable_actor()->mutable_status()->set_reason(action.settled.reason);
    set_pointers(*record, core::move_pointers(pointers_of(*record), action.settled).pointers);
    record->set_running_operation("");
    if (action.restartable) {
      plan_restart(*record, action.settled.state, wall);
    }
    settle_fields(*record, from, wall);
    record->mutable_actor()->mutable_metadata()->set_resource_version(
        std::to_string(journal.next_version()));
    if (from != action.settled.state) {
      std::shared_ptr<v1alpha1::Event> event = journal.event("actor.state", entry->ref());
      event->set_from(std::string(core::name(from)));
      event->set_to(std::string(core::name(action.settled.state)));
      event->set_reason(action.settled.reason);
      batch.events.push_back(std::move(event));
    }
    if (action.finished) {
      finished.insert(action.uid);
    }
    batch.put_actors.push_back(record);
    swaps.emplace_back(entry, std::move(record));
  }
  for (const auto& left : operations_at_load) {
    auto operation = std::make_shared<v1alpha1::Operation>(*left);
    // A snapshot of a running actor holds nothing: what finishes its actor's verb is not its own.
    const bool done = finished.contains(left->actor().uid()) &&
                      left->verb() != core::name(core::Command::Snapshot);
    operation->set_state(done ? v1alpha1::Operation::DONE : v1alpha1::Operation::FAILED);
    operation->set_finished_at(format_rfc3339(wall));
    if (!done) {
      const Error error(Errc::Unavailable, "daemon-restart: the daemon ended while this ran");
      const std::string instance = "/v1/operations/" + left->id();
      operation->set_error_json(settings.render_error
                                    ? settings.render_error(error, instance, left->request_id())
                                    : "{\"detail\":" + core::json_quote(error.message()) + "}");
    }
    std::shared_ptr<v1alpha1::Event> event = journal.event("operation.finished", left->actor());
    event->set_operation(left->id());
    event->set_reason(done ? "done" : "daemon-restart");
    batch.events.push_back(std::move(event));
    batch.put_operations.push_back(std::move(operation));
  }
  batch.delete_snapshots = plan->drop_rows;
  if (!batch.put_actors.empty() || !batch.put_operations.empty() ||
      !batch.delete_snapshots.empty()) {
    ATE_CO_TRY(co_await journal.commit(std::move(batch)));
  }
  for (const auto& [entry, record] : swaps) {
    swap_in(entry, record, Change{});
  }
  for (const std::string& id : plan->drop_rows) {
    snapshot_rows.erase(id);
  }
  operations_at_load.clear();
  co_return Status();
}

async::Task<Status> Engine::State::reconcile() {
  const std::shared_ptr<State> self = shared_from_this();
  const SteadyTime begin = now();
  auto seen = std::make_shared<Survey>();
  not_ready_detail = "looking at what an earlier run left";
  Status status = co_await survey(seen);
  if (!status) {
    not_ready_detail = status.error().message();
    co_return status;
  }
  const auto plan =
      std::make_shared<const core::Plan>(core::reconcile(facts_at_load, seen->observed));
  not_ready_detail = "ending what an earlier run left";
  co_await purge_all(seen, plan->purge);
  for (const auto& left : operations_at_load) {
    if (left->verb() == "golden") {
      co_await forget(left->actor().uid());  // of no actor in the store
    }
  }
  static_cast<void>(failpoint("reconcile-after-purge"));
  for (const core::ActorFacts& actor : facts_at_load) {
    if (actor.state == core::State::Resuming) {
      co_await tidy_volumes(actor.uid);
    }
  }
  status = co_await commit_plan(plan);
  if (!status) {
    not_ready_detail = status.error().message();
    co_return status;
  }
  static_cast<void>(failpoint("reconcile-after-commit"));
  facts_at_load = {};
  for (const std::string& id : plan->missing) {
    log.error("a snapshot that is named is not on disk", {{"snapshot", id}});
  }
  ready = !stopping;
  discard(plan->discard);
  for (const core::ActorAction& action : plan->actors) {
    const EntryPtr entry = actors.find_uid(action.uid);
    if (action.finish_delete && entry != nullptr) {
      const core::Decision decision = core::decide(entry->facts(), core::Command::DeleteForce);
      const RunPtr run = start_run(entry, core::Command::DeleteForce, decision, VerbOptions{},
                                   Caller{"reconcile", 0});
      static_cast<void>(run);
    }
  }
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(now() - begin);
  log.info("reconciled", {{"actors", std::to_string(actors.size())},
                          {"changed", std::to_string(plan->actors.size())},
                          {"purged", std::to_string(plan->purge.size())},
                          {"discarded", std::to_string(plan->discard.size())},
                          {"ms", std::to_string(took.count())}});
  co_return Status();
}

async::Task<void> Engine::State::stop(std::chrono::milliseconds grace) {
  const std::shared_ptr<State> self = shared_from_this();
  stopping = true;
  worker_freed.beat();
  const bool drained = co_await operations.drain(grace);
  if (!drained) {
    log.warning("operations are cut off; the next start settles them",
                {{"running", std::to_string(operations.running())}});
  }
  co_await operations.close();
  // Whoever waits for one of them is told now, not when their wait runs out.
  const std::map<std::string, RunPtr> cut_off = std::exchange(runs, {});
  for (const auto& [id, run] : cut_off) {
    if (!run->ended()) {
      run->fail_early(Error(Errc::Unavailable, "the daemon is stopping"));
    }
    run->begun.set();
    run->let_go.set();
    run->done.set();
  }
  const Status flushed = co_await journal.flush();
  static_cast<void>(flushed);  // IGNORED: only stage times would be lost
  co_await background.close();
}

}  // namespace ate::engine
