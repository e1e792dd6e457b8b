#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ate/async/task.hpp"

namespace ate::engine {

/// A part of an operation that runs beside it until `join`.
template <class T>
class Side {
 public:
  Side(async::Context& context, async::TaskScope& scope, std::string name,
       async::Task<Result<T>> task)
      : slot_(std::make_shared<Slot>(context)) {
    if (!scope.spawn(std::move(name), run(slot_, std::move(task)))) {
      slot_->value.emplace(fail(Errc::Unavailable, "the daemon is stopping"));
      slot_->done.set();
    }
  }

  /// false when `limit` passed first.
  [[nodiscard]] async::Task<bool> wait_for(std::chrono::nanoseconds limit) {
    const std::shared_ptr<Slot> slot = slot_;
    co_return co_await slot->done.wait_for(limit);
  }

  [[nodiscard]] async::Task<Result<T>> join() {
    const std::shared_ptr<Slot> slot = slot_;
    co_await slot->done.wait();
    co_return std::move(*slot->value);
  }

 private:
  struct Slot {
    explicit Slot(async::Context& context) : done(context) {}

    async::Event done;
    std::optional<Result<T>> value;
  };

  static async::Task<void> run(std::shared_ptr<Slot> slot, async::Task<Result<T>> task) {
    try {
      Result<T> value = co_await std::move(task);
      slot->value.emplace(std::move(value));
    } catch (const std::exception& error) {
      // Also a cancellation: whoever joins is being cancelled as well.
      slot->value.emplace(fail(Errc::Internal, error.what()));
    }
    slot->done.set();
  }

  std::shared_ptr<Slot> slot_;
};

}  // namespace ate::engine
