// From a plan to a running guest.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string_view>
#include <utility>

#include "ate/logs/logs.hpp"
#include "ate/os/fs.hpp"
#include "ate/util/failpoint.hpp"
#include "runtime/gvisor/guest.hpp"
#include "runtime/gvisor/stdio_tail.hpp"

namespace ate::runtime::gvisor {
namespace {

constexpr std::string_view kCgroupMount = "/sys/fs/cgroup/";

/// runsc looks for cgroups at the usual mount point only. Elsewhere it is told to ignore them: our
/// leaf holds the limits either way, only what the guest sees of them is then the host's.
bool runsc_sees_cgroups(const GvisorOptions& options) {
  return options.enforcement && options.cgroup_root.starts_with(kCgroupMount);
}

core::CgroupLimits limits_of(const WorkerLimits& limits) {
  return {.memory_bytes = limits.memory_bytes, .cpu_milli = limits.cpu_milli, .pids = limits.pids};
}

core::RunscGlobals globals_of(const Guest& guest, const StartPlan& plan) {
  return {.executable = plan.runsc,
          .root = guest.layout.directory,
          .log = guest.layout.log,
          .panic_log = guest.layout.panic_log,
          .platform = plan.platform,
          .overlay_dir = guest.layout.overlay,
          .ignore_cgroups = !runsc_sees_cgroups(guest.services.options)};
}

Result<std::string> build_spec(const Guest& guest, const StartPlan& plan) {
  core::OciPaths paths;
  paths.rootfs = plan.rootfs;
  paths.network_namespace = guest.netns.sandbox_path;
  if (plan.binds) {
    ATE_ASSIGN(Binds binds, plan.binds(guest.layout));
    paths.bind_sources = std::move(binds.sources);
    paths.writable = std::move(binds.writable);
  }
  if (!guest.globals.ignore_cgroups) {
    paths.cgroups_path = guest.leaf.directory().substr(kCgroupMount.size() - 1);
    paths.limits = limits_of(guest.incarnation.limits);
  }
  return plan.make_spec(paths);
}

/// Everything that has to be there before runsc runs. The record comes first: what is made after
/// it can be found by it. Blocking, on tmpfs and cgroupfs; well under a millisecond.
Result<logs::StdioFiles> prepare(const GuestPtr& guest, const StartPlan& plan) {
  const GvisorOptions& options = guest->services.options;
  const Leaf::Place place{.root = options.cgroup_root,
                          .worker = guest->incarnation.worker,
                          .serial = guest->incarnation.serial,
                          .enforce = options.enforcement,
                          .limits = limits_of(guest->incarnation.limits)};
  const std::string leaf =
      place.root.empty() ? std::string()
                         : place.root + "/" + place.worker + "/" + std::to_string(place.serial);
  ATE_TRY(write_record(guest->layout, {.netns_id = guest->netns.id, .cgroup = leaf}));
  if (failpoint("gvisor-record")) {
    return fail(Errc::RuntimeFailed, "failpoint gvisor-record");
  }
  ATE_TRY(write_files(guest->layout, guest->incarnation));
  ATE_ASSIGN(guest->leaf, Leaf::create(place));
  if (failpoint("gvisor-leaf")) {
    return fail(Errc::RuntimeFailed, "failpoint gvisor-leaf");
  }
  ATE_ASSIGN(guest->oci_spec, build_spec(*guest, plan));
  ATE_TRY(os::create_file(guest->layout.bundle + "/config.json", guest->oci_spec, 0600));
  ATE_ASSIGN(logs::StdioFiles stdio, logs::open_stdio(guest->layout.logs, plan.container));
  guest->log_start = size_of(guest->layout.logs + "/" + plan.container + ".stderr");
  return stdio;
}

Command start_command(const Guest& guest, const StartPlan& plan, const logs::StdioFiles& stdio) {
  const GvisorDeadlines& deadlines = guest.services.options.deadlines;
  Command command;
  const bool boot = plan.image_path.empty();
  command.what = boot ? "runsc run" : "runsc restore";
  command.argv = boot ? core::runsc_run(guest.globals, guest.layout.bundle, guest.layout.pid_file)
                      : core::runsc_restore(guest.globals, guest.layout.bundle,
                                            guest.layout.pid_file, plan.image_path);
  command.log = guest.layout.log;
  command.deadline =
      boot ? deadlines.start : transfer_deadline(deadlines, plan.image_bytes) + deadlines.start;
  command.cgroup_fd = guest.leaf.fd();
  command.stdio = {{stdio.out.get(), STDOUT_FILENO}, {stdio.err.get(), STDERR_FILENO}};
  return command;
}

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
    // runsc passes the application's code on, 128 + signal when one killed it.
    constexpr int kSignalBase = 128;
    constexpr int kLastSignal = 64;
    exit.cause = SandboxExit::Cause::Exited;
    exit.detail = "exited with code " + std::to_string(status.code);
    if (status.code > kSignalBase && status.code <= kSignalBase + kLastSignal) {
      exit.detail += " (128 + signal " + std::to_string(status.code - kSignalBase) + ")";
    }
    if (!panic.empty()) {
      exit.cause = SandboxExit::Cause::SandboxCrash;
      exit.detail = "the sandbox crashed: " + panic;
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
  if (status) {
    guest->exit = classify(*guest, *status);
  } else {
    guest->exit.cause = SandboxExit::Cause::Unknown;
    guest->exit.detail = "the sandbox ended at once and its status is not known";
  }
  guest->ended.set();
}

/// The gofer ends with its sandbox. One that ends first leaves a sandbox that runs on and hangs at
/// its next file: it is ended too (reliability.md F4).
async::Task<void> watch_gofer(GuestPtr guest) {
  const async::ChildExit exit = co_await guest->services.reaper.wait(guest->processes.gofer.pid);
  // Its own way to end is to return when the sandbox has gone. A sandbox whose gofer was killed
  // ends too, mostly by itself and with the code of an application that was killed.
  guest->gofer_lost = exit.signal != 0 && !guest->killing && !guest->ended.is_set();
  constexpr std::chrono::seconds kTogether(1);
  const bool ended = co_await guest->ended.wait_for(kTogether);
  if (ended || guest->killing) {
    co_return;
  }
  if (const Result<UniqueFd> sandbox = os::open_process(guest->processes.sandbox)) {
    guest->gofer_lost = true;
    // IGNORED: one that can't be killed is ended with its actor.
    static_cast<void>(os::send_signal(*sandbox, SIGKILL).has_value());
  }
}

Status adopt_processes(const GuestPtr& guest) {
  ATE_ASSIGN(guest->processes, read_processes(guest->layout));
  Services& services = guest->services;
  services.reaper.watch(guest->processes.sandbox.pid);
  if (guest->processes.gofer.pid > 0) {
    services.reaper.watch(guest->processes.gofer.pid);
  }
  // Opened while the sandbox lives; the open file stays bound to its network namespace.
  guest->net_counters = UniqueFd(
      ::open(("/proc/" + std::to_string(guest->processes.sandbox.pid) + "/net/dev").c_str(),
             O_RDONLY | O_CLOEXEC));
  if (!services.watchers.spawn("sandbox watcher", watch_end(guest))) {
    return fail(Errc::Unavailable, "the daemon is stopping");
  }
  if (guest->processes.gofer.start_time != 0 &&
      !services.watchers.spawn("gofer watcher", watch_gofer(guest))) {
    return fail(Errc::Unavailable, "the daemon is stopping");
  }
  return {};
}

async::Task<Result<Outcome>> launch(GuestPtr guest, std::shared_ptr<StartPlan> plan,
                                    StageSink& stages) {
  Services& services = guest->services;
  StageTimer preparing(stages, "prepare");
  auto job = [guest, plan]() { return prepare(guest, *plan); };
  Result<logs::StdioFiles> stdio = co_await async::run_blocking(services.context, job);
  if (!stdio) {
    co_return fail(std::move(stdio).error());
  }
  preparing.done();
  if (plan->nat) {
    StageTimer connecting(stages, "egress");
    const Status open = co_await open_egress(services, guest->netns);
    ATE_CO_TRY(open);
    connecting.done();
  }
  if (failpoint("gvisor-prepared")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-prepared");
  }
  Command command = start_command(*guest, *plan, *stdio);
  StageTimer running(stages, plan->image_path.empty() ? "runsc-run" : "runsc-restore");
  Result<Outcome> outcome = co_await services.runsc.run(std::move(command));
  running.done();
  if (outcome && failpoint("gvisor-started")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-started");
  }
  co_return outcome;
}

constexpr std::chrono::milliseconds kEndAgain(100);
constexpr std::chrono::milliseconds kEndAgainMost(5000);

/// Nobody else knows of a sandbox whose start failed: it is ended here, however long that takes.
async::Task<void> end_later(GuestPtr guest) {
  Status ended = fail(Errc::Internal, "not tried yet");
  std::chrono::milliseconds pause = kEndAgain;
  while (!ended) {
    co_await async::sleep_for(pause);
    pause = std::min(2 * pause, kEndAgainMost);
    ended = co_await end_guest(guest);
  }
  guest->services.undead.erase(guest->incarnation.uid);
}

/// A failed start may leave a sandbox behind that no pid file names: it is ended through the leaf,
/// or by its command line.
async::Task<Result<GuestPtr>> give_up(GuestPtr guest, Error error) {
  const Result<SandboxProcesses> known = read_processes(guest->layout);
  if (known && guest->processes.sandbox.pid == 0) {
    guest->processes = *known;
  }
  const Status ended = co_await end_guest(guest);
  if (!ended) {
    guest->services.undead.insert(guest->incarnation.uid);
    // IGNORED: while the daemon stops it is dropped unstarted; the next start finds the sandbox.
    static_cast<void>(guest->services.watchers.spawn("end of a failed start", end_later(guest)));
    co_return fail(Error(error.code(), error.message() + "; moreover cleaning up failed: " +
                                           ended.error().message()));
  }
  co_return fail(std::move(error));
}

async::Task<Result<GuestPtr>> try_start(Services& services, std::shared_ptr<StartPlan> plan,
                                        bool& transient, StageSink& stages) {
  const GuestKey key{plan->incarnation.uid, plan->incarnation.serial};
  if (services.alive.contains(key)) {
    // Cleaning up after the attempt would end the one that lives.
    co_await release_network(services, plan->netns);
    co_return fail(Errc::Internal, "incarnation " + key.first + "/" + std::to_string(key.second) +
                                       " exists already");
  }
  if (services.undead.contains(key.first)) {
    co_await release_network(services, plan->netns);
    co_return fail(Errc::RuntimeFailed,
                   "an earlier sandbox of this actor would not end yet; it is tried again");
  }
  auto guest = std::make_shared<Guest>(services, plan->incarnation, plan->netns);
  guest->container = plan->container;
  guest->globals = globals_of(*guest, *plan);
  services.alive.insert(key);
  Result<Outcome> outcome = co_await launch(guest, plan, stages);
  if (!outcome) {
    Error error = std::move(outcome).error();
    co_return co_await give_up(std::move(guest), std::move(error));
  }
  const std::string what = plan->image_path.empty() ? "runsc run" : "runsc restore";
  if (!outcome->ok()) {
    transient = !plan->image_path.empty() && is_transient_restore_failure(*outcome);
    Error error = command_error(what, *outcome);
    co_return co_await give_up(std::move(guest), std::move(error));
  }
  if (Status adopted = adopt_processes(guest); !adopted) {
    Error error = std::move(adopted).error();
    co_return co_await give_up(std::move(guest), std::move(error));
  }
  co_return guest;
}

}  // namespace

async::Task<Result<GuestPtr>> start_guest(Services& services, StartPlan plan, StageSink& stages) {
  auto shared = std::make_shared<StartPlan>(std::move(plan));
  bool transient = false;
  Result<GuestPtr> guest = co_await try_start(services, shared, transient, stages);
  if (guest || !transient) {
    co_return guest;
  }
  // About one restore in a thousand of some builds dies with EOF and works when repeated (gvisor
  // #11842). runsc has taken the addresses out of the namespace, so a fresh pair is needed.
  Result<net::NetnsPair> pair = co_await acquire_network(services);
  if (!pair) {
    co_return guest;
  }
  shared->netns = std::move(*pair);
  Result<GuestPtr> second = co_await try_start(services, shared, transient, stages);
  co_return second;
}

}  // namespace ate::runtime::gvisor
