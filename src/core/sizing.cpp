#include "ate/core/sizing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ate/core/units.hpp"

namespace ate::core {
namespace {

constexpr std::int64_t kMiB = 1LL << 20;
constexpr std::int64_t kAlign = 2 * kMiB;

/// Wide enough for any product of an int64 with a share of a million or a count of vCPUs.
using Wide = __int128;

constexpr std::int64_t kMillion = 1'000'000;

std::int64_t narrow(Wide value) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  return value >= Wide(kMax) ? kMax : static_cast<std::int64_t>(value);
}

/// The proportional term in millionths, rounded up: the only place where a fraction is touched.
std::int64_t share_of(const OverheadTerms& terms) {
  constexpr double kPerPercent = 10'000;
  return static_cast<std::int64_t>(std::ceil(terms.percent * kPerPercent));
}

Wide fixed_part(const OverheadTerms& terms, std::int32_t vcpus) {
  return Wide(terms.fixed_bytes) + Wide(terms.per_vcpu_bytes) * vcpus;
}

/// The proportional term is of the budget, rounded up: the sum of guest and overhead never passes
/// it.
std::int64_t overhead_of(std::int64_t budget, const OverheadTerms& terms, std::int32_t vcpus) {
  const Wide share = (Wide(budget) * share_of(terms) + kMillion - 1) / kMillion;
  return narrow(fixed_part(terms, vcpus) + share);
}

std::int64_t guest_of(std::int64_t budget, std::int64_t overhead) {
  return std::max<std::int64_t>(0, budget - overhead) / kAlign * kAlign;
}

/// Smallest budget of whole MiB that holds the floor; 0 when none does (overhead of 100 %).
std::int64_t smallest_budget(const OverheadTerms& terms, std::int32_t vcpus) {
  const std::int64_t rest = kMillion - share_of(terms);
  if (rest <= 0) {
    return 0;
  }
  const Wide need = (kGuestFloorBytes + fixed_part(terms, vcpus)) * kMillion / rest;
  std::int64_t budget = narrow(need) / kMiB * kMiB;
  for (int step = 0; step < 3; ++step) {
    if (guest_of(budget, overhead_of(budget, terms, vcpus)) >= kGuestFloorBytes) {
      return budget;
    }
    budget += kMiB;
  }
  return 0;
}

std::string in_mib(std::int64_t bytes) {
  if (bytes % kMiB == 0) {
    return std::to_string(bytes / kMiB) + " MiB";
  }
  const std::int64_t tenths = bytes * 10 / kMiB;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

Error too_small(const Budget& budget, const GuestSize& size, const OverheadTerms& terms,
                const std::string& knob) {
  const std::int64_t needed = smallest_budget(terms, size.vcpus);
  std::string text = in_mib(budget.memory_bytes) + " budget \u2212 " + in_mib(size.overhead_bytes) +
                     " overhead = " + in_mib(size.memory_bytes) + " guest; the floor is " +
                     in_mib(kGuestFloorBytes) + ".";
  if (needed > 0) {
    text += " Raise " + knob + " to at least " + std::to_string(needed / kMiB) + "Mi.";
  } else {
    text += " No size of " + knob + " is enough with this overhead.";
  }
  return Error(Errc::BudgetTooSmall, std::move(text))
      .with_field(knob.substr(0, knob.find(' ')))
      .with("budgetBytes", budget.memory_bytes)
      .with("overheadBytes", size.overhead_bytes)
      .with("guestBytes", size.memory_bytes)
      .with("floorBytes", kGuestFloorBytes);
}

}  // namespace

Result<GuestSize> size_guest(const Budget& budget, const OverheadTerms& terms,
                             std::int32_t minimum_vcpus, const std::string& knob) {
  if (budget.memory_bytes <= 0 || budget.cpu_milli <= 0) {
    return fail(Errc::InvalidValue, "a budget must be greater than 0; see " + knob);
  }
  const std::int64_t cpus = budget.cpu_milli / 1000 + (budget.cpu_milli % 1000 != 0 ? 1 : 0);
  if (cpus > std::numeric_limits<std::int32_t>::max()) {
    return fail(Errc::InvalidValue, "a budget of " + std::to_string(cpus) + " CPUs is too large");
  }
  GuestSize size;
  size.vcpus = std::max({std::int32_t{1}, minimum_vcpus, static_cast<std::int32_t>(cpus)});
  size.overhead_bytes = overhead_of(budget.memory_bytes, terms, size.vcpus);
  size.memory_bytes = guest_of(budget.memory_bytes, size.overhead_bytes);
  if (size.memory_bytes < kGuestFloorBytes) {
    return fail(too_small(budget, size, terms, knob));
  }
  return size;
}

}  // namespace ate::core
