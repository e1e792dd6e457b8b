#include "ate/core/container_limits.hpp"

#include <algorithm>
#include <limits>

#include "ate/core/units.hpp"

namespace ate::core {
namespace {

constexpr std::int64_t kGuestOwnBytes = 60LL << 20;

std::optional<std::int64_t> positive(const std::optional<std::int64_t>& value) {
  return value && *value > 0 ? value : std::nullopt;
}

using Member = std::optional<std::int64_t> ContainerLimits::*;

std::int64_t total_of(const std::vector<ContainerLimits>& containers, Member member) {
  std::int64_t total = 0;
  for (const ContainerLimits& container : containers) {
    if (__builtin_add_overflow(total, positive(container.*member).value_or(0), &total)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return total;
}

std::string milli_text(std::int64_t milli) {
  return std::to_string(milli) + "m";
}

Error over(const std::string& who, const std::string& what, std::int64_t asked,
           std::int64_t ceiling, const std::string& advice) {
  return Error(Errc::NeverFits, who + " more " + what + "; " + advice)
      .with("asked", asked)
      .with("ceiling", ceiling);
}

Error over_memory(const std::string& who, std::int64_t asked, const GuestEnvelope& envelope) {
  const GuestSize& guest = envelope.guest;
  return over(who,
              "memory (" + format_bytes(asked) + ") than the guest has (" +
                  format_bytes(guest.memory_bytes) + ", after " +
                  format_bytes(guest.overhead_bytes) + " of overhead)",
              asked, guest.memory_bytes,
              "lower limits.memory of a container or raise " + envelope.memory_knob);
}

Error over_cpu(const std::string& who, std::int64_t asked, const GuestEnvelope& envelope) {
  const std::int64_t ceiling = std::int64_t{envelope.guest.vcpus} * 1000;
  return over(who,
              "CPU (" + milli_text(asked) + ") than the guest has (" + milli_text(ceiling) + ")",
              asked, ceiling, "lower limits.cpu of a container or raise " + envelope.cpu_knob);
}

}  // namespace

ContainerResources container_resources(const ContainerLimits& limits) {
  ContainerResources out;
  out.memory_limit = positive(limits.memory_bytes);
  if (const auto milli = positive(limits.cpu_milli)) {
    out.cpu_quota = cpu_quota_micros(*milli);
  }
  return out;
}

Status check_envelope(const std::vector<ContainerLimits>& containers,
                      const GuestEnvelope& envelope) {
  const std::int64_t cpu_ceiling = std::int64_t{envelope.guest.vcpus} * 1000;
  for (const ContainerLimits& container : containers) {
    const std::string who = "container " + container.name + " may use";
    if (const auto memory = positive(container.memory_bytes);
        memory && *memory > envelope.guest.memory_bytes) {
      return fail(over_memory(who, *memory, envelope));
    }
    if (const auto cpu = positive(container.cpu_milli); cpu && *cpu > cpu_ceiling) {
      return fail(over_cpu(who, *cpu, envelope));
    }
  }
  const std::string all = "all containers together may use";
  if (const std::int64_t memory = total_of(containers, &ContainerLimits::memory_bytes);
      memory > envelope.guest.memory_bytes) {
    return fail(over_memory(all, memory, envelope));
  }
  if (const std::int64_t cpu = total_of(containers, &ContainerLimits::cpu_milli);
      cpu > cpu_ceiling) {
    return fail(over_cpu(all, cpu, envelope));
  }
  return {};
}

std::string envelope_warning(const std::vector<ContainerLimits>& containers,
                             const GuestSize& guest) {
  const std::int64_t total = total_of(containers, &ContainerLimits::memory_bytes);
  if (total == 0 || total > guest.memory_bytes || guest.memory_bytes - total >= kGuestOwnBytes) {
    return "";
  }
  return "the containers' limits (" + format_bytes(total) + ") leave " +
         format_bytes(guest.memory_bytes - total) + " of the guest's " +
         format_bytes(guest.memory_bytes) + " to its kernel and agent, which take 35 to 60 MiB";
}

}  // namespace ate::core
