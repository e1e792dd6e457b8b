#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ate/core/sizing.hpp"
#include "ate/util/result.hpp"

namespace ate::core {

/// Limit files of a cgroup and all of its ancestors as they were read: path -> text. The last
/// component of the path chooses the rule; files of other names are left out of the sum. What is
/// not listed was not there: no limit at that level (the root of a hierarchy has no limit files).
using LimitFiles = std::vector<std::pair<std::string, std::string>>;

/// The host is one more ancestor.
struct HostCapacity {
  std::int64_t memory_bytes = 0;   // MemTotal
  std::int64_t reserve_bytes = 0;  // NodeConfig.spec.hostReserve.memory: never given to pools
  std::int64_t cpus = 0;           // online
};

enum class Resource : std::uint8_t { Memory, Cpu, Pids, Hugetlb };

/// One limit that was found, for the explanation. Bytes, milli-CPU or a count.
struct BudgetTerm {
  Resource resource = Resource::Memory;
  std::optional<std::int64_t> value;  // none: unlimited here
  std::string source;                 // path of the file, or "host"
};

/// The minimum over all levels (design.md section 3.1).
struct EffectiveBudget {
  Budget budget;
  std::optional<std::int64_t> pids;             // none: unlimited
  std::map<std::string, std::int64_t> hugetlb;  // "2MB" -> bytes; reported only
  std::vector<BudgetTerm> terms;                // in the order they were read, the host last
  std::size_t memory_term = 0;                  // index of the one that decides
  std::size_t cpu_term = 0;
};

/// memory.max and memory.high, cpu.max, cpuset.cpus.effective, pids.max, hugetlb.*.max of cgroup
/// v2; memory.limit_in_bytes, cpu.cfs_quota_us with cpu.cfs_period_us beside it,
/// cpuset.effective_cpus (else cpuset.cpus), pids.max, hugetlb.*.limit_in_bytes of v1
/// (Documentation/admin-guide/cgroup-v2 and cgroup-v1 of the kernel). "max" and v1's huge numbers
/// and -1 are no limit. A limit of 0, a negative one and text that the kernel does not write are
/// InvalidValue naming the file: a budget that can't be determined is never the host's (cases T4,
/// T7).
[[nodiscard]] Result<EffectiveBudget> effective_budget(const LimitFiles& files,
                                                       const HostCapacity& host);

/// How many CPUs a list such as "0-3,8" names. InvalidValue when it is none.
[[nodiscard]] Result<std::int64_t> count_cpus(const std::string& list);

}  // namespace ate::core
