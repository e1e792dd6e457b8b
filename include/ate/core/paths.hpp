#pragma once

#include <cstdint>
#include <string>

#include "ate/util/result.hpp"

namespace ate::core {

/// Every path under the state and run directories (examples.md "On disk"). Names in paths are uids,
/// ids and serial numbers that were checked before, never text of a user.
class Paths {
 public:
  Paths(std::string state_dir, std::string run_dir);

  [[nodiscard]] std::string database() const;
  [[nodiscard]] std::string images() const;
  [[nodiscard]] std::string assets() const;
  [[nodiscard]] std::string snapshots() const;
  /// Root file system of the pause program, the same for all sandboxes with several containers.
  [[nodiscard]] std::string pause_rootfs() const;
  [[nodiscard]] std::string actors() const;
  [[nodiscard]] std::string actor(const std::string& uid) const;
  [[nodiscard]] std::string actor_logs(const std::string& uid) const;
  /// Overlay upper of one incarnation; on disk, not on the run directory's tmpfs.
  [[nodiscard]] std::string actor_overlay(const std::string& uid, std::int64_t serial) const;
  [[nodiscard]] std::string netns() const;
  [[nodiscard]] std::string run_actors() const;
  [[nodiscard]] std::string run_actor(const std::string& uid) const;
  [[nodiscard]] std::string incarnation(const std::string& uid, std::int64_t serial) const;

  [[nodiscard]] const std::string& state_dir() const noexcept { return state_dir_; }

  [[nodiscard]] const std::string& run_dir() const noexcept { return run_dir_; }

  /// The longest unix socket path that will be made must fit 107 bytes: InvalidValue naming runDir
  /// and by how much.
  [[nodiscard]] Status check_lengths() const;

 private:
  std::string state_dir_;
  std::string run_dir_;
};

}  // namespace ate::core
