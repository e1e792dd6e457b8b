#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "ate/engine/worker_groups.hpp"
#include "ate/os/cgroup_limits.hpp"

namespace ate::daemon {

/// Where our cgroups are mounted: looked up once, and again after a read that failed. The table of
/// mounts has some lines for each running actor; a start must not pay for all of them.
class FoundPlaces {
 public:
  using Places = std::vector<os::CgroupPlace>;

  [[nodiscard]] Result<Places> get(const std::function<Result<Places>()>& look) const;
  void forget() const;

 private:
  mutable std::mutex mutex_;
  mutable Places places_;  // empty: to be looked up
};

/// Workers as directories of a cgroup v2 tree (`enforcement: required`).
class CgroupWorkers final : public engine::WorkerGroups {
 public:
  /// `root`: where the workers' directories are.
  explicit CgroupWorkers(std::string root) : root_(std::move(root)) {}

  [[nodiscard]] Result<core::LimitFiles> read(const std::string& worker) const override;
  [[nodiscard]] Status apply(const std::string& worker,
                             const core::CgroupLimits& limits) const override;
  [[nodiscard]] Status remove(const std::string& worker) const override;

 private:
  [[nodiscard]] Result<os::CgroupPlace> place() const;

  std::string root_;
  FoundPlaces found_;
};

/// `enforcement: off`: what limits us limits every actor that we start; cgroup v1 and hybrid hosts
/// too. Nothing is ever written.
class OwnLimits final : public engine::WorkerGroups {
 public:
  [[nodiscard]] Result<core::LimitFiles> read(const std::string& worker) const override;
  [[nodiscard]] Status apply(const std::string& worker,
                             const core::CgroupLimits& limits) const override;
  [[nodiscard]] Status remove(const std::string& worker) const override;

 private:
  FoundPlaces found_;
};

}  // namespace ate::daemon
