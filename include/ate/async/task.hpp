#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "ate/util/result.hpp"

namespace boost::asio {
class io_context;
class thread_pool;
}  // namespace boost::asio

namespace ate::async {

/// The coroutine type of the whole program. Rules: docs/architecture.md "Coroutines".
template <class T>
using Task = boost::asio::awaitable<T>;

/// The loop that all orchestration runs on and the pool for what blocks. Built in
/// daemon/compose.cpp (or a test) and passed by reference; outlives everything that refers to it.
struct Context {
  boost::asio::io_context& loop;
  boost::asio::thread_pool& pool;
};

/// Every wait of this module throws boost::system::system_error(operation_aborted) when its
/// coroutine is cancelled, never an error value: nobody can take a cancellation for a failure.

/// Waits on the loop. Only for deadlines, periods and back-off that come from configuration.
[[nodiscard]] Task<void> sleep_for(std::chrono::nanoseconds duration);

/// Runs `work` on the pool and resumes on the loop with what it returned. `work` must bound itself:
/// a deadline around this does not free the thread, and a cancelled coroutine resumes only when the
/// job has ended. What `work` throws is thrown here.
[[nodiscard]] Task<void> run_blocking_erased(Context& context, std::function<void()> work);

template <class F>
[[nodiscard]] Task<std::invoke_result_t<F&>> run_blocking(Context& context, F work) {
  using R = std::invoke_result_t<F&>;
  auto slot = std::make_shared<std::pair<F, std::unique_ptr<R>>>(std::move(work), nullptr);
  std::function<void()> job = [slot]() { slot->second = std::make_unique<R>(slot->first()); };
  co_await run_blocking_erased(context, std::move(job));
  R result = std::move(*slot->second);
  co_return result;
}

/// Waits until `fd` is readable (pidfd, eventfd, inotify, netlink). Never on an fd shared with a
/// child: async_wait sets O_NONBLOCK on the open file description. `fd` is borrowed and must be
/// open at the call; several may wait on the same fd.
[[nodiscard]] Task<Status> wait_readable(int fd);
/// Waits until `fd` can be written (a connecting socket). The rest as wait_readable.
[[nodiscard]] Task<Status> wait_writable(int fd);
/// Waits for POLLPRI (cgroup.events).
[[nodiscard]] Task<Status> wait_priority(int fd);

/// Level-triggered-once event for coroutines of one loop: set() wakes everyone who waits, and
/// wait() returns at once while it is set.
class Event {
 public:
  explicit Event(Context& context);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event(Event&&) = delete;
  Event& operator=(Event&&) = delete;

  void set();
  void reset();
  [[nodiscard]] bool is_set() const noexcept;
  /// Cancellation-safe: a cancelled waiter leaves nothing behind.
  [[nodiscard]] Task<void> wait();
  /// false when `limit` passed first.
  [[nodiscard]] Task<bool> wait_for(std::chrono::nanoseconds limit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// FIFO mutex for coroutines of one loop.
class Mutex {
 public:
  class Lock {
   public:
    Lock() noexcept = default;

    explicit Lock(Mutex* mutex) noexcept : mutex_(mutex) {}

    Lock(Lock&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}

    Lock& operator=(Lock&& other) noexcept;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock();
    void unlock() noexcept;

   private:
    Mutex* mutex_ = nullptr;
  };

  explicit Mutex(Context& context);
  ~Mutex();
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  Mutex(Mutex&&) = delete;
  Mutex& operator=(Mutex&&) = delete;

  [[nodiscard]] Task<Lock> lock();
  [[nodiscard]] bool locked() const noexcept;

 private:
  void release() noexcept;
  struct State;
  std::unique_ptr<State> state_;
};

/// Owns background work. `spawn` is the only way to start a coroutine that is not awaited: it logs
/// nothing itself but hands what escapes to `on_escape`, counts what runs, and `close` cancels all
/// and waits for them. Destroying a scope that still runs work aborts: a leak must be loud.
class TaskScope {
 public:
  using OnEscape = std::function<void(const std::string& name, const std::string& what)>;
  TaskScope(Context& context, OnEscape on_escape);
  ~TaskScope();
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;
  TaskScope(TaskScope&&) = delete;
  TaskScope& operator=(TaskScope&&) = delete;

  /// Starts `task` on the loop. After close() began, the task is dropped unstarted (false).
  bool spawn(std::string name, Task<void> task);
  [[nodiscard]] std::size_t running() const noexcept;
  /// Refuses new work, cancels what runs (terminal), waits for all of it.
  [[nodiscard]] Task<void> close();
  /// Refuses new work and waits without cancelling, at most `limit`; false when the limit passed.
  [[nodiscard]] Task<bool> drain(std::chrono::nanoseconds limit);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Erases how a deadline is kept. true = `task` finished, false = `limit` passed and it was
/// cancelled (and has ended: the loser is always awaited).
[[nodiscard]] Task<bool> finish_within(std::chrono::nanoseconds limit, Task<void> task);

/// `task` or Error(DeadlineExceeded, what). The loser is cancelled and awaited.
template <class T>
[[nodiscard]] Task<Result<T>> with_deadline(std::chrono::nanoseconds limit, std::string what,
                                            Task<Result<T>> task) {
  auto slot = std::make_shared<std::unique_ptr<Result<T>>>();
  auto runner = [](std::shared_ptr<std::unique_ptr<Result<T>>> out,
                   Task<Result<T>> inner) -> Task<void> {
    Result<T> value = co_await std::move(inner);
    *out = std::make_unique<Result<T>>(std::move(value));
  };
  const bool finished = co_await finish_within(limit, runner(slot, std::move(task)));
  if (!finished || *slot == nullptr) {
    co_return fail(
        Errc::DeadlineExceeded,
        what + ": deadline of " +
            std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(limit).count()) +
            " ms passed");
  }
  co_return std::move(**slot);
}

}  // namespace ate::async
