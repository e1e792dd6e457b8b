#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ate/core/budget.hpp"
#include "ate/core/container_limits.hpp"
#include "ate/core/sizing.hpp"
#include "ate/util/result.hpp"

/// Whether, where and how large: the one rule that validation, create, resume and the explanation
/// share (design.md section 3). Pure.
namespace ate::core {

/// The size a restored guest had is baked into its snapshot (design.md section 3.7).
struct BakedSize {
  std::int64_t memory_bytes = 0;
  std::int64_t overhead_bytes = 0;
  std::int32_t vcpus = 0;
};

/// What a start asks for.
struct Demand {
  std::string sandbox_class;
  std::map<std::string, std::string> selector;  // labels of pools
  std::optional<std::int64_t> declared_memory;  // spec.resources.limits of the template
  std::optional<std::int64_t> declared_cpu_milli;
  std::optional<std::int64_t> declared_pids;
  std::vector<ContainerLimits> containers;  // of a micro-VM; held against the guest of a cold start
  bool declaration_required = false;        // sizing.requireActorLimits of the node
  OverheadTerms overhead;                   // of the class
  std::int32_t minimum_vcpus = 1;           // of the class
  std::optional<BakedSize> baked;
  std::int64_t spare = 0;  // that many more workers that fit have to stay free
};

/// One worker and what it may use, or why that can't be said.
struct WorkerOffer {
  std::string name;
  Result<Budget> budget = Budget{};
  std::int64_t pids = 0;
  bool free = true;
  std::uint64_t last_used = 0;  // higher = later; 0 = never
};

struct PoolOffer {
  std::string name;
  std::string sandbox_class;
  std::map<std::string, std::string> labels;
  std::vector<WorkerOffer> workers;
  std::optional<Error> refused;  // why none of them may be used: the pools' sum
};

/// What an incarnation gets on a worker.
struct Allotment {
  Budget budget;  // the worker's, or what the template declares of it
  std::int64_t pids = 0;
  GuestSize guest;
};

struct Placement {
  std::string worker;
  std::string pool;
  Allotment allotment;
};

/// Why a pool, or one worker of it, is not eligible.
struct Ineligible {
  std::string pool;
  std::string worker;  // "" = none of the pool's
  Error error;
};

struct Admission {
  std::optional<Placement> placement;
  std::int64_t fitting = 0;  // workers that could hold it, free or not
  std::int64_t assigned = 0;
  std::vector<Ineligible> reasons;  // one a worker with a budget of its own, one a pool otherwise
};

/// How much more than the tree has the pools together may promise; 1 = nothing (design.md section
/// 3).
struct Overcommit {
  double memory = 1.0;
  double cpu = 1.0;
};

/// Adds pools up against the budget of the tree that holds all workers.
class PoolSum {
 public:
  /// `tree` outlives it; null: it is not known, and nothing is refused.
  PoolSum(const EffectiveBudget* tree, Overcommit overcommit)
      : tree_(tree), overcommit_(overcommit) {}

  /// NeverFits with all terms of the sum when it passes the tree's; the pool is then left out of
  /// it.
  [[nodiscard]] Status add(const std::string& pool, std::int64_t replicas, const Budget& each);

 private:
  const EffectiveBudget* tree_;
  Overcommit overcommit_;
  Budget total_;
  std::string memory_text_;  // "small 4 x 1Gi"
  std::string cpu_text_;
};

/// What `demand` gets on a worker of that budget. BudgetTooSmall, NeverFits, SnapshotIncompatible
/// or InvalidValue with the numbers, and the knob that governs them.
[[nodiscard]] Result<Allotment> allot(const Demand& demand, const std::string& pool,
                                      const WorkerOffer& worker);

/// Ok when the pool's class and labels are those asked for and it may be used, else NeverFits with
/// what differs.
[[nodiscard]] Status eligible(const Demand& demand, const PoolOffer& pool);

/// Among the free workers that fit: the one with the smallest budget, then the one that was used
/// longest ago, then the first by name. Workers whose budget can't be read are skipped with the
/// reason.
[[nodiscard]] Admission admit(const Demand& demand, const std::vector<PoolOffer>& pools);

/// The smallest guest over all workers that fit, free or not: what every one of them can hold
/// (design.md section 3.7), and the pool of the smallest; and how far a guest that begins with it
/// may grow on the largest of them (a micro-VM's hotplug_size is the difference, its max_vcpus
/// `most_vcpus`: both are frozen in the snapshot). The refusal where none fits.
struct LeastSize {
  BakedSize size;
  std::string pool;
  std::int64_t most_memory_bytes = 0;
  std::int32_t most_vcpus = 0;
};

[[nodiscard]] Result<LeastSize> least_size(const Demand& demand,
                                           const std::vector<PoolOffer>& pools);

/// The refusal of an admission without placement: NoFreeWorker when some would fit, else the reason
/// that comes nearest to a yes.
[[nodiscard]] Error refusal(const Demand& demand, const Admission& admission);

}  // namespace ate::core
