#pragma once

#include "ate/util/clock.hpp"

namespace ate::test {

/// Time that moves when the test says so.
class FakeClock final : public Clock {
 public:
  [[nodiscard]] WallTime wall() const override { return wall_; }

  [[nodiscard]] SteadyTime steady() const override { return steady_; }

  void advance(std::chrono::milliseconds by) {
    wall_ += by;
    steady_ += by;
  }

  /// As NTP or an operator does: only the wall clock moves.
  void set_wall_back(std::chrono::milliseconds by) { wall_ -= by; }

 private:
  WallTime wall_{std::chrono::milliseconds(1'796'063'752'000)};
  SteadyTime steady_{std::chrono::hours(1)};
};

}  // namespace ate::test
