#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ate/core/admission.hpp"
#include "ate/core/budget.hpp"
#include "ate/core/cgroup_plan.hpp"
#include "ate/engine/engine.hpp"
#include "ate/engine/templates.hpp"
#include "ate/runtime/runtime.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::engine {

/// A worker that was taken.
struct Slot {
  std::string worker;
  std::string sandbox_config;  // of its pool; "" = the class's default
  runtime::WorkerLimits limits;
  std::int64_t overhead_bytes = 0;
};

/// The workers that the pools make, who holds them and what they may use. In memory: it is derived
/// from the actors' rows and from the cgroups at start, and a worker stays taken until nothing of
/// its sandbox is left.
class Workers {
 public:
  /// A budget as it was last read.
  using Measured = Result<core::EffectiveBudget>;

  Workers(const Templates& templates, const Options& options)
      : templates_(templates), options_(options) {}

  /// What starting that template, or restoring that snapshot of one, asks for. InvalidValue.
  [[nodiscard]] Result<core::Demand> demand(const v1alpha1::ActorTemplateSpec& spec,
                                            const v1alpha1::SnapshotManifest* manifest) const;

  /// The worker that core::admit chooses, taken for `uid`; else core::refusal.
  [[nodiscard]] Result<Slot> take(const core::Demand& demand, const std::string& uid);

  /// What every worker that fits can hold, and the config of the pool that can hold the least.
  struct Least {
    core::BakedSize size;
    std::string sandbox_config;
  };

  [[nodiscard]] Result<Least> least(const core::Demand& demand) const;
  /// Does nothing unless `uid` holds it.
  void give_back(const std::string& worker, const std::string& uid);

  /// Who holds it; "" = nobody.
  [[nodiscard]] std::string holder(const std::string& worker) const;
  [[nodiscard]] std::vector<std::shared_ptr<v1alpha1::Worker>> view() const;
  /// Fills in the pool's status: workers, how many are taken, and why no actor can run in them.
  void describe(v1alpha1::WorkerPool& pool) const;
  /// Every pool, its budget, what of it is free.
  [[nodiscard]] v1alpha1::Capacity capacity() const;
  /// What an actor of the template would get on each pool, or why not.
  [[nodiscard]] v1alpha1::Explanation explain(const v1alpha1::ActorTemplate& blueprint) const;

  /// What a taken worker offers by what is known now. NotFound: it is not taken, or its pool is
  /// gone.
  [[nodiscard]] Result<core::Budget> offered(const std::string& worker) const;

  // What the host says, kept up to date by budgets.cpp.
  /// Workers of all pools.
  [[nodiscard]] std::vector<std::string> names() const;
  /// True when it differs from what was known.
  bool set_measured(const std::string& worker, Measured measured);
  /// Of the tree that all workers share.
  void set_tree(Measured measured);
  /// FREE workers whose cgroup was not yet given the limits of its pool, with those.
  [[nodiscard]] std::map<std::string, core::CgroupLimits> unapplied() const;
  /// The same of one worker, whoever holds it.
  [[nodiscard]] std::optional<core::CgroupLimits> unapplied(const std::string& worker) const;
  void set_applied(const std::string& worker, const core::CgroupLimits& limits);
  /// Workers whose pool is gone or has shrunk and that nobody holds.
  [[nodiscard]] std::vector<std::string> obsolete() const;
  void forget(const std::string& worker);

 private:
  struct Holding {
    std::string uid;
    std::string pool;
    v1alpha1::SandboxClass sandbox_class = v1alpha1::unspecified;
  };

  /// Name of a worker -> limits of its pool.
  using PoolLimits = std::map<std::string, core::CgroupLimits>;
  using PoolPtr = std::shared_ptr<const v1alpha1::WorkerPool>;

  [[nodiscard]] std::vector<PoolPtr> pools() const;  // by name
  /// Of all workers whose cgroup was not given those limits yet.
  [[nodiscard]] PoolLimits owed() const;
  [[nodiscard]] core::OverheadTerms terms(v1alpha1::SandboxClass sandbox_class) const;
  [[nodiscard]] Result<core::Budget> budget_of(const std::string& worker,
                                               const Result<core::Budget>& of_pool) const;
  [[nodiscard]] core::PoolOffer offer(const v1alpha1::WorkerPool& pool) const;
  [[nodiscard]] std::vector<core::PoolOffer> offers() const;
  [[nodiscard]] Status usable(const v1alpha1::WorkerPool& pool) const;
  void describe_budget(const core::WorkerOffer& offer, v1alpha1::SandboxClass sandbox_class,
                       v1alpha1::Worker& worker) const;
  [[nodiscard]] std::shared_ptr<v1alpha1::Worker> describe_worker(const std::string& name) const;

  const Templates& templates_;
  const Options& options_;
  std::map<std::string, Holding> taken_;  // by worker
  std::map<std::string, std::uint64_t> last_used_;
  std::uint64_t uses_ = 0;
  std::map<std::string, Measured> measured_;
  std::optional<Measured> tree_;
  std::map<std::string, core::CgroupLimits> applied_;
};

/// Workers that the pool makes; 1 unless it says.
[[nodiscard]] std::int32_t replicas(const v1alpha1::WorkerPool& pool);

}  // namespace ate::engine
