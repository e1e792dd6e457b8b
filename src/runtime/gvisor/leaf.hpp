#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/core/cgroup_plan.hpp"
#include "ate/os/cgroup.hpp"

namespace ate::runtime::gvisor {

/// The cgroup of one incarnation, `<root>/<worker>/<serial>`: who is in it, how it is ended, what
/// it used. Without a root it is empty and every call says "nothing". Calls are short (cgroupfs
/// does no I/O). Closing it leaves the cgroup alone.
class Leaf {
 public:
  struct Place {
    std::string root;  // "" = no cgroup2 file system can be had
    std::string worker;
    std::int64_t serial = 0;
    bool enforce = false;
    core::CgroupLimits limits;
  };

  Leaf() = default;

  /// Makes it, with limits where enforced; the worker's directory too when it is missing.
  [[nodiscard]] static Result<Leaf> create(const Place& place);
  /// Opens one that may be there; an empty Leaf when it is not. Its worker's directory is left to
  /// the caller.
  [[nodiscard]] static Leaf open(const std::string& directory);

  [[nodiscard]] bool exists() const noexcept { return group_.has_value(); }

  /// For CLONE_INTO_CGROUP; -1 = none.
  [[nodiscard]] int fd() const noexcept { return group_ ? group_->fd() : -1; }

  [[nodiscard]] std::string directory() const;
  [[nodiscard]] bool populated() const;
  /// SIGKILL to all at once.
  [[nodiscard]] Status kill() const;
  /// Until no process is left in it. Bounded by the caller.
  [[nodiscard]] async::Task<Status> wait_empty() const;
  /// Removes it. The worker's directory goes with its last leaf, unless limits are kept there.
  [[nodiscard]] Status remove();
  /// How often the kernel killed for memory in here; 0 without the controller.
  [[nodiscard]] std::int64_t oom_kills() const;
  /// "peak P of M bytes": the most that was ever charged to it and its limit; "" when not known.
  [[nodiscard]] std::string memory_peak() const;

 private:
  std::optional<os::Cgroup> group_;
  bool keep_worker_ = false;
};

}  // namespace ate::runtime::gvisor
