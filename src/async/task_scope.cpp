#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <unordered_map>
#include <vector>

#include "async/waiter.hpp"
#include "ate/async/task.hpp"

namespace ate::async {

namespace asio = boost::asio;

namespace {

struct Entry {
  explicit Entry(std::string n) : name(std::move(n)) {}

  std::string name;
  asio::cancellation_signal signal;
};

}  // namespace

struct TaskScope::State {
  State(Context& c, OnEscape escape) : context(c), on_escape(std::move(escape)), idle(context) {
    idle.set();
  }

  void start(const std::shared_ptr<State>& self, const std::shared_ptr<Entry>& entry,
             Task<void> task);
  void finish(const std::shared_ptr<Entry>& entry);
  static Task<void> run(std::shared_ptr<State> self, std::shared_ptr<Entry> entry, Task<void> task);

  Context context;
  OnEscape on_escape;
  std::unordered_map<Entry*, std::shared_ptr<Entry>> entries;
  bool closing = false;
  bool cancelling = false;
  Event idle;
};

Task<void> TaskScope::State::run(std::shared_ptr<State> self, std::shared_ptr<Entry> entry,
                                 Task<void> task) {
  std::string escaped;
  try {
    co_await std::move(task);
    co_return;
  } catch (const boost::system::system_error& error) {
    if (self->cancelling && error.code() == asio::error::operation_aborted) {
      co_return;
    }
    escaped = error.what();
  } catch (const std::exception& error) {
    escaped = error.what();
  } catch (...) {
    escaped = "unknown exception";
  }
  if (self->on_escape) {
    self->on_escape(entry->name, escaped);
  }
}

void TaskScope::State::start(const std::shared_ptr<State>& self,
                             const std::shared_ptr<Entry>& entry, Task<void> task) {
  if (cancelling) {
    finish(entry);
    return;
  }
  auto done = [self, entry](std::exception_ptr) {
    // One turn later: the frame that calls this still refers to the entry's signal (Asio 1.26).
    asio::post(self->context.loop, [self, entry]() { self->finish(entry); });
  };
  Task<void> runner = run(self, entry, std::move(task));
  asio::co_spawn(context.loop, std::move(runner),
                 asio::bind_cancellation_slot(entry->signal.slot(), std::move(done)));
}

void TaskScope::State::finish(const std::shared_ptr<Entry>& entry) {
  entries.erase(entry.get());
  if (entries.empty()) {
    idle.set();
  }
}

TaskScope::TaskScope(Context& context, OnEscape on_escape)
    : state_(std::make_shared<State>(context, std::move(on_escape))) {}

TaskScope::~TaskScope() {
  if (!state_->entries.empty()) {
    // A coroutine that outlives what it refers to would be far harder to find than this.
    std::fprintf(stderr, "ate: task scope destroyed while '%s' runs\n",
                 state_->entries.begin()->second->name.c_str());
    std::abort();
  }
}

bool TaskScope::spawn(std::string name, Task<void> task) {
  if (state_->closing) {
    return false;
  }
  auto entry = std::make_shared<Entry>(std::move(name));
  state_->entries.emplace(entry.get(), entry);
  state_->idle.reset();
  // Posted, so that co_spawn begins inside the loop: a coroutine that is cancelled before its first
  // step would otherwise throw out of io_context::run (Asio 1.26).
  asio::post(state_->context.loop, [state = state_, entry, task = std::move(task)]() mutable {
    state->start(state, entry, std::move(task));
  });
  return true;
}

std::size_t TaskScope::running() const noexcept {
  return state_->entries.size();
}

Task<void> TaskScope::close() {
  const std::shared_ptr<State> state = state_;
  state->closing = true;
  state->cancelling = true;
  std::vector<std::shared_ptr<Entry>> all;
  all.reserve(state->entries.size());
  for (const auto& [key, entry] : state->entries) {
    all.push_back(entry);
  }
  for (const std::shared_ptr<Entry>& entry : all) {
    entry->signal.emit(asio::cancellation_type::terminal);
  }
  all.clear();
  co_await state->idle.wait();
}

Task<bool> TaskScope::drain(std::chrono::nanoseconds limit) {
  const std::shared_ptr<State> state = state_;
  state->closing = true;
  const bool empty = co_await state->idle.wait_for(limit);
  co_return empty;
}

}  // namespace ate::async
