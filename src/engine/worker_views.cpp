// What workers and pools look like from outside.
#include <algorithm>

#include "engine/workers.hpp"

namespace ate::engine {

namespace {

const char* resource_name(core::Resource resource) {
  switch (resource) {
    case core::Resource::Memory:
      return "memory";
    case core::Resource::Cpu:
      return "cpu";
    case core::Resource::Pids:
      return "pids";
    case core::Resource::Hugetlb:
      return "hugetlb";
  }
  return "";
}

template <class Terms>
void add_terms(const core::EffectiveBudget& budget, Terms& out) {
  for (std::size_t at = 0; at < budget.terms.size(); ++at) {
    const core::BudgetTerm& term = budget.terms[at];
    v1alpha1::BudgetTerm& shown = *out.Add();
    shown.set_resource(resource_name(term.resource));
    if (term.value) {
      shown.set_value(*term.value);
    }
    shown.set_source(term.source);
    shown.set_decides(at == budget.memory_term || at == budget.cpu_term);
  }
}

void show_allotment(const core::Allotment& allotment, v1alpha1::TermsStatus& budget,
                    v1alpha1::GuestStatus& guest) {
  budget.set_budget_memory_bytes(allotment.budget.memory_bytes);
  budget.set_budget_cpu_milli(allotment.budget.cpu_milli);
  budget.set_budget_pids(allotment.pids);
  budget.set_overhead_bytes(allotment.guest.overhead_bytes);
  guest.set_memory_bytes(allotment.guest.memory_bytes);
  guest.set_vcpus(allotment.guest.vcpus);
}

/// A start without wishes of its own: Option B.
core::Demand plain_demand(const core::OverheadTerms& terms, v1alpha1::SandboxClass sandbox_class) {
  core::Demand demand;
  demand.sandbox_class = v1alpha1::SandboxClass_Name(sandbox_class);
  demand.overhead = terms;
  demand.minimum_vcpus = sandbox_class == v1alpha1::gvisor ? 2 : 1;
  return demand;
}

std::int64_t memory_of(const core::WorkerOffer& worker) {
  return worker.budget ? worker.budget->memory_bytes : 0;
}

}  // namespace

void Workers::describe_budget(const core::WorkerOffer& offer, v1alpha1::SandboxClass sandbox_class,
                              v1alpha1::Worker& worker) const {
  const core::Demand demand = plain_demand(terms(sandbox_class), sandbox_class);
  const Result<core::Allotment> allotment = core::allot(demand, worker.pool(), offer);
  v1alpha1::TermsStatus& budget = *worker.mutable_budget();
  if (allotment) {
    show_allotment(*allotment, budget, *worker.mutable_guest());
  } else {
    worker.set_problem(allotment.error().message());
    budget.set_budget_memory_bytes(memory_of(offer));
    budget.set_budget_cpu_milli(offer.budget ? offer.budget->cpu_milli : 0);
    budget.set_budget_pids(offer.pids);
  }
  const auto measured = measured_.find(offer.name);
  if (measured != measured_.end() && measured->second) {
    add_terms(*measured->second, *worker.mutable_terms());
  }
}

std::shared_ptr<v1alpha1::Worker> Workers::describe_worker(const std::string& name) const {
  auto worker = std::make_shared<v1alpha1::Worker>();
  worker->set_name(name);
  worker->set_enforcement(options_.enforcement ? "required" : "off");
  if (!options_.cgroup_root.empty()) {
    worker->set_cgroup(options_.cgroup_root + "/" + name);
  }
  worker->mutable_actor()->set_uid(holder(name));  // completed or cleared by the caller
  return worker;
}

std::vector<std::shared_ptr<v1alpha1::Worker>> Workers::view() const {
  std::vector<std::shared_ptr<v1alpha1::Worker>> all;
  std::map<std::string, Holding> rest = taken_;
  const std::vector<PoolPtr> known = pools();
  const std::vector<core::PoolOffer> offered = offers();
  for (std::size_t at = 0; at < known.size(); ++at) {
    for (const core::WorkerOffer& offer : offered[at].workers) {
      rest.erase(offer.name);
      std::shared_ptr<v1alpha1::Worker> worker = describe_worker(offer.name);
      worker->set_pool(offered[at].name);
      worker->set_sandbox_class(known[at]->spec().sandbox_class());
      worker->set_state(offer.free ? "FREE" : "ASSIGNED");
      describe_budget(offer, known[at]->spec().sandbox_class(), *worker);
      if (offered[at].refused) {
        worker->set_problem(offered[at].refused->message());
      }
      all.push_back(std::move(worker));
    }
  }
  for (const auto& [name, holding] : rest) {
    std::shared_ptr<v1alpha1::Worker> worker = describe_worker(name);
    worker->set_pool(holding.pool);
    worker->set_sandbox_class(holding.sandbox_class);
    worker->set_state("DRAINING");
    all.push_back(std::move(worker));
  }
  return all;
}

Status Workers::usable(const v1alpha1::WorkerPool& pool) const {
  const v1alpha1::SandboxClass sandbox_class = pool.spec().sandbox_class();
  const core::Demand wanted = plain_demand(terms(sandbox_class), sandbox_class);
  const std::string& config = pool.spec().sandbox_config();
  if (templates_.sandbox_config(config, wanted.sandbox_class) == nullptr) {
    return fail(Errc::NotFound,
                config.empty() ? "no SandboxConfig is the default of class " + wanted.sandbox_class
                               : "there is no SandboxConfig " + config);
  }
  core::PoolOffer asked = offer(pool);
  for (const core::PoolOffer& known : offers()) {
    if (known.name == asked.name) {
      asked.refused = known.refused;
    }
  }
  ATE_TRY(core::eligible(wanted, asked));
  const core::Admission admission = core::admit(wanted, {asked});
  return admission.fitting > 0 ? Status() : fail(core::refusal(wanted, admission));
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

v1alpha1::Capacity Workers::capacity() const {
  v1alpha1::Capacity out;
  out.set_enforcement(options_.enforcement ? "required" : "off");
  out.set_host_memory_bytes(options_.host_capacity.memory_bytes);
  out.set_host_reserve_bytes(options_.host_capacity.reserve_bytes);
  out.set_host_cpus(static_cast<std::int32_t>(options_.host_capacity.cpus));
  if (options_.overcommit.memory != 1.0 || options_.overcommit.cpu != 1.0) {
    out.mutable_overcommit()->set_memory(options_.overcommit.memory);
    out.mutable_overcommit()->set_cpu(options_.overcommit.cpu);
  }
  if (tree_ && *tree_) {
    out.set_tree_memory_bytes((*tree_)->budget.memory_bytes);
    out.set_tree_cpu_milli((*tree_)->budget.cpu_milli);
    add_terms(**tree_, *out.mutable_terms());
  } else if (tree_) {
    out.set_problem(tree_->error().message());
  }
  const std::vector<PoolPtr> known = pools();
  const std::vector<core::PoolOffer> offered = offers();
  for (std::size_t at = 0; at < known.size(); ++at) {
    const v1alpha1::SandboxClass sandbox_class = known[at]->spec().sandbox_class();
    const core::Demand demand = plain_demand(terms(sandbox_class), sandbox_class);
    v1alpha1::PoolCapacity& pool = *out.add_pools();
    pool.set_pool(offered[at].name);
    pool.set_sandbox_class(sandbox_class);
    std::optional<core::Allotment> least;
    std::set<std::string> problems;
    if (offered[at].refused) {
      problems.insert(offered[at].refused->message());
    }
    for (const core::WorkerOffer& offer : offered[at].workers) {
      pool.set_workers(pool.workers() + 1);
      pool.set_assigned(pool.assigned() + (offer.free ? 0 : 1));
      const Result<core::Allotment> allotment = core::allot(demand, offered[at].name, offer);
      if (!allotment) {
        problems.insert(allotment.error().message());
        continue;
      }
      pool.set_free(pool.free() + (offer.free && !offered[at].refused ? 1 : 0));
      if (!least || allotment->budget.memory_bytes < least->budget.memory_bytes) {
        least = *allotment;
      }
    }
    if (least) {
      show_allotment(*least, *pool.mutable_budget(), *pool.mutable_guest());
    }
    pool.mutable_problems()->Add(problems.begin(), problems.end());
  }
  return out;
}

v1alpha1::Explanation Workers::explain(const v1alpha1::ActorTemplate& blueprint) const {
  v1alpha1::Explanation out;
  out.mutable_template_()->set_name(blueprint.metadata().name());
  out.mutable_template_()->set_generation(blueprint.metadata().generation());
  const Result<core::Demand> wanted = demand(blueprint.spec(), nullptr);
  if (!wanted) {
    out.set_reason(wanted.error().message());
    return out;
  }
  const std::vector<core::PoolOffer> offered = offers();
  const core::Admission admission = core::admit(*wanted, offered);
  out.set_placeable(admission.placement.has_value());
  if (admission.placement) {
    out.set_worker(admission.placement->worker);
  } else {
    out.set_reason(core::refusal(*wanted, admission).message());
  }
  for (const core::PoolOffer& pool : offered) {
    for (const core::Ineligible& why : admission.reasons) {
      if (why.pool == pool.name) {
        v1alpha1::PlacementAnswer& answer = *out.add_pools();
        answer.set_pool(pool.name);
        answer.set_worker(why.worker);
        answer.set_reason(why.error.message());
      }
    }
    if (!core::eligible(*wanted, pool)) {
      continue;
    }
    const auto first = std::ranges::find_if(pool.workers, [&](const core::WorkerOffer& worker) {
      return core::allot(*wanted, pool.name, worker).has_value();
    });
    if (first != pool.workers.end()) {
      v1alpha1::PlacementAnswer& answer = *out.add_pools();
      answer.set_pool(pool.name);
      answer.set_fits(true);
      show_allotment(*core::allot(*wanted, pool.name, *first), *answer.mutable_budget(),
                     *answer.mutable_guest());
    }
  }
  return out;
}

}  // namespace ate::engine
