// From a plan to a running guest.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "ate/logs/logs.hpp"
#include "ate/os/fs.hpp"
#include "ate/util/failpoint.hpp"
#include "runtime/gvisor/ends.hpp"
#include "runtime/gvisor/guest.hpp"
#include "runtime/gvisor/stdio_tail.hpp"
#include "runtime/gvisor/together.hpp"

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
          .overlay_bytes = plan.disk_quota_bytes,
          .ignore_cgroups = !runsc_sees_cgroups(guest.services.options)};
}

core::OciPaths paths_of(const Guest& guest, const std::string& rootfs) {
  core::OciPaths paths;
  paths.rootfs = rootfs;
  paths.network_namespace = guest.netns.sandbox_path;
  return paths;
}

/// The root's spec carries the limits; what joins it is in the same cgroup by itself.
void limit_root(const Guest& guest, core::OciPaths& paths) {
  if (!guest.globals.ignore_cgroups) {
    paths.cgroups_path = guest.leaf.directory().substr(kCgroupMount.size() - 1);
    paths.limits = limits_of(guest.incarnation.limits);
  }
}

Status write_bundle(const std::string& bundle, const std::string& spec) {
  ATE_TRY(os::make_dirs(bundle, 0700));
  return os::create_file(bundle + "/config.json", spec, 0600);
}

/// What a container starts with as its standard streams.
using Stdio = std::vector<logs::StdioFiles>;

Result<logs::StdioFiles> prepare_container(Guest& guest, const ContainerPlan& plan) {
  const bool root = !guest.pod();
  const auto container = std::make_shared<GuestContainer>();
  container->name = plan.name;
  container->id = root ? core::kRunscContainerId : core::runsc_member_id(plan.name);
  container->bundle = root ? guest.layout.bundle : guest.layout.bundle + "-" + plan.name;
  container->rootfs = plan.rootfs;
  container->stop_signal = plan.stop_signal;
  container->sidecar = plan.sidecar;
  container->gate = plan.gate;
  container->cold = plan.cold;
  container->exit_code = plan.exit_code;
  container->restarts = plan.restarts + (plan.cold ? 1 : 0);
  container->ready = plan.gate == nullptr;
  core::OciPaths paths = paths_of(guest, plan.rootfs);
  if (plan.binds) {
    ATE_ASSIGN(Binds binds, plan.binds(guest.layout));
    paths.bind_sources = std::move(binds.sources);
    paths.writable = std::move(binds.writable);
  }
  if (root) {
    limit_root(guest, paths);
  }
  ATE_ASSIGN(container->oci_spec, plan.make_spec(paths));
  ATE_TRY(write_bundle(container->bundle, container->oci_spec));
  ATE_ASSIGN(logs::StdioFiles stdio, logs::open_stdio(guest.layout.logs, plan.name));
  container->log_start = size_of(guest.layout.logs + "/" + plan.name + ".stderr");
  guest.containers.push_back(container);
  return stdio;
}

Status prepare_pause(Guest& guest, const StartPlan& plan) {
  const std::string rootfs = guest.services.paths.pause_rootfs();
  ATE_TRY(make_pause_rootfs(rootfs));
  core::OciPaths paths = paths_of(guest, rootfs);
  limit_root(guest, paths);
  ATE_ASSIGN(guest.pause_spec, plan.make_pause_spec(paths));
  return write_bundle(guest.layout.bundle, guest.pause_spec);
}

/// Everything that has to be there before runsc runs. The record comes first: what is made after
/// it can be found by it. Blocking, on tmpfs and cgroupfs; well under a millisecond.
Result<Stdio> prepare(const GuestPtr& guest, const StartPlan& plan) {
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
  if (plan.make_pause_spec) {
    ATE_TRY(prepare_pause(*guest, plan));
  }
  Stdio stdio;
  for (const ContainerPlan& container : plan.containers) {
    ATE_ASSIGN(logs::StdioFiles files, prepare_container(*guest, container));
    stdio.push_back(std::move(files));
  }
  return stdio;
}

/// The root of the sandbox: the only container, or the pause program of several.
Command root_command(const Guest& guest, const StartPlan& plan, const Stdio& stdio) {
  const core::RunscContainer root{.id = core::kRunscContainerId,
                                  .bundle = guest.layout.bundle,
                                  .pid_file = guest.layout.pid_file};
  Command command = start_command(guest, root, plan.image_path, plan.image_bytes);
  if (!guest.pod()) {
    command.stdio = {{stdio.front().out.get(), STDOUT_FILENO},
                     {stdio.front().err.get(), STDERR_FILENO}};
  }
  return command;
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
  return watch_guest(guest);
}

