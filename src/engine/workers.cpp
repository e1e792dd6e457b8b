#include "engine/workers.hpp"

#include <algorithm>

#include "ate/core/units.hpp"

namespace ate::engine {

namespace {

constexpr std::int64_t kDefaultPids = 4096;

std::string worker_name(const std::string& pool, std::int32_t ordinal) {
  return pool + "-" + std::to_string(ordinal);
}

Result<core::Budget> declared_budget(const v1alpha1::WorkerPool& pool) {
  const v1alpha1::Limits& limits = pool.spec().resources().limits();
  core::Budget budget;
  ATE_ASSIGN(budget.memory_bytes, core::parse_bytes(limits.memory()));
  ATE_ASSIGN(budget.cpu_milli, core::parse_cpu_milli(limits.cpu()));
  return budget;
}

std::int64_t pids_of(const v1alpha1::WorkerPool& pool) {
  return core::parse_count(pool.spec().resources().limits().pids()).value_or(kDefaultPids);
}

std::string class_name(v1alpha1::SandboxClass sandbox_class) {
  return v1alpha1::SandboxClass_Name(sandbox_class);
}

bool same(const Workers::Measured& a, const Workers::Measured& b) {
  if (!a || !b) {
    return a.has_value() == b.has_value() && a.error().message() == b.error().message();
  }
  return a->budget == b->budget && a->pids == b->pids;
}

}  // namespace

std::int32_t replicas(const v1alpha1::WorkerPool& pool) {
  return pool.spec().has_replicas() ? pool.spec().replicas() : 1;
}

core::OverheadTerms Workers::terms(v1alpha1::SandboxClass sandbox_class) const {
  return sandbox_class == v1alpha1::gvisor ? options_.gvisor_overhead : options_.microvm_overhead;
}

std::vector<Workers::PoolPtr> Workers::pools() const {
  std::vector<PoolPtr> pools = templates_.pools();
  std::ranges::sort(
      pools, {}, [](const PoolPtr& pool) -> const std::string& { return pool->metadata().name(); });
  return pools;
}

Result<core::Demand> Workers::demand(const v1alpha1::ActorTemplateSpec& spec,
                                     const v1alpha1::SnapshotManifest* manifest) const {
  core::Demand demand;
  demand.sandbox_class = class_name(spec.sandbox_class());
  demand.selector.insert(spec.worker_selector().begin(), spec.worker_selector().end());
  const v1alpha1::Limits& limits = spec.resources().limits();
  if (!limits.memory().empty()) {
    ATE_ASSIGN(demand.declared_memory, core::parse_bytes(limits.memory()));
  }
  if (!limits.cpu().empty()) {
    ATE_ASSIGN(demand.declared_cpu_milli, core::parse_cpu_milli(limits.cpu()));
  }
  if (!limits.pids().empty()) {
    ATE_ASSIGN(demand.declared_pids, core::parse_count(limits.pids()));
  }
  for (const v1alpha1::Container& container : spec.containers()) {
    const v1alpha1::Limits& own = container.resources().limits();
    core::ContainerLimits declared{container.name(), {}, {}};
    if (!own.memory().empty()) {
      ATE_ASSIGN(declared.memory_bytes, core::parse_bytes(own.memory()));
    }
    if (!own.cpu().empty()) {
      ATE_ASSIGN(declared.cpu_milli, core::parse_cpu_milli(own.cpu()));
    }
    demand.containers.push_back(std::move(declared));
  }
  demand.declaration_required = options_.require_actor_limits;
  demand.overhead = terms(spec.sandbox_class());
  demand.minimum_vcpus = spec.sandbox_class() == v1alpha1::gvisor ? 2 : 1;
  if (manifest != nullptr) {
    demand.baked =
        core::BakedSize{manifest->memory_bytes(), manifest->overhead_bytes(), manifest->vcpus()};
  }
  return demand;
}

Result<core::Budget> Workers::budget_of(const std::string& worker,
                                        const Result<core::Budget>& of_pool) const {
  if (!of_pool) {
    return of_pool;
  }
  const auto found = measured_.find(worker);
  if (found == measured_.end()) {
    return of_pool;
  }
  if (!found->second) {
    return fail(found->second.error());
  }
  const core::Budget& limit = found->second->budget;
  return core::Budget{std::min(of_pool->memory_bytes, limit.memory_bytes),
                      std::min(of_pool->cpu_milli, limit.cpu_milli)};
}

Result<core::Budget> Workers::offered(const std::string& worker) const {
  const auto held = taken_.find(worker);
  for (const PoolPtr& pool : pools()) {
    if (held != taken_.end() && pool->metadata().name() == held->second.pool) {
      return budget_of(worker, declared_budget(*pool));
    }
  }
  return fail(Errc::NotFound, "worker " + worker + " is not taken, or its pool is gone");
}

core::PoolOffer Workers::offer(const v1alpha1::WorkerPool& pool) const {
  core::PoolOffer out;
  out.name = pool.metadata().name();
  out.sandbox_class = class_name(pool.spec().sandbox_class());
  out.labels.insert(pool.metadata().labels().begin(), pool.metadata().labels().end());
  const Result<core::Budget> of_pool = declared_budget(pool);
  const std::int64_t pids = pids_of(pool);
  for (std::int32_t ordinal = 0; ordinal < replicas(pool); ++ordinal) {
    core::WorkerOffer worker;
    worker.name = worker_name(out.name, ordinal);
    worker.budget = budget_of(worker.name, of_pool);
    worker.pids = pids;
    worker.free = !taken_.contains(worker.name);
    const auto used = last_used_.find(worker.name);
    worker.last_used = used == last_used_.end() ? 0 : used->second;
    out.workers.push_back(std::move(worker));
  }
  return out;
}

std::vector<core::PoolOffer> Workers::offers() const {
  std::vector<core::PoolOffer> out;
  core::PoolSum sum(tree_ && *tree_ ? &**tree_ : nullptr, options_.overcommit);
  for (const PoolPtr& pool : pools()) {
    out.push_back(offer(*pool));
    const Result<core::Budget> each = declared_budget(*pool);
    if (!options_.enforcement || !each) {
      continue;
    }
    if (Status fits = sum.add(out.back().name, replicas(*pool), *each); !fits) {
      out.back().refused = std::move(fits).error();
    }
  }
  return out;
}

Result<Slot> Workers::take(const core::Demand& demand, const std::string& uid) {
  const core::Admission admission = core::admit(demand, offers());
  if (!admission.placement) {
    return fail(core::refusal(demand, admission));
  }
  const core::Placement& placement = *admission.placement;
  Slot slot;
  slot.worker = placement.worker;
  slot.overhead_bytes = placement.allotment.guest.overhead_bytes;
  slot.limits.cpu_milli = placement.allotment.budget.cpu_milli;
  slot.limits.memory_bytes = placement.allotment.budget.memory_bytes;
  slot.limits.pids = placement.allotment.pids;
  slot.limits.guest_memory_bytes = placement.allotment.guest.memory_bytes;
  slot.limits.guest_vcpus = placement.allotment.guest.vcpus;
  Holding holding{uid, placement.pool, v1alpha1::unspecified};
  for (const PoolPtr& pool : pools()) {
    if (pool->metadata().name() == placement.pool) {
      slot.sandbox_config = pool->spec().sandbox_config();
      holding.sandbox_class = pool->spec().sandbox_class();
    }
  }
  last_used_[slot.worker] = ++uses_;
  taken_.emplace(slot.worker, std::move(holding));
  return slot;
}

Result<Workers::Least> Workers::least(const core::Demand& demand) const {
  ATE_ASSIGN(const core::LeastSize least, core::least_size(demand, offers()));
  Least out{least.size, {}};
  for (const PoolPtr& pool : pools()) {
    if (pool->metadata().name() == least.pool) {
      out.sandbox_config = pool->spec().sandbox_config();
    }
  }
  return out;
}

void Workers::give_back(const std::string& worker, const std::string& uid) {
  if (holder(worker) == uid) {
    taken_.erase(worker);
    last_used_[worker] = ++uses_;
  }
}

std::string Workers::holder(const std::string& worker) const {
  const auto found = taken_.find(worker);
  return found == taken_.end() ? std::string() : found->second.uid;
}

std::vector<std::string> Workers::names() const {
  std::vector<std::string> names;
  for (const PoolPtr& pool : templates_.pools()) {
    for (std::int32_t ordinal = 0; ordinal < replicas(*pool); ++ordinal) {
      names.push_back(worker_name(pool->metadata().name(), ordinal));
    }
  }
  return names;
}

bool Workers::set_measured(const std::string& worker, Measured measured) {
  const auto [known, fresh] = measured_.try_emplace(worker, measured);
  if (fresh) {
    return true;
  }
  const bool changed = !same(known->second, measured);
  known->second = std::move(measured);
  return changed;
}

void Workers::set_tree(Measured measured) {
  tree_ = std::move(measured);
}

Workers::PoolLimits Workers::owed() const {
  PoolLimits out;
  for (const PoolPtr& pool : templates_.pools()) {
    const Result<core::Budget> budget = declared_budget(*pool);
    if (!budget) {
      continue;
    }
    const core::CgroupLimits limits{budget->memory_bytes, budget->cpu_milli, pids_of(*pool)};
    for (std::int32_t ordinal = 0; ordinal < replicas(*pool); ++ordinal) {
      std::string name = worker_name(pool->metadata().name(), ordinal);
      const auto applied = applied_.find(name);
      if (applied == applied_.end() || applied->second != limits) {
        out.emplace(std::move(name), limits);
      }
    }
  }
  return out;
}

std::map<std::string, core::CgroupLimits> Workers::unapplied() const {
  PoolLimits out = owed();
  std::erase_if(out, [this](const auto& item) { return taken_.contains(item.first); });
  return out;
}

std::optional<core::CgroupLimits> Workers::unapplied(const std::string& worker) const {
  const PoolLimits all = owed();
  const auto found = all.find(worker);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

void Workers::set_applied(const std::string& worker, const core::CgroupLimits& limits) {
  applied_[worker] = limits;
}

std::vector<std::string> Workers::obsolete() const {
  const std::vector<std::string> wanted = names();
  const std::set<std::string> keep(wanted.begin(), wanted.end());
  std::vector<std::string> out;
  for (const auto& [name, limits] : applied_) {
    if (!keep.contains(name) && !taken_.contains(name)) {
      out.push_back(name);
    }
  }
  return out;
}

void Workers::forget(const std::string& worker) {
  applied_.erase(worker);
  measured_.erase(worker);
  last_used_.erase(worker);
}

}  // namespace ate::engine
