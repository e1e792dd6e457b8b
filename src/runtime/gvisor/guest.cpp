// A started guest: control commands on it, its end.
#include "runtime/gvisor/guest.hpp"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ate/artifacts/artifacts.hpp"
#include "ate/core/containers.hpp"
#include "ate/net/egress.hpp"
#include "ate/os/fs.hpp"
#include "ate/util/failpoint.hpp"
#include "ate/util/log.hpp"
#include "runtime/gvisor/processes.hpp"
#include "runtime/gvisor/sidecars.hpp"
#include "runtime/gvisor/stdio_tail.hpp"

namespace ate::runtime::gvisor {
namespace {

constexpr std::size_t kLastWords = 1024;

/// The files in which guest memory and the writable root live (both unlinked or memfd).
bool holds_guest_data(std::string_view link) {
  return link.starts_with("/memfd:runsc-memory") ||
         link.find("/runsc-filestore-") != std::string_view::npos;
}

async::Task<void> wait_reaped(Services& services, pid_t pid) {
  const async::ChildExit exit = co_await services.reaper.wait(pid);
  static_cast<void>(exit);
  co_return;
}

/// Until every process of the guest is dead and reaped.
async::Task<Status> wait_all(GuestPtr guest) {
  const Status empty = co_await guest->leaf.wait_empty();
  ATE_CO_TRY(empty);
  Services& services = guest->services;
  if (!guest->leaf.exists()) {
    const Status rest = co_await wait_by_root(guest->layout.directory);
    ATE_CO_TRY(rest);
  }
  for (const os::ProcessId& id : {guest->processes.sandbox, guest->processes.gofer}) {
    // Start time 0: it was gone before we looked, and nobody will tell.
    if (id.pid > 0 && id.start_time != 0) {
      co_await wait_reaped(services, id.pid);
    }
  }
  co_return Status{};
}

Status kill_guest(const Guest& guest) {
  if (guest.leaf.exists()) {
    return guest.leaf.kill();
  }
  // The sandbox first: it ends by itself, in its own way, when it sees its gofer go.
  if (const Result<UniqueFd> sandbox = os::open_process(guest.processes.sandbox)) {
    ATE_TRY(os::send_signal(*sandbox, SIGKILL));
  }
  return kill_by_root(guest.layout.directory);
}

Status remove_files(const GuestPtr& guest, const std::string& run_actor) {
  ATE_TRY(guest->leaf.remove());
  if (failpoint("gvisor-leaf-removed")) {
    return fail(Errc::Internal, "failpoint gvisor-leaf-removed");
  }
  ATE_TRY(os::remove_tree(guest->layout.overlay));
  ATE_TRY(os::remove_tree(guest->layout.directory));
  // IGNORED: another incarnation of the actor may have its directory there.
  static_cast<void>(::rmdir(run_actor.c_str()));
  static_cast<void>(::rmdir(os::parent_dir(guest->layout.overlay).c_str()));
  return {};
}

async::Task<Status> end_processes(GuestPtr guest) {
  Services& services = guest->services;
  guest->killing = true;
  if (failpoint("gvisor-kill")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-kill");
  }
  ATE_CO_TRY(kill_guest(*guest));
  auto to_result = [](GuestPtr which) -> async::Task<Result<bool>> {
    const Status all = co_await wait_all(std::move(which));
    ATE_CO_TRY(all);
    co_return true;
  };
  const Result<bool> dead = co_await async::with_deadline(
      services.options.deadlines.reap, "waiting for the end of the sandbox", to_result(guest));
  ATE_CO_TRY(dead);
  guest->dead = true;
  // Their numbers may be those of other processes from now on.
  services.reaper.forget(guest->processes.sandbox.pid);
  services.reaper.forget(guest->processes.gofer.pid);
  co_return Status{};
}

}  // namespace

Services::Services(async::Context& c, async::Reaper& r, net::NetnsFactory& n,
                   const artifacts::AssetStore& a, const core::Paths& p, GvisorOptions o)
    : context(c),
      reaper(r),
      netns(n),
      assets(a),
      paths(p),
      options(std::move(o)),
      runsc(c, r, options.output_limit),
      // Both handle their errors as values: nothing escapes but what shutdown cancels.
      watchers(c, [](const std::string&, const std::string&) {}),
      teardown(c, [](const std::string&, const std::string&) {}) {}

Guest::Guest(Services& s, Incarnation i, net::NetnsPair n)
    : services(s),
      incarnation(std::move(i)),
      netns(std::move(n)),
      layout(make_layout(s.paths, incarnation.uid, incarnation.serial)),
      control(s.context),
      shape(s.context),
      changed(s.context),
      ended(s.context),
      all_ended(s.context) {}

async::Task<Result<net::NetnsPair>> acquire_network(Services& services) {
  Result<net::NetnsPair> pair = co_await services.netns.acquire();
  if (pair) {
    services.networks.insert(pair->id);
  }
  co_return pair;
}

async::Task<void> release_network(Services& services, net::NetnsPair pair) {
  const std::string id = pair.id;
  if (services.options.egress != nullptr) {
    const Status closed = co_await services.options.egress->detach(id);
    // IGNORED: the link goes with its other end, and what stays is found by observe().
    static_cast<void>(closed);
  }
  const Status done = co_await services.netns.destroy(std::move(pair));
  // IGNORED: nothing waits for it; what stays is found by observe() from now on.
  static_cast<void>(done);
  services.networks.erase(id);
}

async::Task<Status> open_egress(Services& services, net::NetnsPair pair) {
  if (services.options.egress == nullptr) {
    co_return fail(Errc::Unavailable, "egress nat is not to be had here");
  }
  co_return co_await services.options.egress->attach(std::move(pair));
}

StageTimer::StageTimer(StageSink& sink, std::string name)
    : sink_(sink), name_(std::move(name)), start_(std::chrono::steady_clock::now()) {}

void StageTimer::done() {
  sink_.record(name_, std::chrono::steady_clock::now() - start_);
}

std::chrono::milliseconds transfer_deadline(const GvisorDeadlines& deadlines, std::int64_t bytes) {
  return deadlines.save + std::chrono::milliseconds(
                              bytes / std::max<std::int64_t>(1, deadlines.bytes_per_second / 1000));
}

async::Task<Result<Outcome>> control(GuestPtr guest, std::string what, core::Argv argv,
                                     std::chrono::milliseconds deadline) {
  const async::Mutex::Lock lock = co_await guest->control.lock();
  if (guest->all_ended.is_set() && (!guest->pod() || guest->ended.is_set())) {
    co_return fail(Errc::RuntimeFailed, what + ": the sandbox has ended: " + describe_end(*guest));
  }
  Command command;
  command.what = std::move(what);
  command.argv = std::move(argv);
  command.log = guest->layout.log;
  command.deadline = deadline;
  co_return co_await guest->services.runsc.run(std::move(command));
}

namespace {

/// Adds to an error what became of the sandbox meanwhile.
Error explain(const Guest& guest, Error error) {
  if (!guest.ended.is_set()) {
    return error;
  }
  return Error(error.code(), error.message() + "; the sandbox ended: " + describe_end(guest));
}

async::Task<Status> pause(GuestPtr guest) {
  const Result<Outcome> outcome =
      co_await control(guest, "runsc pause", core::runsc_pause(guest->globals),
                       guest->services.options.deadlines.control);
  // A pause whose deadline passed may still have happened.
  guest->paused = true;
  if (!outcome) {
    co_return fail(explain(*guest, outcome.error()));
  }
  if (!outcome->ok() && outcome->error.find("in state paused") == std::string::npos) {
    co_return fail(explain(*guest, command_error("runsc pause", *outcome)));
  }
  co_return Status{};
}

Status check_payload(const std::string& directory) {
  for (const char* name : {"checkpoint.img", "pages.img", "pages_meta.img"}) {
    struct stat info{};
    const std::string path = directory + "/" + name;
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      return fail(Errc::RuntimeFailed,
                  "runsc checkpoint reported success but wrote no " + std::string(name));
    }
  }
  return {};
}

}  // namespace

