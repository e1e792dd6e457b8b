#include "ate/async/task.hpp"

#include <fcntl.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>

#include "async/waiter.hpp"
#include "ate/util/fd.hpp"

namespace ate::async {

namespace asio = boost::asio;

Task<void> sleep_for(std::chrono::nanoseconds duration) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor);
  timer.expires_after(duration);
  const TimerOutcome outcome = co_await timer.async_wait(kTupleAwaitable);
  if (std::get<0>(outcome)) {
    throw_cancelled();
  }
}

Task<void> run_blocking_erased(Context& context, std::function<void()> work) {
  asio::thread_pool& pool = context.pool;
  // The handler takes no part in cancellation: the coroutine resumes when the job has ended, so
  // nothing that the job refers to can go away under it.
  auto initiate = [&pool](auto handler, std::function<void()> job) {
    auto guard = asio::make_work_guard(handler);
    asio::post(pool, [handler = std::move(handler), guard = std::move(guard),
                      job = std::move(job)]() mutable {
      std::exception_ptr error;
      try {
        job();
      } catch (...) {
        error = std::current_exception();
      }
      job = nullptr;
      asio::post(guard.get_executor(),
                 [handler = std::move(handler), error]() mutable { std::move(handler)(error); });
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(
      std::move(initiate), asio::use_awaitable, std::move(work));
}

namespace {

Task<Status> wait_descriptor(int fd, asio::posix::descriptor_base::wait_type what) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  // A number of our own: epoll knows (file, number) pairs once only, so several may wait on one fd.
  UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!own) {
    co_return fail(Error::from_errno("wait on a descriptor", errno));
  }
  asio::posix::stream_descriptor descriptor(executor);
  boost::system::error_code assigned;
  descriptor.assign(own.get(), assigned);
  if (assigned) {
    co_return fail(Error::from_errno("wait on a descriptor", assigned.value()));
  }
  static_cast<void>(own.release());
  const TimerOutcome outcome = co_await descriptor.async_wait(what, kTupleAwaitable);
  const boost::system::error_code error = std::get<0>(outcome);
  if (error == asio::error::operation_aborted) {
    throw_cancelled();
  }
  if (error) {
    co_return fail(Error::from_errno("wait on a descriptor", error.value()));
  }
  co_return Status{};
}

}  // namespace

Task<Status> wait_readable(int fd) {
  return wait_descriptor(fd, asio::posix::descriptor_base::wait_read);
}

Task<Status> wait_writable(int fd) {
  return wait_descriptor(fd, asio::posix::descriptor_base::wait_write);
}

Task<Status> wait_priority(int fd) {
  return wait_descriptor(fd, asio::posix::descriptor_base::wait_error);
}

namespace {

struct Race {
  bool finished = false;
  bool expired = false;
  std::exception_ptr error;
};

/// Never throws: `operator||` takes a branch that throws for one that is still running.
Task<void> race_task(std::shared_ptr<Race> race, Task<void> task) {
  try {
    co_await std::move(task);
  } catch (...) {
    race->error = std::current_exception();
  }
  race->finished = true;
}

Task<void> race_clock(std::shared_ptr<Race> race, std::chrono::nanoseconds limit) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor);
  timer.expires_after(limit);
  const TimerOutcome outcome = co_await timer.async_wait(kTupleAwaitable);
  race->expired = !std::get<0>(outcome) && !race->finished;
}

bool is_cancellation(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const boost::system::system_error& system) {
    return system.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

}  // namespace

Task<bool> finish_within(std::chrono::nanoseconds limit, Task<void> task) {
  using namespace asio::experimental::awaitable_operators;
  auto race = std::make_shared<Race>();
  Task<void> runner = race_task(race, std::move(task));
  Task<void> clock = race_clock(race, limit);
  co_await (std::move(runner) || std::move(clock));
  if (race->error != nullptr && !(race->expired && is_cancellation(race->error))) {
    std::rethrow_exception(race->error);
  }
  co_return !race->expired;
}

}  // namespace ate::async
