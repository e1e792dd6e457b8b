#pragma once

#include <cstdint>
#include <string>

#include "ate/util/result.hpp"

namespace ate::core {

/// Terms of design.md section 3.2 for one class, from NodeConfig.spec.overhead.
struct OverheadTerms {
  std::int64_t fixed_bytes = 0;
  std::int64_t per_vcpu_bytes = 0;
  double percent = 0;
};

struct Budget {
  std::int64_t memory_bytes = 0;
  std::int64_t cpu_milli = 0;

  bool operator==(const Budget&) const = default;
};

struct GuestSize {
  std::int64_t memory_bytes = 0;  // multiple of 2 MiB
  std::int32_t vcpus = 0;
  std::int64_t overhead_bytes = 0;
};

inline constexpr std::int64_t kGuestFloorBytes = 128LL << 20;

/// Guest = budget - overhead(budget), rounded down to 2 MiB; vCPUs = max(minimum_vcpus, ceil(cpu)).
/// BudgetTooSmall with budgetBytes, overheadBytes, guestBytes, floorBytes when below the floor;
/// `knob` names the field and object to raise (case T1).
[[nodiscard]] Result<GuestSize> size_guest(const Budget& budget, const OverheadTerms& terms,
                                           std::int32_t minimum_vcpus, const std::string& knob);

}  // namespace ate::core