/// Paused with only such containers as can be restored: a sidecar that ends in the last moment is
/// forgotten first, which needs a running guest.
async::Task<Status> pause_whole(GuestPtr guest) {
  constexpr int kAttempts = 3;
  for (int attempt = 0;; ++attempt) {
    const Status forgotten = co_await forget_ended(guest);
    ATE_CO_TRY(forgotten);
    const Status paused = co_await pause(guest);
    ATE_CO_TRY(paused);
    if (!guest->pod()) {
      co_return Status{};
    }
    const Result<bool> unforgotten = co_await has_unforgotten(guest);
    if (!unforgotten) {
      co_return fail(explain(*guest, unforgotten.error()));
    }
    if (!*unforgotten) {
      co_return Status{};
    }
    if (attempt + 1 == kAttempts) {
      co_return fail(Errc::RuntimeFailed, "a sidecar ends again and again while it is saved");
    }
    const Status unpaused = co_await unpause_guest(guest);
    ATE_CO_TRY(unpaused);
    // Its watcher is just about to hear of the end.
    constexpr std::chrono::milliseconds kHeard(200);
    const bool ended = co_await guest->ended.wait_for(kHeard);
    static_cast<void>(ended);  // the pause will tell
  }
}

async::Task<Status> save_guest(GuestPtr guest, std::string directory, StageSink& stages) {
  Services& services = guest->services;
  if (failpoint("gvisor-pause")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-pause");
  }
  StageTimer pausing(stages, "runsc-pause");
  const async::Mutex::Lock shape = co_await guest->shape.lock();
  const Status paused = co_await pause_whole(guest);
  ATE_CO_TRY(paused);
  pausing.done();
  if (failpoint("gvisor-paused")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-paused");
  }
  StageTimer saving(stages, "runsc-checkpoint");
  auto measure = [guest]() { return resident_bytes(*guest); };
  const std::int64_t bytes = co_await async::run_blocking(services.context, measure);
  const Result<Outcome> saved =
      co_await control(guest, "runsc checkpoint", core::runsc_checkpoint(guest->globals, directory),
                       transfer_deadline(services.options.deadlines, bytes));
  if (!saved) {
    co_return fail(explain(*guest, saved.error()));
  }
  if (!saved->ok()) {
    co_return fail(explain(*guest, command_error("runsc checkpoint", *saved)));
  }
  saving.done();
  if (failpoint("gvisor-saved")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-saved");
  }
  co_return check_payload(directory);
}

