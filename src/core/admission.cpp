#include "ate/core/admission.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "ate/core/units.hpp"

namespace ate::core {
namespace {

constexpr std::int64_t kRetryAfterSeconds = 5;
constexpr const char* kDeclaredMemory = "spec.resources.limits.memory";
constexpr const char* kDeclaredCpu = "spec.resources.limits.cpu";
constexpr const char* kDeclaredPids = "spec.resources.limits.pids";

std::string pool_knob(const char* field, const std::string& pool) {
  return std::string(field) + " of WorkerPool " + pool;
}

std::string cpu_knob(const Demand& demand, const std::string& pool) {
  return demand.declared_cpu_milli ? std::string(kDeclaredCpu) + " of the ActorTemplate"
                                   : pool_knob(kDeclaredCpu, pool);
}

Error over_budget(const char* field, std::int64_t declared, std::int64_t budget,
                  const std::string& pool, const char* unit) {
  return Error(Errc::NeverFits, "the template declares " + std::to_string(declared) + " " + unit +
                                    ", workers of pool " + pool + " have " +
                                    std::to_string(budget) + ": lower " + field +
                                    " of the ActorTemplate or raise " + pool_knob(field, pool))
      .with_field(field)
      .with("declared", declared)
      .with("budget", budget);
}

Error too_small_for_snapshot(const BakedSize& baked, const std::string& pool, std::int64_t budget) {
  return Error(Errc::SnapshotIncompatible,
               "the snapshot's guest has " + std::to_string(baked.memory_bytes) + " bytes and " +
                   std::to_string(baked.overhead_bytes) + " bytes of overhead; workers of pool " +
                   pool + " have " + std::to_string(budget) + " bytes: raise " +
                   pool_knob(kDeclaredMemory, pool))
      .with("snapshotMemoryBytes", baked.memory_bytes)
      .with("snapshotOverheadBytes", baked.overhead_bytes)
      .with("workerMemoryBytes", budget);
}

/// The worker's budget, narrowed to what the template declares.
Result<Budget> declared_of(const Demand& demand, const std::string& pool, Budget budget) {
  if (demand.declaration_required && !(demand.declared_memory && demand.declared_cpu_milli)) {
    return fail(Error(Errc::NeverFits,
                      "this node takes only templates that declare spec.resources.limits.memory "
                      "and .cpu (sizing.requireActorLimits of the NodeConfig)")
                    .with_field("spec.resources.limits"));
  }
  if (demand.declared_memory) {
    if (*demand.declared_memory > budget.memory_bytes) {
      return fail(over_budget(kDeclaredMemory, *demand.declared_memory, budget.memory_bytes, pool,
                              "bytes"));
    }
    budget.memory_bytes = *demand.declared_memory;
  }
  if (demand.declared_cpu_milli) {
    if (*demand.declared_cpu_milli > budget.cpu_milli) {
      return fail(over_budget(kDeclaredCpu, *demand.declared_cpu_milli, budget.cpu_milli, pool,
                              "milli-CPU"));
    }
    budget.cpu_milli = *demand.declared_cpu_milli;
  }
  return budget;
}

Result<GuestSize> baked_size(const BakedSize& baked, const std::string& pool,
                             const Budget& budget) {
  // Compared without a sum: a manifest may hold any numbers.
  if (baked.memory_bytes < 0 || baked.overhead_bytes < 0 ||
      baked.memory_bytes > budget.memory_bytes ||
      baked.overhead_bytes > budget.memory_bytes - baked.memory_bytes) {
    return fail(too_small_for_snapshot(baked, pool, budget.memory_bytes));
  }
  return GuestSize{baked.memory_bytes, baked.vcpus, baked.overhead_bytes};
}

/// How near an answer comes to "yes": the nearest one is what the caller is told.
int nearness(Errc code) {
  switch (code) {
    case Errc::SnapshotIncompatible:
      return 4;
    case Errc::BudgetTooSmall:
      return 3;
    case Errc::NeverFits:
      return 2;
    default:
      return 1;
  }
}

bool same_budget(const WorkerOffer& a, const WorkerOffer& b) {
  return a.budget && b.budget && *a.budget == *b.budget;
}

/// Smaller is better.
auto preference(const WorkerOffer& worker) {
  return std::tuple(worker.budget->memory_bytes, worker.budget->cpu_milli, worker.last_used);
}

struct Search {
  Admission admission;
  const WorkerOffer* best = nullptr;
};

void consider(const Demand& demand, const PoolOffer& pool, Search& search) {
  const WorkerOffer* last = nullptr;  // whose answer holds for all of the same budget
  std::optional<Result<Allotment>> answer;
  for (const WorkerOffer& worker : pool.workers) {
    if (last == nullptr || !same_budget(*last, worker)) {
      answer = allot(demand, pool.name, worker);
      last = &worker;
      if (!*answer) {
        search.admission.reasons.push_back({pool.name, worker.name, answer->error()});
      }
    }
    if (!*answer) {
      continue;
    }
    ++search.admission.fitting;
    if (!worker.free) {
      ++search.admission.assigned;
    } else if (search.best == nullptr || preference(worker) < preference(*search.best)) {
      search.best = &worker;
      search.admission.placement = Placement{worker.name, pool.name, **answer};
    }
  }
}

/// What may be promised of `limit`.
std::int64_t promised(std::int64_t limit, double factor) {
  constexpr std::int64_t kThousand = 1000;
  const auto thousandths = static_cast<std::int64_t>(factor * kThousand);
  std::int64_t scaled = 0;
  if (__builtin_mul_overflow(limit / kThousand, thousandths, &scaled)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return scaled + limit % kThousand * thousandths / kThousand;
}

std::int64_t saturated(std::int64_t total, std::int64_t replicas, std::int64_t each) {
  std::int64_t product = 0;
  std::int64_t sum = 0;
  if (__builtin_mul_overflow(replicas, each, &product) ||
      __builtin_add_overflow(total, product, &sum)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return sum;
}

std::string append_term(const std::string& text, const std::string& pool, std::int64_t replicas,
                        const std::string& each) {
  return text + (text.empty() ? "" : " + ") + pool + " " + std::to_string(replicas) + " \u00d7 " +
         each;
}

Error over_tree(const std::string& what, const std::string& sum, const std::string& total,
                const std::string& limit, const std::string& source, const std::string& factor) {
  return Error(Errc::NeverFits, "the pools' " + what + " together (" + sum + " = " + total +
                                    ") is more than the " + limit + " that " + source + " leaves" +
                                    factor +
                                    "; lower replicas or limits of a pool, or allow it by "
                                    "spec.sizing.overcommit of the NodeConfig");
}

std::string factor_text(double factor) {
  return factor == 1.0 ? std::string() : " (overcommit included)";
}

std::string in_cpus(std::int64_t milli) {
  return format_cpu(milli) + " CPUs";
}

}  // namespace

Status PoolSum::add(const std::string& pool, std::int64_t replicas, const Budget& each) {
  const std::string memory_text =
      append_term(memory_text_, pool, replicas, format_bytes(each.memory_bytes));
  const std::string cpu_text =
      append_term(cpu_text_, pool, replicas, std::to_string(each.cpu_milli) + "m");
  const Budget total{saturated(total_.memory_bytes, replicas, each.memory_bytes),
                     saturated(total_.cpu_milli, replicas, each.cpu_milli)};
  if (tree_ != nullptr) {
    const Budget limit{promised(tree_->budget.memory_bytes, overcommit_.memory),
                       promised(tree_->budget.cpu_milli, overcommit_.cpu)};
    if (total.memory_bytes > limit.memory_bytes) {
      return fail(over_tree("memory", memory_text, format_bytes(total.memory_bytes),
                            format_bytes(limit.memory_bytes),
                            tree_->terms.at(tree_->memory_term).source,
                            factor_text(overcommit_.memory))
                      .with("sumBytes", total.memory_bytes)
                      .with("limitBytes", limit.memory_bytes));
    }
    if (total.cpu_milli > limit.cpu_milli) {
      return fail(over_tree("CPU", cpu_text, in_cpus(total.cpu_milli), in_cpus(limit.cpu_milli),
                            tree_->terms.at(tree_->cpu_term).source, factor_text(overcommit_.cpu))
                      .with("sumCpuMilli", total.cpu_milli)
                      .with("limitCpuMilli", limit.cpu_milli));
    }
  }
  total_ = total;
  memory_text_ = memory_text;
  cpu_text_ = cpu_text;
  return {};
}

Result<Allotment> allot(const Demand& demand, const std::string& pool, const WorkerOffer& worker) {
  if (!worker.budget) {
    return fail(Error(worker.budget.error())
                    .context("the budget of worker " + worker.name + " can't be determined"));
  }
  Allotment out;
  out.pids = worker.pids;
  ATE_ASSIGN(out.budget, declared_of(demand, pool, *worker.budget));
  if (demand.baked) {
    ATE_ASSIGN(out.guest, baked_size(*demand.baked, pool, out.budget));
    return out;
  }
  if (demand.declared_pids) {
    if (*demand.declared_pids > worker.pids) {
      return fail(
          over_budget(kDeclaredPids, *demand.declared_pids, worker.pids, pool, "processes"));
    }
    out.pids = *demand.declared_pids;
  }
  const std::string knob = demand.declared_memory
                               ? std::string(kDeclaredMemory) + " of the ActorTemplate"
                               : pool_knob(kDeclaredMemory, pool);
  ATE_ASSIGN(out.guest, size_guest(out.budget, demand.overhead, demand.minimum_vcpus, knob));
  ATE_TRY(check_envelope(demand.containers, {out.guest, knob, cpu_knob(demand, pool)}));
  return out;
}

Status eligible(const Demand& demand, const PoolOffer& pool) {
  if (pool.sandbox_class != demand.sandbox_class) {
    return fail(Errc::NeverFits, "pool " + pool.name + " is of class " + pool.sandbox_class +
                                     ", the template of class " + demand.sandbox_class);
  }
  for (const auto& [key, value] : demand.selector) {
    const auto found = pool.labels.find(key);
    if (found == pool.labels.end() || found->second != value) {
      const std::string has =
          found == pool.labels.end() ? "no label " + key : key + "=" + found->second;
      return fail(Errc::NeverFits, "the template's workerSelector wants " + key + "=" + value +
                                       ", pool " + pool.name + " has " + has);
    }
  }
  if (pool.workers.empty()) {
    return fail(Errc::NeverFits, "pool " + pool.name + " has no workers (spec.replicas is 0)");
  }
  if (pool.refused) {
    return fail(*pool.refused);
  }
  return {};
}

Admission admit(const Demand& demand, const std::vector<PoolOffer>& pools) {
  Search search;
  for (const PoolOffer& pool : pools) {
    if (Status status = eligible(demand, pool); !status) {
      search.admission.reasons.push_back({pool.name, "", std::move(status).error()});
      continue;
    }
    consider(demand, pool, search);
  }
  if (search.admission.fitting - search.admission.assigned <= demand.spare) {
    search.admission.placement.reset();
  }
  return std::move(search.admission);
}

Result<LeastSize> least_size(const Demand& demand, const std::vector<PoolOffer>& pools) {
  LeastSize least;
  for (const PoolOffer& pool : pools) {
    if (!eligible(demand, pool)) {
      continue;
    }
    for (const WorkerOffer& worker : pool.workers) {
      const Result<Allotment> allotment = allot(demand, pool.name, worker);
      if (!allotment) {
        continue;
      }
      const GuestSize& guest = allotment->guest;
      const bool first = least.pool.empty();
      if (first || guest.memory_bytes < least.size.memory_bytes) {
        least.size.memory_bytes = guest.memory_bytes;
        least.size.overhead_bytes = guest.overhead_bytes;
        least.pool = pool.name;
      }
      least.size.vcpus = first ? guest.vcpus : std::min(least.size.vcpus, guest.vcpus);
      least.most_memory_bytes = std::max(least.most_memory_bytes, guest.memory_bytes);
      least.most_vcpus = std::max(least.most_vcpus, guest.vcpus);
    }
  }
  if (least.pool.empty()) {
    return fail(refusal(demand, admit(demand, pools)));
  }
  return least;
}

Error refusal(const Demand& demand, const Admission& admission) {
  if (admission.fitting > admission.assigned) {
    return Error(Errc::NoFreeWorker,
                 "it takes a worker only while another one that fits stays free; " +
                     std::to_string(admission.fitting - admission.assigned) + " of " +
                     std::to_string(admission.fitting) + " are free")
        .with("workers", admission.fitting)
        .with("assigned", admission.assigned);
  }
  if (admission.fitting > 0) {
    return Error(Errc::NoFreeWorker,
                 "all " + std::to_string(admission.fitting) + " workers that fit are assigned")
        .with("retryAfterSeconds", kRetryAfterSeconds)
        .with("workers", admission.fitting)
        .with("assigned", admission.assigned);
  }
  const Ineligible* nearest = nullptr;
  for (const Ineligible& reason : admission.reasons) {
    const bool selected = !reason.worker.empty() || !reason.error.members().empty();
    if (selected &&
        (nearest == nullptr || nearness(reason.error.code()) > nearness(nearest->error.code()))) {
      nearest = &reason;
    }
  }
  if (nearest != nullptr) {
    return nearest->error;
  }
  std::string labels;
  for (const auto& [key, value] : demand.selector) {
    labels += (labels.empty() ? "" : ", ") + key + ": " + value;
  }
  return Error(Errc::NeverFits,
               "no WorkerPool of class " + demand.sandbox_class + " has workers" +
                   (labels.empty() ? labels
                                   : " and the labels that the template's workerSelector wants (" +
                                         labels + ")"));
}

}  // namespace ate::core
