#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ate::core {

/// What a worker or one incarnation on it may use. 0 = no limit of that kind.
struct CgroupLimits {
  std::int64_t memory_bytes = 0;
  std::int64_t cpu_milli = 0;
  std::int64_t pids = 0;

  bool operator==(const CgroupLimits&) const = default;
};

/// One write into a cgroup v2 directory. `optional`: the file may be missing (its absence costs
/// accuracy, not safety).
struct CgroupWrite {
  std::string file;
  std::string value;
  bool optional = false;
};

/// Limits as writes, in the order to apply. The same for a worker's directory and for the leaf of
/// an incarnation below it: charges and oom counts of an incarnation stay its own, and runsc reads
/// limits from the leaf and one parent only (design.md section 2).
[[nodiscard]] std::vector<CgroupWrite> cgroup_writes(const CgroupLimits& limits);

/// What must be switched on in cgroup.subtree_control of every directory above a leaf.
[[nodiscard]] std::vector<std::string> cgroup_controllers();

/// cpu.max period in microseconds; quota = milli x 100, at least 1000 (design.md section 3.5).
inline constexpr std::int64_t kCpuPeriodMicros = 100'000;
[[nodiscard]] std::int64_t cpu_quota_micros(std::int64_t cpu_milli);

}  // namespace ate::core
