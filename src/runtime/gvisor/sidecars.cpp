#include "runtime/gvisor/sidecars.hpp"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "ate/core/lifecycle.hpp"
#include "ate/logs/logs.hpp"
#include "ate/util/failpoint.hpp"
#include "ate/util/log.hpp"
#include "runtime/gvisor/control_socket.hpp"
#include "runtime/gvisor/readiness.hpp"
#include "runtime/gvisor/stdio_tail.hpp"

namespace ate::runtime::gvisor {
namespace {

bool over(const Guest& guest) {
  return guest.killing || guest.ended.is_set();
}

/// runsc forgets a container that has ended. Its gofer is one of our children and reaped, so this
/// takes no longer than any command. Never while the guest is paused: it would hang.
async::Task<Status> forget(GuestPtr guest, ContainerPtr container) {
  if (!container->known_to_runsc) {
    co_return Status{};
  }
  const Result<Outcome> outcome =
      co_await control(guest, "runsc delete", core::runsc_delete(guest->globals, container->id),
                       guest->services.options.deadlines.start);
  if (!outcome) {
    co_return fail(outcome.error());
  }
  if (!outcome->ok()) {
    co_return fail(command_error("runsc delete", *outcome));
  }
  container->known_to_runsc = false;
  co_return Status{};
}

async::Task<Status> run(GuestPtr guest, ContainerPtr container) {
  const Status forgotten = co_await forget(guest, container);
  ATE_CO_TRY(forgotten);
  if (failpoint("gvisor-sidecar")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-sidecar");
  }
  ATE_CO_ASSIGN(const logs::StdioFiles stdio,
                logs::open_stdio(guest->layout.logs, container->name));
  container->log_start = size_of(guest->layout.logs + "/" + container->name + ".stderr");
  const core::RunscContainer member{
      .id = container->id, .bundle = container->bundle, .pid_file = {}};
  Command command = start_command(*guest, member, std::string(), 0);
  command.stdio = {{stdio.out.get(), STDOUT_FILENO}, {stdio.err.get(), STDERR_FILENO}};
  if (over(*guest)) {
    co_return fail(Errc::RuntimeFailed, "the actor has ended");  // its cgroup may be empty already
  }
  container->known_to_runsc = true;  // from here on, even when it fails half way
  const Result<Outcome> outcome = co_await guest->services.runsc.run(std::move(command));
  if (!outcome) {
    co_return fail(outcome.error());
  }
  if (!outcome->ok()) {
    co_return fail(command_error("runsc run", *outcome));
  }
  container->gofer = read_gofer(guest->layout, container->id);
  co_return watch_gofer_of(guest, *container);
}

/// Tells when the gate of a restarted sidecar opens; nobody waits for it.
async::Task<void> watch_ready(GuestPtr guest, ContainerPtr container, std::int64_t restarts) {
  while (!over(*guest) && container->restarts == restarts &&
         container->state == ContainerView::State::Running) {
    const Status open = co_await wait_ready(guest, container, std::chrono::steady_clock::now());
    if (open && container->restarts == restarts) {
      container->ready = container->state == ContainerView::State::Running;
      tell_change(*guest);
      co_return;
    }
  }
}

}  // namespace

async::Task<bool> start_again(GuestPtr guest, ContainerPtr container) {
  constexpr std::chrono::milliseconds kPausedPause(200);
  {
    // At once, so that a save need not wait for it.
    const async::Mutex::Lock lock = co_await guest->shape.lock();
    if (!guest->paused && !over(*guest)) {
      const Status forgotten = co_await forget(guest, container);
      static_cast<void>(forgotten);  // IGNORED: tried again before its start and before a save
    }
  }
  if (std::chrono::steady_clock::now() - container->started >= core::kRestartReset) {
    container->streak = 0;
  }
  std::chrono::milliseconds pause = core::restart_delay(container->streak);
  for (;;) {
    const bool ended = co_await guest->ended.wait_for(pause);
    if (ended || over(*guest)) {
      co_return false;
    }
    const async::Mutex::Lock lock = co_await guest->shape.lock();
    if (guest->paused) {
      pause = kPausedPause;  // it is being saved
      continue;
    }
    if (over(*guest)) {
      co_return false;
    }
    const Status started = co_await run(guest, container);
    ++container->streak;
    if (started) {
      break;
    }
    container->message =
        escape_text("it can't be started again: " + started.error().message(), 1024);
    tell_change(*guest);
    pause = core::restart_delay(container->streak);
  }
  ++container->restarts;
  container->started = std::chrono::steady_clock::now();
  container->state = ContainerView::State::Running;
  container->ready = container->gate == nullptr;
  container->message.clear();
  guest->all_ended.reset();
  tell_change(*guest);
  if (container->gate != nullptr) {
    // IGNORED: while the daemon stops nobody asks whether it is ready.
    static_cast<void>(guest->services.watchers.spawn(
        "sidecar readiness", watch_ready(guest, container, container->restarts)));
  }
  co_return true;
}

async::Task<Status> forget_ended(GuestPtr guest) {
  for (const ContainerPtr& container : guest->containers) {
    if (container->state == ContainerView::State::Waiting) {
      const Status forgotten = co_await forget(guest, container);
      ATE_CO_TRY(forgotten);
    }
  }
  co_return Status{};
}

async::Task<Result<bool>> has_unforgotten(GuestPtr guest) {
  const std::string socket = core::runsc_control_socket(guest->layout.directory);
  for (const ContainerPtr& container : guest->containers) {
    if (!container->known_to_runsc) {
      continue;
    }
    const Result<bool> ended =
        co_await container_ended(socket, container->id, guest->services.options.deadlines.control);
    if (!ended) {
      co_return fail(ended.error());
    }
    if (*ended && !container->sidecar) {
      co_return fail(Errc::RuntimeFailed, "container " + container->name + " has ended");
    }
    if (*ended) {
      co_return true;
    }
  }
  co_return false;
}

}  // namespace ate::runtime::gvisor
