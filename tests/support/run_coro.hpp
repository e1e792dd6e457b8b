#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "ate/async/task.hpp"

namespace ate::test {

template <class T>
struct TaskValue;

template <class T>
struct TaskValue<async::Task<T>> {
  using type = T;
};

/// Runs `make(context)`, a coroutine, on a fresh loop and pool: at most `limit`, what it throws
/// comes out here, and work left on the loop afterwards is an error. `make` may be a lambda that
/// captures by reference: it lives until the coroutine has ended.
template <class F>
auto run_coro(F&& make, std::chrono::seconds limit = std::chrono::seconds(10)) ->
    typename TaskValue<std::invoke_result_t<F&, async::Context&>>::type {
  using T = typename TaskValue<std::invoke_result_t<F&, async::Context&>>::type;
  constexpr bool kVoid = std::is_void_v<T>;
  using Slot = std::conditional_t<kVoid, bool, T>;

  // Outlive the loop, whose destruction may still destroy frames that refer to them.
  std::optional<Slot> value;
  std::exception_ptr error;
  bool done = false;
  boost::asio::thread_pool pool(2);
  boost::asio::io_context loop(1);
  async::Context context{loop, pool};

  if constexpr (kVoid) {
    boost::asio::co_spawn(loop, make(context), [&](std::exception_ptr thrown) {
      error = thrown;
      done = true;
    });
  } else {
    // Not co_spawn's own value path: that needs T to be default-constructible.
    auto store = [](std::optional<Slot>& out, async::Task<T> task) -> async::Task<void> {
      T result = co_await std::move(task);
      out.emplace(std::move(result));
    };
    boost::asio::co_spawn(loop, store(value, make(context)), [&](std::exception_ptr thrown) {
      error = thrown;
      done = true;
    });
  }
  loop.run_for(limit);
  if (!done) {
    // Frames may refer to what a pool thread still uses: nothing can be unwound safely.
    std::fprintf(stderr, "run_coro: not finished after %lld s\n",
                 static_cast<long long>(limit.count()));
    std::abort();
  }
  const bool clean = loop.stopped();
  pool.join();
  if (error) {
    std::rethrow_exception(error);
  }
  if (!clean) {
    throw std::runtime_error("run_coro: finished, but work is left on the loop");
  }
  if constexpr (!kVoid) {
    return std::move(*value);
  }
}

}  // namespace ate::test
