#include "ate/async/reaper.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <deque>
#include <optional>
#include <unordered_map>

namespace ate::async {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kKeptExits = 4096;

struct Watch {
  explicit Watch(Context& context) : ended(context) {}

  std::optional<ChildExit> exit;
  Event ended;
};

}  // namespace

struct Reaper::State {
  explicit State(Context& c) : context(c), signals(c.loop, SIGCHLD) {}

  static void arm(const std::shared_ptr<State>& self);
  void reap();
  void record(pid_t pid, ChildExit exit);
  void keep(pid_t pid, ChildExit exit);
  std::optional<ChildExit> take_kept(pid_t pid);
  std::shared_ptr<Watch> watch(pid_t pid);

  Context context;
  asio::signal_set signals;
  std::unordered_map<pid_t, std::shared_ptr<Watch>> watches;

  // Exits that nobody asked about yet; `order` may name pids that were claimed since.
  struct Kept {
    ChildExit exit;
    std::uint64_t number = 0;
  };

  std::unordered_map<pid_t, Kept> kept;
  std::deque<std::pair<pid_t, std::uint64_t>> order;
  std::uint64_t reaped = 0;
};

void Reaper::State::arm(const std::shared_ptr<State>& self) {
  self->signals.async_wait(
      [weak = std::weak_ptr<State>(self)](boost::system::error_code error, int) {
        const std::shared_ptr<State> state = weak.lock();
        if (error || state == nullptr) {
          return;
        }
        // Armed first: a child that ends during the sweep is either seen by it or signals again.
        arm(state);
        state->reap();
      });
}

void Reaper::State::reap() {
  while (true) {
    siginfo_t info{};
    // WNOWAIT first, so that the pid is still taken while we look: it can't be reused under us.
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) {
        continue;
      }
      return;  // ECHILD
    }
    const pid_t pid = info.si_pid;
    if (pid == 0) {
      return;
    }
    siginfo_t final_info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &final_info, WEXITED | WNOHANG) != 0 ||
        final_info.si_pid != pid) {
      continue;  // os::spawn took it: a child whose exec failed
    }
    ++reaped;
    ChildExit exit;
    (final_info.si_code == CLD_EXITED ? exit.code : exit.signal) = final_info.si_status;
    record(pid, exit);
  }
}

void Reaper::State::record(pid_t pid, ChildExit exit) {
  const auto found = watches.find(pid);
  if (found == watches.end() || found->second->exit.has_value()) {
    keep(pid, exit);
    return;
  }
  found->second->exit = exit;
  found->second->ended.set();
}

void Reaper::State::keep(pid_t pid, ChildExit exit) {
  kept[pid] = Kept{exit, reaped};
  order.emplace_back(pid, reaped);
  while (order.size() > kKeptExits) {
    const auto oldest = order.front();
    order.pop_front();
    const auto found = kept.find(oldest.first);
    if (found != kept.end() && found->second.number == oldest.second) {
      kept.erase(found);
    }
  }
}

std::optional<ChildExit> Reaper::State::take_kept(pid_t pid) {
  const auto found = kept.find(pid);
  if (found == kept.end()) {
    return std::nullopt;
  }
  const ChildExit exit = found->second.exit;
  kept.erase(found);
  // A process of that number that is there now is a later one, whose end is still to come.
  if (::kill(pid, 0) == 0 || errno == EPERM) {
    return std::nullopt;
  }
  return exit;
}

std::shared_ptr<Watch> Reaper::State::watch(pid_t pid) {
  std::shared_ptr<Watch>& entry = watches[pid];
  if (entry == nullptr) {
    entry = std::make_shared<Watch>(context);
    entry->exit = take_kept(pid);
    if (entry->exit.has_value()) {
      entry->ended.set();
    }
  }
  return entry;
}

Reaper::Reaper(Context& context) : state_(std::make_shared<State>(context)) {
  // IGNORED: PR_SET_CHILD_SUBREAPER with a constant argument can't fail.
  static_cast<void>(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
  // Asio installs its handler without SA_RESTART: blocking calls on the pool would see EINTR at
  // each child's end.
  struct sigaction action{};
  if (::sigaction(SIGCHLD, nullptr, &action) == 0) {
    action.sa_flags |= SA_RESTART | SA_NOCLDSTOP;
    static_cast<void>(::sigaction(SIGCHLD, &action, nullptr));
  }
  State::arm(state_);
  state_->reap();
}

Reaper::~Reaper() {
  boost::system::error_code ignored;
  state_->signals.cancel(ignored);
}

void Reaper::watch(pid_t pid) {
  static_cast<void>(state_->watch(pid));
}

Task<ChildExit> Reaper::wait(pid_t pid) {
  const std::shared_ptr<Watch> entry = state_->watch(pid);
  co_await entry->ended.wait();
  co_return *entry->exit;
}

void Reaper::forget(pid_t pid) {
  state_->watches.erase(pid);
  state_->kept.erase(pid);
}

std::uint64_t Reaper::reaped() const noexcept {
  return state_->reaped;
}

}  // namespace ate::async