/// One command that starts a container; what it says when it fails.
async::Task<Result<bool>> start_one(GuestPtr guest, Command command, std::shared_ptr<bool> again) {
  const std::string what = command.what;
  const Result<Outcome> outcome = co_await guest->services.runsc.run(std::move(command));
  if (!outcome) {
    co_return fail(outcome.error());
  }
  if (!outcome->ok()) {
    *again = *again || is_transient_restore_failure(*outcome);
    co_return fail(command_error(what, *outcome));
  }
  co_return true;
}

/// All members of the sandbox at once: runsc takes them in any order, and the kernel of the guest
/// goes on when the last one is there. Those that are started anew come after that.
async::Task<Status> start_members(GuestPtr guest, std::shared_ptr<const StartPlan> plan,
                                  std::shared_ptr<const Stdio> stdio, std::shared_ptr<bool> again) {
  for (const bool cold : {false, true}) {
    Together<bool> together(guest->services.context);
    for (std::size_t i = 0; i < guest->containers.size(); ++i) {
      const GuestContainer& container = *guest->containers[i];
      if (container.cold != cold) {
        continue;
      }
      const core::RunscContainer member{
          .id = container.id, .bundle = container.bundle, .pid_file = {}};
      Command command =
          start_command(*guest, member, cold ? std::string() : plan->image_path, plan->image_bytes);
      command.what += " of container " + container.name;
      command.stdio = {{(*stdio)[i].out.get(), STDOUT_FILENO},
                       {(*stdio)[i].err.get(), STDERR_FILENO}};
      together.add(guest->services.watchers, "start of a container",
                   start_one(guest, std::move(command), again));
    }
    const Status all = co_await together.join();
    ATE_CO_TRY(all);
  }
  co_return Status{};
}

async::Task<Status> launch(GuestPtr guest, std::shared_ptr<StartPlan> plan,
                           std::shared_ptr<bool> again, StageSink& stages) {
  Services& services = guest->services;
  StageTimer preparing(stages, "prepare");
  auto job = [guest, plan]() { return prepare(guest, *plan); };
  Result<Stdio> prepared = co_await async::run_blocking(services.context, job);
  if (!prepared) {
    co_return fail(std::move(prepared).error());
  }
  const auto stdio = std::make_shared<const Stdio>(std::move(*prepared));
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
  const std::string stage = plan->image_path.empty() ? "runsc-run" : "runsc-restore";
  StageTimer running(stages, stage);
  const Result<bool> root = co_await start_one(guest, root_command(*guest, *plan, *stdio), again);
  ATE_CO_TRY(root);
  running.done();
  if (guest->pod()) {
    if (failpoint("gvisor-root-started")) {
      co_return fail(Errc::RuntimeFailed, "failpoint gvisor-root-started");
    }
    StageTimer members(stages, stage + "-containers");
    const Status all = co_await start_members(guest, plan, stdio, again);
    ATE_CO_TRY(all);
    members.done();
  }
  if (failpoint("gvisor-started")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-started");
  }
  co_return adopt_processes(guest);
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
  guest->globals = globals_of(*guest, *plan);
  services.alive.insert(key);
  const auto again = std::make_shared<bool>(false);
  const Status launched = co_await launch(guest, plan, again, stages);
  if (!launched) {
    transient = *again;
    co_return co_await give_up(std::move(guest), launched.error());
  }
  co_return guest;
}

}  // namespace

Command start_command(const Guest& guest, const core::RunscContainer& container,
                      const std::string& image_path, std::int64_t image_bytes) {
  const GvisorDeadlines& deadlines = guest.services.options.deadlines;
  const bool boot = image_path.empty();
  core::RunscGlobals globals = guest.globals;
  if (container.id != core::kRunscContainerId) {
    // Members start at the same time: each has a log of its own to tell its error.
    globals.log = guest.layout.directory + "/" + container.id + ".log";
  }
  Command command;
  command.what = boot ? "runsc run" : "runsc restore";
  command.argv = boot ? core::runsc_run(globals, container)
                      : core::runsc_restore(globals, container, image_path);
  command.log = globals.log;
  command.deadline =
      boot ? deadlines.start : transfer_deadline(deadlines, image_bytes) + deadlines.start;
  command.cgroup_fd = guest.leaf.fd();
  return command;
}

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