async::Task<Status> unpause_guest(GuestPtr guest) {
  if (failpoint("gvisor-unpause")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-unpause");
  }
  const Result<Outcome> outcome =
      co_await control(guest, "runsc resume", core::runsc_resume(guest->globals),
                       guest->services.options.deadlines.control);
  if (!outcome) {
    co_return fail(explain(*guest, outcome.error()));
  }
  if (!outcome->ok() && outcome->error.find("in state running") == std::string::npos) {
    co_return fail(explain(*guest, command_error("runsc resume", *outcome)));
  }
  guest->paused = false;
  co_return Status{};
}

async::Task<Status> end_guest(GuestPtr guest) {
  if (guest->gone) {
    co_return Status{};
  }
  Services& services = guest->services;
  if (!guest->dead) {
    const Status dead = co_await end_processes(guest);
    ATE_CO_TRY(dead);
  }
  if (failpoint("gvisor-killed")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-killed");
  }
  guest->net_counters.reset();  // it holds the network namespace
  auto removal = [guest]() {
    return remove_files(guest, guest->services.paths.run_actor(guest->incarnation.uid));
  };
  const Status removed = co_await async::run_blocking(services.context, removal);
  ATE_CO_TRY(removed);
  if (failpoint("gvisor-removed")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-removed");
  }
  guest->gone = true;
  services.alive.erase({guest->incarnation.uid, guest->incarnation.serial});
  net::NetnsPair pair = std::move(guest->netns);
  if (!pair.id.empty()) {
    // After shutdown began it is dropped unstarted; the next start finds the pair.
    static_cast<void>(
        services.teardown.spawn("network teardown", release_network(services, std::move(pair))));
  }
  co_return Status{};
}

std::int64_t resident_bytes(const Guest& guest) {
  const std::string directory = "/proc/" + std::to_string(guest.processes.sandbox.pid) + "/fd";
  DIR* handle = ::opendir(directory.c_str());
  if (handle == nullptr) {
    return 0;
  }
  std::int64_t total = 0;
  constexpr std::int64_t kBlock = 512;
  while (const dirent* entry = ::readdir(handle)) {
    std::array<char, 256> target{};
    const ssize_t length =
        ::readlinkat(::dirfd(handle), entry->d_name, target.data(), target.size());
    struct stat info{};
    if (length > 0 &&
        holds_guest_data(std::string_view(target.data(), static_cast<std::size_t>(length))) &&
        ::fstatat(::dirfd(handle), entry->d_name, &info, 0) == 0) {
      total += static_cast<std::int64_t>(info.st_blocks) * kBlock;
    }
  }
  static_cast<void>(::closedir(handle));
  return total;
}

std::string describe_end(const Guest& guest) {
  std::string text = guest.exit.detail;
  // One of several has told its own with its end.
  const std::string words =
      guest.exit.container.empty() ? last_words_of(guest, *guest.containers.front()) : "";
  if (!words.empty()) {
    text += "; its last words: " + words;
  }
  return text;
}

std::string last_words_of(const Guest& guest, const GuestContainer& container) {
  return last_words(guest.layout.logs + "/" + container.name + ".stderr", container.log_start,
                    kLastWords);
}

void tell_change(Guest& guest) {
  guest.changed.set();
}

void tell_end(Guest& guest, SandboxExit exit) {
  if (!guest.ended.is_set()) {
    guest.exit = std::move(exit);
    guest.ended.set();
    guest.changed.set();
  }
}

Result<ContainerPtr> find_container(const Guest& guest, const std::string& name) {
  std::vector<std::string> names;
  for (const ContainerPtr& container : guest.containers) {
    names.push_back(container->name);
  }
  ATE_ASSIGN(const std::string chosen, core::choose_container(names, name));
  return *std::ranges::find(guest.containers, chosen, &GuestContainer::name);
}

}  // namespace ate::runtime::gvisor
