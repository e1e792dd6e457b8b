// Event and Mutex: what coroutines of one loop wait on.
#include <boost/asio/io_context.hpp>

#include "async/waiter.hpp"
#include "ate/async/task.hpp"

namespace ate::async {

struct Event::State {
  explicit State(boost::asio::io_context& l) : loop(l) {}

  boost::asio::io_context& loop;
  bool set = false;
  WaiterList waiters;
};

Event::Event(Context& context) : state_(std::make_unique<State>(context.loop)) {}

Event::~Event() = default;

void Event::set() {
  state_->set = true;
  for (Waiter* waiter = state_->waiters.pop_front(); waiter != nullptr;
       waiter = state_->waiters.pop_front()) {
    waiter->woken = true;
    waiter->timer.cancel();
  }
}

void Event::reset() {
  state_->set = false;
}

bool Event::is_set() const noexcept {
  return state_->set;
}

Task<void> Event::wait() {
  if (state_->set) {
    co_return;
  }
  Waiter waiter(state_->loop, LoopTimer::time_point::max());
  state_->waiters.push_back(waiter);
  // Nothing of *this is touched after the wait: the event may be gone by then.
  const TimerOutcome outcome = co_await waiter.timer.async_wait(kTupleAwaitable);
  static_cast<void>(outcome);
  if (!waiter.woken) {
    throw_cancelled();
  }
}

Task<bool> Event::wait_for(std::chrono::nanoseconds limit) {
  if (state_->set) {
    co_return true;
  }
  Waiter waiter(state_->loop, limit);
  state_->waiters.push_back(waiter);
  const TimerOutcome outcome = co_await waiter.timer.async_wait(kTupleAwaitable);
  if (!waiter.woken && std::get<0>(outcome)) {
    throw_cancelled();
  }
  co_return waiter.woken;
}

struct Mutex::State {
  explicit State(boost::asio::io_context& l) : loop(l) {}

  boost::asio::io_context& loop;
  bool locked = false;
  WaiterList waiters;
  // The one that was given the lock but has not resumed yet.
  WaiterList granted;
};

Mutex::Lock& Mutex::Lock::operator=(Lock&& other) noexcept {
  if (this != &other) {
    unlock();
    mutex_ = std::exchange(other.mutex_, nullptr);
  }
  return *this;
}

Mutex::Lock::~Lock() {
  unlock();
}

void Mutex::Lock::unlock() noexcept {
  if (mutex_ != nullptr) {
    std::exchange(mutex_, nullptr)->release();
  }
}

Mutex::Mutex(Context& context) : state_(std::make_unique<State>(context.loop)) {}

Mutex::~Mutex() = default;

bool Mutex::locked() const noexcept {
  return state_->locked;
}

void Mutex::release() noexcept {
  Waiter* next = state_->waiters.pop_front();
  if (next == nullptr) {
    state_->locked = false;
    return;
  }
  next->woken = true;
  state_->granted.push_back(*next);
  next->timer.cancel();
}

Task<Mutex::Lock> Mutex::lock() {
  if (!state_->locked) {
    state_->locked = true;
    co_return Lock(this);
  }
  Waiter waiter(state_->loop, LoopTimer::time_point::max());
  {
    // Passes the lock on when this frame is destroyed between being granted and resuming.
    struct Guard {
      Mutex* mutex;
      Waiter& waiter;
      bool taken = false;

      Guard(Mutex* m, Waiter& w) : mutex(m), waiter(w) {}

      Guard(const Guard&) = delete;
      Guard& operator=(const Guard&) = delete;
      Guard(Guard&&) = delete;
      Guard& operator=(Guard&&) = delete;

      ~Guard() {
        if (waiter.woken && !taken) {
          mutex->release();
        }
      }
    };

    Guard guard(this, waiter);
    state_->waiters.push_back(waiter);
    const TimerOutcome outcome = co_await waiter.timer.async_wait(kTupleAwaitable);
    static_cast<void>(outcome);
    if (!waiter.woken) {
      throw_cancelled();
    }
    guard.taken = true;
    state_->granted.remove(waiter);
  }
  co_return Lock(this);
}

}  // namespace ate::async
