#include "engine/workers.hpp"

#include <algorithm>

#include "ate/core/units.hpp"

namespace ate::engine {

namespace {

constexpr std::int64_t kRetryAfterSeconds = 5;
constexpr std::int64_t kDefaultPids = 4096;

bool selected(const v1alpha1::WorkerPool& pool, const Need& need) {
  if (pool.spec().sandbox_class() != need.sandbox_class) {
    return false;
  }
  const auto& labels = pool.metadata().labels();
  return std::ranges::all_of(need.selector, [&labels](const auto& wanted) {
    const auto found = labels.find(wanted.first);
    return found != labels.end() && found->second == wanted.second;
  });
}

std::int32_t replicas(const v1alpha1::WorkerPool& pool) {
  return pool.spec().has_replicas() ? pool.spec().replicas() : 1;
}

std::string worker_name(const std::string& pool, std::int32_t ordinal) {
  return pool + "-" + std::to_string(ordinal);
}

Result<core::Budget> budget_of(const v1alpha1::Limits& limits) {
  core::Budget budget;
  ATE_ASSIGN(budget.memory_bytes, core::parse_bytes(limits.memory()));
  ATE_ASSIGN(budget.cpu_milli, core::parse_cpu_milli(limits.cpu()));
  return budget;
}

std::int64_t pids_of(const v1alpha1::Limits& limits) {
  const Result<std::int64_t> pids = core::parse_count(limits.pids());
  return pids ? *pids : kDefaultPids;
}

std::string knob_of(const v1alpha1::WorkerPool& pool) {
  return "spec.resources.limits.memory of WorkerPool " + pool.metadata().name();
}

std::string wanted_labels(const Need& need) {
  std::string out;
  for (const auto& [key, value] : need.selector) {
    out += (out.empty() ? "" : ", ") + key + ": " + value;
  }
  return out.empty() ? out
                     : " and the labels that the template's workerSelector wants (" + out + ")";
}

Error too_small_for_snapshot(const Need::Baked& baked, const v1alpha1::WorkerPool& pool,
                             std::int64_t budget) {
  return Error(Errc::SnapshotIncompatible,
               "the snapshot's guest has " + std::to_string(baked.memory_bytes) + " bytes and " +
                   std::to_string(baked.overhead_bytes) + " bytes of overhead; workers of pool " +
                   pool.metadata().name() + " have " + std::to_string(budget) + " bytes: raise " +
                   knob_of(pool))
      .with("snapshotMemoryBytes", baked.memory_bytes)
      .with("snapshotOverheadBytes", baked.overhead_bytes)
      .with("workerMemoryBytes", budget);
}

std::string class_name(v1alpha1::SandboxClass sandbox_class) {
  return v1alpha1::SandboxClass_Name(sandbox_class);
}

/// How near an answer comes to "yes": the nearest one is what the caller is told.
int rank(Errc code) {
  if (code == Errc::SnapshotIncompatible) {
    return 3;
  }
  return code == Errc::BudgetTooSmall ? 2 : 1;
}

}  // namespace

core::OverheadTerms Workers::terms(v1alpha1::SandboxClass sandbox_class) const {
  if (sandbox_class == v1alpha1::gvisor) {
    return {options_.gvisor_overhead_fixed, options_.gvisor_overhead_per_vcpu,
            options_.gvisor_overhead_percent};
  }
  return {std::int64_t{12} << 20, std::int64_t{1} << 20, 1.0};
}

Result<Workers::Fit> Workers::fit(const v1alpha1::WorkerPool& pool, const Need& need) const {
  ATE_ASSIGN(core::Budget budget, budget_of(pool.spec().resources().limits()));
  Fit fit;
  fit.limits.pids = pids_of(pool.spec().resources().limits());
  std::string knob = knob_of(pool);
  if (!need.declared.memory().empty()) {
    ATE_ASSIGN(const std::int64_t declared, core::parse_bytes(need.declared.memory()));
    if (declared > budget.memory_bytes) {
      return fail(Error(Errc::NeverFits, "the template declares " + std::to_string(declared) +
                                             " bytes, workers of pool " + pool.metadata().name() +
                                             " have " + std::to_string(budget.memory_bytes))
                      .with("declaredBytes", declared)
                      .with("budgetBytes", budget.memory_bytes));
    }
    budget.memory_bytes = declared;
    knob = "spec.resources.limits.memory of the ActorTemplate";
  }
  if (!need.declared.cpu().empty()) {
    ATE_ASSIGN(const std::int64_t declared, core::parse_cpu_milli(need.declared.cpu()));
    budget.cpu_milli = std::min(budget.cpu_milli, declared);
  }
  const std::int32_t minimum_vcpus = need.sandbox_class == v1alpha1::gvisor ? 2 : 1;
  ATE_ASSIGN(const core::GuestSize size,
             core::size_guest(budget, terms(need.sandbox_class), minimum_vcpus, knob));
  fit.limits.cpu_milli = budget.cpu_milli;
  fit.limits.memory_bytes = budget.memory_bytes;
  fit.limits.guest_memory_bytes = size.memory_bytes;
  fit.limits.guest_vcpus = size.vcpus;
  fit.overhead_bytes = size.overhead_bytes;
  if (need.baked) {
    if (need.baked->memory_bytes + need.baked->overhead_bytes > budget.memory_bytes) {
      return fail(too_small_for_snapshot(*need.baked, pool, budget.memory_bytes));
    }
    fit.limits.guest_memory_bytes = need.baked->memory_bytes;
    fit.limits.guest_vcpus = need.baked->vcpus;
    fit.overhead_bytes = need.baked->overhead_bytes;
  }
  return fit;
}

struct Workers::Search {
  std::int64_t fitting = 0;
  std::int64_t assigned = 0;
  std::optional<Error> nearest;
  std::optional<Slot> slot;
  std::string pool;  // of the slot
};

Result<Slot> Workers::take(const Need& need, const std::string& uid) {
  Search search;
  std::vector<std::shared_ptr<const v1alpha1::WorkerPool>> pools = templates_.pools();
  std::ranges::sort(pools, [](const auto& a, const auto& b) {
    return a->metadata().name() < b->metadata().name();
  });
  for (const auto& pool : pools) {
    if (!selected(*pool, need)) {
      continue;
    }
    const Result<Fit> fitting = fit(*pool, need);
    if (!fitting) {
      if (!search.nearest || rank(fitting.error().code()) > rank(search.nearest->code())) {
        search.nearest = fitting.error();
      }
      continue;
    }
    for (std::int32_t ordinal = 0; ordinal < replicas(*pool); ++ordinal) {
      ++search.fitting;
      std::string name = worker_name(pool->metadata().name(), ordinal);
      if (taken_.contains(name)) {
        ++search.assigned;
      } else if (!search.slot) {
        search.slot = Slot{std::move(name), pool->spec().sandbox_config(), fitting->limits,
                           fitting->overhead_bytes};
        search.pool = pool->metadata().name();
      }
    }
  }
  const std::int64_t free = search.fitting - search.assigned;
  if (search.slot && free <= need.spare) {
    return fail(Error(Errc::NoFreeWorker,
                      "it takes a worker only while another one that fits stays "
                      "free; " +
                          std::to_string(free) + " of " + std::to_string(search.fitting) +
                          " are free")
                    .with("workers", search.fitting)
                    .with("assigned", search.assigned));
  }
  if (search.slot) {
    taken_.emplace(search.slot->worker, Holding{uid, search.pool, need.sandbox_class});
    return std::move(*search.slot);
  }
  if (search.fitting > 0) {
    return fail(Error(Errc::NoFreeWorker,
                      "all " + std::to_string(search.fitting) + " workers that fit are assigned")
                    .with("retryAfterSeconds", kRetryAfterSeconds)
                    .with("workers", search.fitting)
                    .with("assigned", search.assigned));
  }
  if (search.nearest) {
    return fail(std::move(*search.nearest));
  }
  return fail(Errc::NeverFits, "no WorkerPool of class " + class_name(need.sandbox_class) +
                                   " has workers" + wanted_labels(need));
}

Result<Workers::Least> Workers::least(const Need& need) const {
  std::optional<Least> least;
  Error why(Errc::NeverFits, "no WorkerPool of class " + class_name(need.sandbox_class) +
                                 " that the template's workerSelector selects has workers");
  std::vector<std::shared_ptr<const v1alpha1::WorkerPool>> pools = templates_.pools();
  std::ranges::sort(pools, [](const auto& a, const auto& b) {
    return a->metadata().name() < b->metadata().name();
  });
  for (const auto& pool : pools) {
    if (!selected(*pool, need) || replicas(*pool) == 0) {
      continue;
    }
    const Result<Fit> fitting = fit(*pool, need);
    if (!fitting) {
      why = fitting.error();
      continue;
    }
    const runtime::WorkerLimits& limits = fitting->limits;
    if (!least || limits.guest_memory_bytes < least->size.memory_bytes) {
      const std::int32_t vcpus = least ? least->size.vcpus : limits.guest_vcpus;
      least = Least{{limits.guest_memory_bytes, fitting->overhead_bytes, vcpus},
                    pool->spec().sandbox_config()};
    }
    least->size.vcpus = std::min(least->size.vcpus, limits.guest_vcpus);
  }
  if (!least) {
    return fail(std::move(why));
  }
  return std::move(*least);
}

void Workers::give_back(const std::string& worker, const std::string& uid) {
  if (holder(worker) == uid) {
    taken_.erase(worker);
  }
}

std::string Workers::holder(const std::string& worker) const {
  const auto found = taken_.find(worker);
  return found == taken_.end() ? std::string() : found->second.uid;
}

std::shared_ptr<v1alpha1::Worker> Workers::describe(const std::string& name,
                                                    const v1alpha1::WorkerPool* pool) const {
  auto worker = std::make_shared<v1alpha1::Worker>();
  worker->set_name(name);
  worker->set_enforcement(options_.enforcement ? "required" : "off");
  if (!options_.cgroup_root.empty()) {
    worker->set_cgroup(options_.cgroup_root + "/" + name);
  }
  const std::string uid = holder(name);
  worker->mutable_actor()->set_uid(uid);  // completed or cleared by the caller
  if (pool == nullptr) {
    const Holding& holding = taken_.at(name);
    worker->set_pool(holding.pool);
    worker->set_sandbox_class(holding.sandbox_class);
    worker->set_state("DRAINING");
    return worker;
  }
  worker->set_pool(pool->metadata().name());
  worker->set_sandbox_class(pool->spec().sandbox_class());
  worker->set_state(uid.empty() ? "FREE" : "ASSIGNED");
  Need need;
  need.sandbox_class = pool->spec().sandbox_class();
  v1alpha1::TermsStatus& budget = *worker->mutable_budget();
  const Result<core::Budget> limits = budget_of(pool->spec().resources().limits());
  if (limits) {
    budget.set_budget_memory_bytes(limits->memory_bytes);
    budget.set_budget_cpu_milli(limits->cpu_milli);
    budget.set_budget_pids(pids_of(pool->spec().resources().limits()));
  }
  const Result<Fit> size = fit(*pool, need);
  if (size) {
    budget.set_overhead_bytes(size->overhead_bytes);
    worker->mutable_guest()->set_memory_bytes(size->limits.guest_memory_bytes);
    worker->mutable_guest()->set_vcpus(size->limits.guest_vcpus);
  }
  return worker;
}

std::vector<std::shared_ptr<v1alpha1::Worker>> Workers::view() const {
  std::vector<std::shared_ptr<v1alpha1::Worker>> all;
  std::map<std::string, Holding> rest = taken_;
  std::vector<std::shared_ptr<const v1alpha1::WorkerPool>> pools = templates_.pools();
  std::ranges::sort(pools, [](const auto& a, const auto& b) {
    return a->metadata().name() < b->metadata().name();
  });
  for (const auto& pool : pools) {
    for (std::int32_t ordinal = 0; ordinal < replicas(*pool); ++ordinal) {
      const std::string name = worker_name(pool->metadata().name(), ordinal);
      rest.erase(name);
      all.push_back(describe(name, pool.get()));
    }
  }
  for (const auto& [name, holding] : rest) {
    all.push_back(describe(name, nullptr));
  }
  return all;
}

Status Workers::usable(const v1alpha1::WorkerPool& pool) const {
  const std::string& config = pool.spec().sandbox_config();
  const std::string sandbox_class = class_name(pool.spec().sandbox_class());
  if (templates_.sandbox_config(config, sandbox_class) == nullptr) {
    return fail(Errc::NotFound, config.empty()
                                    ? "no SandboxConfig is the default of class " + sandbox_class
                                    : "there is no SandboxConfig " + config);
  }
  Need need;
  need.sandbox_class = pool.spec().sandbox_class();
  ATE_TRY(fit(pool, need));
  return {};
}

void Workers::describe(v1alpha1::WorkerPool& pool) const {
  v1alpha1::WorkerPoolStatus& status = *pool.mutable_status();
  status.set_workers(replicas(pool));
  status.set_assigned(static_cast<std::int32_t>(std::ranges::count_if(
      taken_, [&](const auto& item) { return item.second.pool == pool.metadata().name(); })));
  const Status able = usable(pool);
  status.mutable_object()->set_ready(able ? "True" : "False");
  status.mutable_object()->set_message(able ? "" : able.error().message());
}

}  // namespace ate::engine
