#pragma once

#include <chrono>

#include "ate/async/task.hpp"

namespace ate::engine {

/// Wakes everyone who waits now; later waiters wait for the next beat.
class Pulse {
 public:
  explicit Pulse(async::Context& context) : event_(context) {}

  void beat() {
    event_.set();
    event_.reset();
  }

  [[nodiscard]] async::Task<bool> wait_for(std::chrono::nanoseconds limit) {
    co_return co_await event_.wait_for(limit);
  }

 private:
  async::Event event_;
};

}  // namespace ate::engine
