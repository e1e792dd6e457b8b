#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::os {

/// One directory of a cgroup v2 tree. Move-only; the destructor closes it and never kills or
/// removes: both are explicit steps.
class Cgroup {
 public:
  /// Files written after mkdir, in this order, e.g. {"memory.max", "1073741824"}.
  using Limits = std::vector<std::pair<std::string, std::string>>;

  /// Opens an existing directory. NotFound when missing. Whether it is cgroup2 at all is asked with
  /// is_cgroup2, so that tests can use a temporary tree.
  [[nodiscard]] static Result<Cgroup> open(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// Directory descriptor for SpawnPlan::cgroup_fd; lives as long as this object.
  [[nodiscard]] int fd() const noexcept { return dir_.get(); }

  /// cgroup.controllers: what this directory could give to children.
  [[nodiscard]] Result<std::vector<std::string>> controllers() const;
  /// Writes `+name` to cgroup.subtree_control for each; those already on are fine.
  [[nodiscard]] Status enable(const std::vector<std::string>& controllers) const;

  /// Makes (or opens) a child and writes its limits. A new child is removed again when a limit is
  /// refused; the error names the file.
  [[nodiscard]] Result<Cgroup> make_child(const std::string& name, const Limits& limits) const;
  [[nodiscard]] Result<Cgroup> open_child(const std::string& name) const;
  /// Names of the child directories, sorted.
  [[nodiscard]] Result<std::vector<std::string>> children() const;

  /// A control file below this directory. NotFound when the controller is not enabled.
  [[nodiscard]] Result<std::string> read(const std::string& file) const;
  [[nodiscard]] Status write(const std::string& file, const std::string& value) const;

  /// cgroup.procs of this directory alone.
  [[nodiscard]] Result<std::vector<pid_t>> processes() const;
  /// The same of this directory and everything below.
  [[nodiscard]] Result<std::vector<pid_t>> all_processes() const;
  /// SIGKILL to everything at and below (cgroup.kill). Ends soon, not at once: wait for !populated.
  [[nodiscard]] Status kill() const;
  /// Whether a living process (zombies don't count) is at or below.
  [[nodiscard]] Result<bool> populated() const;
  /// cgroup.events, to wait on with async::wait_priority: open it, then ask `populated`, then wait,
  /// ask again; no change is missed in that order.
  [[nodiscard]] Result<UniqueFd> events() const;

  /// rmdir of everything below and of itself; missing is ok, living processes are InUse. The object
  /// is of no use afterwards.
  [[nodiscard]] Status remove() const;

 private:
  Cgroup(std::string path, UniqueFd dir) : path_(std::move(path)), dir_(std::move(dir)) {}

  std::string path_;
  UniqueFd dir_;
};

/// Whether `path` lies on a cgroup v2 file system.
[[nodiscard]] Result<bool> is_cgroup2(const std::string& path);

/// Whether an open cgroup.events says `populated 1`. Reads from its start.
[[nodiscard]] Result<bool> populated(const UniqueFd& events);

/// For `enforcement: off`: mounts cgroup2 at `path` (made when missing), private. Ok when it is
/// mounted there already. Unavailable when the kernel refuses.
[[nodiscard]] Status mount_private_cgroup2(const std::string& path);

}  // namespace ate::os
