// Budgets of workers: limits of pools are written to the cgroups of FREE workers, what the cgroups
// say is read again and again, and once more right before a start.
#include "ate/engine/worker_groups.hpp"
#include "engine/state.hpp"

namespace ate::engine {

namespace {

/// A budget that changes faster than it can be read is somebody else's game. Beside one attempt for
/// each worker: any of them may turn out to be less than what was known of it.
constexpr std::size_t kTakeAttempts = 8;

using Measured = Workers::Measured;

Measured measure(const WorkerGroups& groups, const std::string& worker,
                 const core::HostCapacity& host) {
  ATE_ASSIGN(const core::LimitFiles files, groups.read(worker));
  return core::effective_budget(files, host);
}

/// What one round wrote and read.
struct Round {
  std::map<std::string, core::CgroupLimits> applied;
  std::map<std::string, Measured> measured;
  std::vector<std::string> removed;
  std::optional<Measured> tree;
};

/// A worker whose limits could not be written has no budget that anybody may rely on.
void apply(const WorkerGroups& groups, const std::map<std::string, core::CgroupLimits>& wanted,
           Round& round) {
  for (const auto& [worker, limits] : wanted) {
    Status done = groups.apply(worker, limits);
    if (done) {
      round.applied.emplace(worker, limits);
    } else {
      round.measured.emplace(worker,
                             fail(std::move(done).error().context("limits of worker " + worker)));
    }
  }
}

std::string show(const Measured& measured) {
  if (!measured) {
    return measured.error().message();
  }
  return std::to_string(measured->budget.memory_bytes) + " bytes, " +
         std::to_string(measured->budget.cpu_milli) + "m CPU";
}

}  // namespace

async::Task<void> Engine::State::refresh_budgets() {
  const std::shared_ptr<State> self = shared_from_this();
  const WorkerGroups* groups = settings.worker_groups;
  if (groups == nullptr) {
    co_return;
  }
  // Without enforcement a worker has no cgroup with limits: what holds is what holds for us.
  const bool each = settings.enforcement;
  auto job = [groups, each, host = settings.host_capacity, names = workers.names(),
              wanted = each ? workers.unapplied() : std::map<std::string, core::CgroupLimits>(),
              obsolete = workers.obsolete()]() {
    Round round;
    round.tree = measure(*groups, "", host);
    apply(*groups, wanted, round);
    for (const std::string& worker : obsolete) {
      if (groups->remove(worker)) {
        round.removed.push_back(worker);
      }
    }
    for (const std::string& worker : names) {
      if (!round.measured.contains(worker)) {
        round.measured.emplace(worker, each ? measure(*groups, worker, host) : *round.tree);
      }
    }
    return round;
  };
  const Round round = co_await async::run_blocking(context, std::move(job));
  for (const auto& [worker, limits] : round.applied) {
    workers.set_applied(worker, limits);
  }
  for (const std::string& worker : round.removed) {
    workers.forget(worker);
  }
  for (const auto& [worker, measured] : round.measured) {
    if (workers.set_measured(worker, measured) && ready) {
      log.write(measured ? LogLevel::Info : LogLevel::Error, "the budget of a worker changed",
                {{"worker", worker}, {"budget", show(measured)}});
    }
  }
  workers.set_tree(*round.tree);
}

async::Task<Result<Slot>> Engine::State::take_slot(core::Demand demand, std::string uid) {
  const std::shared_ptr<State> self = shared_from_this();
  const WorkerGroups* groups = settings.worker_groups;
  const std::size_t attempts = kTakeAttempts + workers.names().size();
  for (std::size_t attempt = 0; attempt < attempts; ++attempt) {
    ATE_CO_ASSIGN(Slot slot, workers.take(demand, uid));
    if (groups == nullptr) {
      co_return slot;
    }
    const Result<core::Budget> sized_by = workers.offered(slot.worker);
    // Never a guest larger than what its cgroup allows now, whatever was true a second ago.
    const std::string place = settings.enforcement ? slot.worker : std::string();
    const std::optional<core::CgroupLimits> owed =
        settings.enforcement ? workers.unapplied(slot.worker) : std::nullopt;
    auto job = [groups, place, owed, host = settings.host_capacity]() -> Measured {
      if (owed) {
        ATE_TRY(groups->apply(place, *owed));
      }
      return measure(*groups, place, host);
    };
    Measured now = co_await async::run_blocking(context, std::move(job));
    if (owed && now) {
      workers.set_applied(slot.worker, *owed);
    }
    workers.set_measured(slot.worker, std::move(now));
    const Result<core::Budget> holds = workers.offered(slot.worker);
    if (sized_by && holds && *sized_by == *holds) {
      co_return slot;
    }
    workers.give_back(slot.worker, uid);
  }
  co_return fail(Errc::Unavailable, "the budgets of the workers keep changing while they are read");
}

}  // namespace ate::engine
