#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ate/async/task.hpp"

namespace ate::runtime::gvisor {

/// Several tasks at once; join() waits for all of them and tells the first error in the order of
/// add(). Every one is awaited, also when another has failed: what they started has to be known
/// before it can be ended.
template <class T>
class Together {
 public:
  explicit Together(async::Context& context) : shared_(std::make_shared<Shared>(context)) {}

  void add(async::TaskScope& scope, std::string name, async::Task<Result<T>> task) {
    const std::size_t place = shared_->errors.size();
    shared_->errors.emplace_back();
    ++shared_->running;
    if (!scope.spawn(std::move(name), run(shared_, place, std::move(task)))) {
      end(*shared_, place, Error(Errc::Unavailable, "the daemon is stopping"));
    }
  }

  [[nodiscard]] async::Task<Status> join() {
    const std::shared_ptr<Shared> shared = shared_;
    if (shared->running > 0) {
      co_await shared->over.wait();
    }
    for (const std::optional<Error>& error : shared->errors) {
      if (error) {
        co_return fail(*error);
      }
    }
    co_return Status{};
  }

 private:
  struct Shared {
    explicit Shared(async::Context& context) : over(context) {}

    std::vector<std::optional<Error>> errors;
    std::size_t running = 0;
    async::Event over;
  };

  static void end(Shared& shared, std::size_t place, std::optional<Error> error) {
    shared.errors[place] = std::move(error);
    if (--shared.running == 0) {
      shared.over.set();
    }
  }

  static async::Task<void> run(std::shared_ptr<Shared> shared, std::size_t place,
                               async::Task<Result<T>> task) {
    std::optional<Error> error;
    try {
      const Result<T> value = co_await std::move(task);
      if (!value) {
        error = value.error();
      }
    } catch (const std::exception& escaped) {
      // Also a cancellation: whoever joins is being cancelled as well.
      error = Error(Errc::Internal, escaped.what());
    }
    end(*shared, place, std::move(error));
  }

  std::shared_ptr<Shared> shared_;
};

}  // namespace ate::runtime::gvisor
