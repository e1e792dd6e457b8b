#pragma once

#include <time.h>

#include <chrono>

namespace ate::test {

/// CPU time of this thread: a bound on it holds on a busy machine too.
class CpuTime {
 public:
  CpuTime() : start_(now()) {}

  [[nodiscard]] std::chrono::nanoseconds spent() const { return now() - start_; }

 private:
  static std::chrono::nanoseconds now() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  std::chrono::nanoseconds start_;
};

}  // namespace ate::test
