#pragma once

#include <functional>
#include <memory>

#include "ate/async/task.hpp"

namespace ate::artifacts {

/// Work offered to the pool by a job that is itself on the pool. join() waits for it where another
/// thread took it, and does it where none did: so a busy pool, or one of a single thread, costs the
/// overlap and never a deadlock. Join on every path: `work` may refer to the caller's locals.
class Beside {
 public:
  Beside(async::Context& context, std::function<Status()> work);
  [[nodiscard]] Status join();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ate::artifacts
