#include "ate/core/golden.hpp"

#include <algorithm>

namespace ate::core {

std::string golden_text(const GoldenParts& parts) {
  std::string text = "spec " + parts.spec_digest + "\n";
  for (const auto& [container, digest] : parts.images) {
    text += "image " + container + " " + digest + "\n";
  }
  for (const auto& [part, value] : parts.runtime) {
    text += "runtime " + part + " " + value + "\n";
  }
  text += "guest " + std::to_string(parts.memory_bytes) + " " + std::to_string(parts.vcpus) + "\n";
  return text;
}

std::string_view name(GoldenState state) {
  switch (state) {
    case GoldenState::Off:
      return "Off";
    case GoldenState::Pending:
      return "Pending";
    case GoldenState::Building:
      return "Building";
    case GoldenState::Ready:
      return "Ready";
    case GoldenState::Stale:
      return "Stale";
    case GoldenState::Failed:
      return "Failed";
  }
  return "Off";
}

GoldenState golden_state(const GoldenFacts& facts) {
  if (!facts.wanted) {
    return GoldenState::Off;
  }
  if (!facts.have.empty() && facts.have == facts.key) {
    return GoldenState::Ready;
  }
  if (facts.building) {
    return GoldenState::Building;
  }
  if (facts.failures > 0) {
    return GoldenState::Failed;
  }
  return facts.have.empty() ? GoldenState::Pending : GoldenState::Stale;
}

std::chrono::milliseconds golden_retry_delay(std::int64_t failures) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::minutes(10);
  const std::int64_t doublings = std::clamp<std::int64_t>(failures - 1, 0, 20);
  return std::min(kLongest, std::chrono::milliseconds(std::int64_t{10'000} << doublings));
}

std::chrono::seconds golden_warmup(bool has_gate, std::int32_t given_seconds, bool given) {
  constexpr std::int32_t kWithoutGate = 20;
  if (given) {
    return std::chrono::seconds(given_seconds);
  }
  return std::chrono::seconds(has_gate ? 0 : kWithoutGate);
}

}  // namespace ate::core
