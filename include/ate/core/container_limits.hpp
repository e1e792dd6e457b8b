#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ate/core/cgroup_plan.hpp"
#include "ate/core/sizing.hpp"
#include "ate/util/result.hpp"

/// Limits of one container inside a micro-VM: they subdivide the guest (design.md section 3.5,
/// substrate-node.md b.3). Pure.
namespace ate::core {

/// What a template declares; what it leaves out is unlimited. The API refuses values <= 0; here a
/// non-positive one means unlimited, and never offsets a sibling.
struct ContainerLimits {
  std::string name;
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> cpu_milli;
};

inline constexpr std::int64_t kCpuShares = 1'024;  // kata's default

/// OCI linux.resources of a container, as the agent in the guest takes it. Each field that is not
/// set is left out, for a literal 0 would mean "nothing at all".
struct ContainerResources {
  std::optional<std::int64_t> memory_limit;  // bytes
  std::optional<std::int64_t> cpu_quota;     // microseconds, as cpu_quota_micros says
  std::int64_t cpu_period = kCpuPeriodMicros;
  std::int64_t cpu_shares = kCpuShares;

  bool operator==(const ContainerResources&) const = default;
};

[[nodiscard]] ContainerResources container_resources(const ContainerLimits& limits);

/// Who governs the size of the guest, for the message.
struct GuestEnvelope {
  GuestSize guest;
  std::string memory_knob;  // "spec.resources.limits.memory of WorkerPool small"
  std::string cpu_knob;
};

/// Each container alone, then their sum, against the guest. NeverFits with `asked` and `ceiling`
/// (bytes or milli-CPU), naming the container or the total and the knob: memory with the overhead
/// that was taken off, CPU without a word of memory.
[[nodiscard]] Status check_envelope(const std::vector<ContainerLimits>& containers,
                                    const GuestEnvelope& envelope);

/// What to tell when the declared sum leaves less than 60 MiB of the guest: its kernel and agent
/// take 35-60 MiB of it. "" when there is room.
[[nodiscard]] std::string envelope_warning(const std::vector<ContainerLimits>& containers,
                                           const GuestSize& guest);

}  // namespace ate::core
