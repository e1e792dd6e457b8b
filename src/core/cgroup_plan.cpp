#include "ate/core/cgroup_plan.hpp"

#include <algorithm>

namespace ate::core {

std::int64_t cpu_quota_micros(std::int64_t cpu_milli) {
  constexpr std::int64_t kMicrosPerMilli = kCpuPeriodMicros / 1000;
  constexpr std::int64_t kSmallestQuota = 1000;  // the kernel refuses less
  constexpr std::int64_t kLargestMilli = INT64_MAX / kMicrosPerMilli;
  return std::max(kSmallestQuota, std::min(cpu_milli, kLargestMilli) * kMicrosPerMilli);
}

std::vector<CgroupWrite> cgroup_writes(const CgroupLimits& limits) {
  std::vector<CgroupWrite> writes;
  if (limits.memory_bytes > 0) {
    writes.push_back({.file = "memory.max", .value = std::to_string(limits.memory_bytes)});
    // Swapping a guest out would hide that its budget is too small.
    writes.push_back({.file = "memory.swap.max", .value = "0", .optional = true});
    // The sentry without its gofer, or the other way round, is of no use to anyone.
    writes.push_back({.file = "memory.oom.group", .value = "1"});
  }
  if (limits.cpu_milli > 0) {
    writes.push_back({.file = "cpu.max",
                      .value = std::to_string(cpu_quota_micros(limits.cpu_milli)) + " " +
                               std::to_string(kCpuPeriodMicros)});
  }
  if (limits.pids > 0) {
    writes.push_back({.file = "pids.max", .value = std::to_string(limits.pids)});
  }
  return writes;
}

std::vector<std::string> cgroup_controllers() {
  return {"cpu", "memory", "pids"};
}

}  // namespace ate::core
