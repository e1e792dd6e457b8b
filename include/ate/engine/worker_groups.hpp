#pragma once

#include <string>

#include "ate/core/budget.hpp"
#include "ate/core/cgroup_plan.hpp"
#include "ate/util/result.hpp"

namespace ate::engine {

/// The cgroups of workers, as the engine sees them: one directory a worker below the delegated
/// tree, whose files are the worker's budget whoever wrote them (design.md sections 2 and 3). Every
/// call blocks on files: made on the pool.
class WorkerGroups {
 public:
  WorkerGroups() = default;
  virtual ~WorkerGroups() = default;
  WorkerGroups(const WorkerGroups&) = delete;
  WorkerGroups& operator=(const WorkerGroups&) = delete;
  WorkerGroups(WorkerGroups&&) = delete;
  WorkerGroups& operator=(WorkerGroups&&) = delete;

  /// Limit files of the worker's cgroup and all its ancestors; of the ancestors alone while there
  /// is none, and for "": of the tree that all workers share.
  [[nodiscard]] virtual Result<core::LimitFiles> read(const std::string& worker) const = 0;
  /// Makes the cgroup if need be and writes the limits; each is read back, one that did not take is
  /// an error that names the file (case T43).
  [[nodiscard]] virtual Status apply(const std::string& worker,
                                     const core::CgroupLimits& limits) const = 0;
  /// Removes it. Missing is ok; with processes in it InUse.
  [[nodiscard]] virtual Status remove(const std::string& worker) const = 0;
};

}  // namespace ate::engine
