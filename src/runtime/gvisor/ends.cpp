#include "runtime/gvisor/ends.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "ate/core/containers.hpp"
#include "ate/os/process.hpp"
#include "ate/util/log.hpp"
#include "runtime/gvisor/control_socket.hpp"
#include "runtime/gvisor/sidecars.hpp"
#include "runtime/gvisor/stdio_tail.hpp"

namespace ate::runtime::gvisor {
namespace {

/// The parts of a sandbox that end together do so within this.
constexpr std::chrono::seconds kTogether(1);

SandboxExit classify(const Guest& guest, const async::ChildExit& status) {
  SandboxExit exit;
  exit.exit_code = status.code;
  if (guest.killing) {
    exit.cause = SandboxExit::Cause::Killed;
    exit.signal = SIGKILL;
    exit.detail = "ended by the daemon";
    return exit;
  }
  if (guest.gofer_lost && guest.leaf.oom_kills() <= 0) {  // an OOM kill takes both at once
    exit.cause = SandboxExit::Cause::SandboxCrash;
    exit.signal = status.signal;
    exit.detail = "the gofer, which serves the sandbox's files, ended before it";
    return exit;
  }
  const std::string panic = last_words(guest.layout.panic_log, 0, 512);
  if (status.signal == 0) {
    exit.cause = SandboxExit::Cause::Exited;
    exit.detail = core::end_words(status.code);
    if (!panic.empty()) {
      exit.cause = SandboxExit::Cause::SandboxCrash;
      exit.detail = "the sandbox crashed: " + panic;
    } else if (guest.pod()) {
      // Its root is our pause program, which never ends by itself.
      exit.cause = SandboxExit::Cause::SandboxCrash;
      exit.detail = "the sandbox ended under its containers, " + exit.detail;
    }
    return exit;
  }
  exit.signal = status.signal;
  exit.cause = SandboxExit::Cause::Killed;
  exit.detail = "the sandbox was killed by signal " + std::to_string(status.signal);
  if (const std::int64_t kills = guest.leaf.oom_kills(); kills > 0) {
    exit.cause = SandboxExit::Cause::CgroupOom;
    const std::string peak = guest.leaf.memory_peak();
    exit.detail = "out of memory in cgroup " + guest.leaf.directory() + " (oom_kill " +
                  std::to_string(kills) + (peak.empty() ? "" : ", " + peak) + ")";
  } else if (!panic.empty()) {
    exit.cause = SandboxExit::Cause::SandboxCrash;
    exit.detail += ": " + panic;
  }
  return exit;
}

/// Waits for the end of the sandbox's process, tells everybody.
async::Task<void> watch_end(GuestPtr guest) {
  async::Reaper& reaper = guest->services.reaper;
  const os::ProcessId sandbox = guest->processes.sandbox;
  auto status_of = [](async::Reaper& from, pid_t pid) -> async::Task<Result<async::ChildExit>> {
    const async::ChildExit exit = co_await from.wait(pid);
    co_return exit;
  };
  // One that was gone when we first looked may have been reaped by the runsc command it was a child
  // of: then nobody will tell us how it ended.
  constexpr std::chrono::seconds kOrphanWait(1);
  constexpr std::chrono::hours kForever(24 * 365 * 20);
  const std::chrono::nanoseconds limit = sandbox.start_time == 0
                                             ? std::chrono::nanoseconds(kOrphanWait)
                                             : std::chrono::nanoseconds(kForever);
  const Result<async::ChildExit> status = co_await async::with_deadline(
      limit, "the end of the sandbox", status_of(reaper, sandbox.pid));
  SandboxExit exit;
  if (status) {
    exit = classify(*guest, *status);
  } else {
    exit.detail = "the sandbox ended at once and its status is not known";
  }
  for (const ContainerPtr& container : guest->containers) {
    if (container->state != ContainerView::State::Exited) {
      container->state = ContainerView::State::Exited;
      container->ready = false;
      if (!guest->pod() && exit.cause == SandboxExit::Cause::Exited) {
        container->exit_code = exit.exit_code;
      }
    }
  }
  guest->all_ended.set();
  tell_end(*guest, std::move(exit));
}

void kill_sandbox(const Guest& guest) {
  if (const Result<UniqueFd> sandbox = os::open_process(guest.processes.sandbox)) {
    // IGNORED: one that can't be killed is ended with its actor.
    static_cast<void>(os::send_signal(*sandbox, SIGKILL).has_value());
  }
}

/// A gofer ends with its sandbox or its container. One that is killed leaves a sandbox that runs on
/// and hangs at its next file: it is ended too (reliability.md F4).
async::Task<void> watch_gofer(GuestPtr guest, pid_t gofer, bool of_root) {
  const async::ChildExit exit = co_await guest->services.reaper.wait(gofer);
  if (!of_root) {
    guest->services.reaper.forget(gofer);
    if (exit.signal == 0) {
      co_return;  // its container has ended
    }
  }
  // Its own way to end is to return when the sandbox has gone. A sandbox whose gofer was killed
  // ends too, mostly by itself and with the code of an application that was killed.
  guest->gofer_lost = exit.signal != 0 && !guest->killing && !guest->ended.is_set();
  const bool ended = co_await guest->all_ended.wait_for(kTogether);
  if (ended || guest->killing) {
    co_return;
  }
  guest->gofer_lost = true;
  kill_sandbox(*guest);
}

void note_end(Guest& guest, GuestContainer& container, const core::ContainerEnd& end) {
  container.ready = false;
  container.exit_code = end.exit_code;
  container.state =
      container.sidecar ? ContainerView::State::Waiting : ContainerView::State::Exited;
  container.message = core::end_words(end.exit_code);
  const std::string words = last_words_of(guest, container);
  if (!words.empty()) {
    container.message += "; its last words: " + words;
  }
  const bool none_left = std::ranges::all_of(guest.containers, [](const ContainerPtr& other) {
    return other->state != ContainerView::State::Running;
  });
  if (none_left) {
    guest.all_ended.set();
  }
  tell_change(guest);
}

SandboxExit actor_exit(const GuestContainer& container, const core::ContainerEnd& end) {
  SandboxExit exit;
  exit.cause = SandboxExit::Cause::Exited;
  exit.exit_code = end.exit_code;
  exit.container = container.name;
  exit.detail = "container " + container.name + " " + container.message;
  return exit;
}

/// The life of one container of several. The end of one that is no sidecar is the actor's.
async::Task<void> watch_container(GuestPtr guest, ContainerPtr container) {
  const std::string socket = core::runsc_control_socket(guest->layout.directory);
  for (;;) {
    const Result<std::uint32_t> status = co_await wait_container(socket, container->id);
    if (guest->killing) {
      co_return;
    }
    if (!status) {
      // The sandbox has gone, which its own watcher tells, or it has stopped answering.
      const bool gone = co_await guest->all_ended.wait_for(kTogether);
      if (!gone && !guest->killing) {
        container->message = escape_text(status.error().message(), 512);
        kill_sandbox(*guest);
      }
      co_return;
    }
    const core::ContainerEnd end = core::container_end(*status);
    note_end(*guest, *container, end);
    if (!container->sidecar) {
      tell_end(*guest, actor_exit(*container, end));
      co_return;
    }
    const bool again = co_await start_again(guest, container);
    if (!again) {
      co_return;
    }
  }
}

Status stopping() {
  return fail(Errc::Unavailable, "the daemon is stopping");
}

}  // namespace

Status watch_gofer_of(const GuestPtr& guest, const GuestContainer& container) {
  const os::ProcessId& gofer = container.gofer;
  if (gofer.pid <= 0 || gofer.start_time == 0) {
    return {};
  }
  guest->services.reaper.watch(gofer.pid);
  return guest->services.watchers.spawn("gofer watcher", watch_gofer(guest, gofer.pid, false))
             ? Status{}
             : stopping();
}

Status watch_guest(const GuestPtr& guest) {
  async::TaskScope& watchers = guest->services.watchers;
  if (!watchers.spawn("sandbox watcher", watch_end(guest))) {
    return stopping();
  }
  const os::ProcessId& gofer = guest->processes.gofer;
  if (gofer.start_time != 0 &&
      !watchers.spawn("gofer watcher", watch_gofer(guest, gofer.pid, true))) {
    return stopping();
  }
  if (!guest->pod()) {
    return {};
  }
  for (const ContainerPtr& container : guest->containers) {
    container->gofer = read_gofer(guest->layout, container->id);
    ATE_TRY(watch_gofer_of(guest, *container));
    if (!watchers.spawn("container watcher", watch_container(guest, container))) {
      return stopping();
    }
  }
  return {};
}

}  // namespace ate::runtime::gvisor
