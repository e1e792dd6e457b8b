#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ate/core/sizing.hpp"
#include "ate/engine/engine.hpp"
#include "ate/engine/templates.hpp"
#include "ate/runtime/runtime.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::engine {

/// What a start asks of a worker.
struct Need {
  v1alpha1::SandboxClass sandbox_class = v1alpha1::unspecified;
  std::map<std::string, std::string> selector;
  v1alpha1::Limits declared;  // spec.resources.limits of the template; empty = derived

  /// The memory of a restored guest is baked into its snapshot.
  struct Baked {
    std::int64_t memory_bytes = 0;
    std::int64_t overhead_bytes = 0;
    std::int32_t vcpus = 0;
  };

  std::optional<Baked> baked;
  std::int32_t spare = 0;  // that many more that fit have to be free
};

/// A worker that was taken.
struct Slot {
  std::string worker;
  std::string sandbox_config;  // of its pool; "" = the class's default
  runtime::WorkerLimits limits;
  std::int64_t overhead_bytes = 0;
};

/// The workers that the pools make, and who holds them. In memory: it is derived from the actors'
/// rows at start, and a worker stays taken until nothing of its sandbox is left.
class Workers {
 public:
  Workers(const Templates& templates, const Options& options)
      : templates_(templates), options_(options) {}

  /// The free worker of lowest ordinal that fits, taken for `uid`. NeverFits, BudgetTooSmall,
  /// SnapshotIncompatible, NoFreeWorker.
  [[nodiscard]] Result<Slot> take(const Need& need, const std::string& uid);

  /// What every worker that fits can hold, and the config of the pool that can hold the least.
  struct Least {
    Need::Baked size;
    std::string sandbox_config;
  };

  [[nodiscard]] Result<Least> least(const Need& need) const;
  /// Does nothing unless `uid` holds it.
  void give_back(const std::string& worker, const std::string& uid);

  /// Who holds it; "" = nobody.
  [[nodiscard]] std::string holder(const std::string& worker) const;
  [[nodiscard]] std::vector<std::shared_ptr<v1alpha1::Worker>> view() const;
  /// Fills in the pool's status: workers, how many are taken, and why no actor can run in them.
  void describe(v1alpha1::WorkerPool& pool) const;

 private:
  struct Fit {
    runtime::WorkerLimits limits;
    std::int64_t overhead_bytes = 0;
  };

  struct Search;
  [[nodiscard]] Result<Fit> fit(const v1alpha1::WorkerPool& pool, const Need& need) const;
  [[nodiscard]] Status usable(const v1alpha1::WorkerPool& pool) const;
  [[nodiscard]] core::OverheadTerms terms(v1alpha1::SandboxClass sandbox_class) const;
  [[nodiscard]] std::shared_ptr<v1alpha1::Worker> describe(const std::string& name,
                                                           const v1alpha1::WorkerPool* pool) const;

  const Templates& templates_;
  const Options& options_;

  struct Holding {
    std::string uid;
    std::string pool;
    v1alpha1::SandboxClass sandbox_class = v1alpha1::unspecified;
  };

  std::map<std::string, Holding> taken_;  // by worker
};

}  // namespace ate::engine
