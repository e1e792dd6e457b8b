#pragma once

#include <chrono>
#include <string>

namespace ate {

using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;
using SteadyTime = std::chrono::steady_clock::time_point;

/// Where time comes from. Decisions take times as arguments; only engine, api and daemon hold a
/// Clock.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual WallTime wall() const = 0;
  [[nodiscard]] virtual SteadyTime steady() const = 0;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] WallTime wall() const override;
  [[nodiscard]] SteadyTime steady() const override;
};

/// RFC 3339 UTC with milliseconds: `2026-11-30T18:35:52.123Z`.
[[nodiscard]] std::string format_rfc3339(WallTime time);
/// Parses what format_rfc3339 writes; epoch for anything else.
[[nodiscard]] WallTime parse_rfc3339(const std::string& text);

}  // namespace ate
