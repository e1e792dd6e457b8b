#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <tuple>

namespace ate::async {

/// The only token for operations that report an error code: no exception per failed operation.
inline constexpr boost::asio::as_tuple_t<boost::asio::use_awaitable_t<>> kTupleAwaitable{};

using LoopTimer =
    boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                      boost::asio::wait_traits<std::chrono::steady_clock>,
                                      boost::asio::io_context::executor_type>;
using TimerOutcome = std::tuple<boost::system::error_code>;

/// How every awaitable of this module reports that its coroutine was cancelled.
[[noreturn]] inline void throw_cancelled() {
  throw boost::system::system_error(boost::asio::error::operation_aborted);
}

class WaiterList;

/// One suspended coroutine; lives in its frame. Unlinks itself when the frame goes, however it
/// goes.
class Waiter {
 public:
  Waiter(boost::asio::io_context& loop, LoopTimer::time_point until)
      : timer(loop.get_executor(), until) {}

  Waiter(boost::asio::io_context& loop, std::chrono::nanoseconds limit)
      : timer(loop.get_executor()) {
    timer.expires_after(limit);
  }

  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  Waiter(Waiter&&) = delete;
  Waiter& operator=(Waiter&&) = delete;

  LoopTimer timer;
  bool woken = false;

 private:
  friend class WaiterList;
  WaiterList* list_ = nullptr;
  Waiter* previous_ = nullptr;
  Waiter* next_ = nullptr;
};

/// FIFO of suspended coroutines, without allocation. When it is destroyed first, those that still
/// wait see a cancellation.
class WaiterList {
 public:
  WaiterList() = default;
  ~WaiterList();
  WaiterList(const WaiterList&) = delete;
  WaiterList& operator=(const WaiterList&) = delete;
  WaiterList(WaiterList&&) = delete;
  WaiterList& operator=(WaiterList&&) = delete;

  void push_back(Waiter& waiter) noexcept;
  /// nullptr when empty.
  Waiter* pop_front() noexcept;
  void remove(Waiter& waiter) noexcept;

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }

 private:
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace ate::async
