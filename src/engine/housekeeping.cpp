// What is done now and then: retries, idle policy, restarts, trimming.
#include "engine/state.hpp"

namespace ate::engine {

namespace {

constexpr std::chrono::seconds kRetryPeriod(10);
// History is trimmed when much has come to it, and now and then for what has grown old.
constexpr std::int64_t kTrimEvery = 1000;
constexpr std::chrono::minutes kTrimPeriod(1);

}  // namespace

async::Task<void> Engine::State::housekeeping() {
  const std::shared_ptr<State> self = shared_from_this();
  while (!stopping) {
    co_await async::sleep_for(settings.tick);
    if (ready && !stopping) {
      co_await tick();
    }
  }
}

async::Task<void> Engine::State::tick() {
  co_await refresh_budgets();
  co_await save_dirty();
  const Status flushed = co_await journal.flush();
  static_cast<void>(flushed);  // IGNORED: the rows are kept; checks() shows the store's trouble
  run_restarts();
  idle_tick();
  ttl_tick();
  if (now() - last_retry >= kRetryPeriod) {
    last_retry = now();
    co_await collect_orphans();
    co_await retry_leftovers();
  }
  if (ended_since_trim >= kTrimEvery || now() - last_trim >= kTrimPeriod) {
    co_await trim();
  }
}

async::Task<void> Engine::State::trim() {
  ended_since_trim = 0;
  last_trim = now();
  const auto since = [wall = clock.wall()](std::chrono::milliseconds age) {
    return age.count() <= 0 ? 0 : (wall.time_since_epoch() - age).count();
  };
  store::Retention keep;
  keep.operations = settings.keep_operations;
  keep.events = settings.keep_events;
  keep.operations_since_ms = since(settings.keep_operations_for);
  keep.events_since_ms = since(settings.keep_events_for);
  keep.requests_since_ms = since(settings.keep_requests_for);
  const Status trimmed = co_await journal.store().trim(keep);
  if (!trimmed) {
    log.error("trimming operations and events failed", {{"error", trimmed.error().message()}});
  }
}

async::Task<void> Engine::State::retry_leftovers() {
  const std::set<std::string> snapshot_ids = gc_pending;
  for (const std::string& id : snapshot_ids) {
    if (!snapshot_rows.contains(id)) {
      co_await collect(id);
    }
  }
  const std::set<std::string> uids = forget_pending;
  for (const std::string& uid : uids) {
    co_await forget(uid);
  }
  const std::vector<std::pair<EntryPtr, GuestPtr>> guests = std::exchange(stuck, {});
  for (const auto& [entry, guest] : guests) {
    const Status status = co_await retire(entry, guest, std::chrono::milliseconds(0));
    static_cast<void>(status);  // logged there, and put back
    maybe_rest(entry);
  }
  const std::set<std::string> deletes = std::exchange(stranded, {});
  for (const std::string& uid : deletes) {
    const EntryPtr entry = actors.find_uid(uid);
    if (entry == nullptr || entry->state() != core::State::Deleting) {
      continue;
    }
    const core::Decision decision = core::decide(entry->facts(), core::Command::DeleteForce);
    if (decision.step == core::Step::Begin) {
      const RunPtr run = start_run(entry, core::Command::DeleteForce, decision, VerbOptions{},
                                   Caller{"housekeeping", 0});
      static_cast<void>(run);
    }
  }
}

}  // namespace ate::engine
