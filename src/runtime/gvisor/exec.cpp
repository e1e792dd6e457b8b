#include "runtime/gvisor/exec.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "ate/core/oci_spec.hpp"
#include "ate/image/image.hpp"
#include "ate/os/fs.hpp"
#include "ate/util/failpoint.hpp"
#include "ate/util/scope_exit.hpp"
#include "runtime/gvisor/control_socket.hpp"

namespace ate::runtime::gvisor {

/// One stream of the process: its pipe and what was read of it.
struct Stream {
  UniqueFd ours;
  UniqueFd theirs;
  std::string text;
  bool truncated = false;
  bool open = true;
};

/// Everything of one call; shared with the task that waits for the command.
struct Exec {
  explicit Exec(async::Context& context) : done(context) {}

  ContainerPtr container;
  std::string process_file;
  std::string pid_file;
  std::string log;
  UniqueFd input;
  std::array<Stream, 2> streams;
  UniqueFd ready;  // epoll: something to read, or the command has ended
  UniqueFd over;   // eventfd
  std::optional<Result<Outcome>> outcome;
  async::Event done;
};

using ExecPtr = std::shared_ptr<Exec>;

namespace {

constexpr std::chrono::seconds kAfterKill(10);

/// A file in memory, so that nobody has to feed it while the process reads.
Result<UniqueFd> make_input(const std::string& text) {
  UniqueFd file(::memfd_create("exec-input", MFD_CLOEXEC));
  if (!file) {
    return fail(Error::from_errno("memfd_create", errno));
  }
  ATE_TRY(os::write_all(file.get(), text, "exec-input"));
  if (::lseek(file.get(), 0, SEEK_SET) != 0) {
    return fail(Error::from_errno("exec-input", errno));
  }
  return file;
}

Status watch(const UniqueFd& epoll, const UniqueFd& file, std::uint64_t mark) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = mark;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, file.get(), &event) != 0) {
    return fail(Error::from_errno("epoll_ctl", errno));
  }
  return {};
}

Status make_streams(Exec& exec) {
  exec.ready = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  exec.over = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!exec.ready || !exec.over) {
    return fail(Error::from_errno("preparing a command", errno));
  }
  ATE_TRY(watch(exec.ready, exec.over, exec.streams.size()));
  for (std::size_t i = 0; i < exec.streams.size(); ++i) {
    std::array<int, 2> ends{-1, -1};
    // Only our end must not block; the other one's description is the process's own.
    if (::pipe2(ends.data(), O_CLOEXEC) != 0 ||
        ::fcntl(ends[0], F_SETFL, O_RDONLY | O_NONBLOCK) != 0) {
      return fail(Error::from_errno("pipe2", errno));
    }
    exec.streams[i].ours = UniqueFd(std::move(ends[0]));
    exec.streams[i].theirs = UniqueFd(std::move(ends[1]));
    ATE_TRY(watch(exec.ready, exec.streams[i].ours, i));
  }
  return {};
}

Result<std::string> process_text(const GuestContainer& container, const ExecPlan& plan) {
  ATE_ASSIGN(core::OciProcess process, core::process_of_spec(container.oci_spec));
  process.args = plan.argv;
  if (!plan.working_dir.empty()) {
    process.cwd = plan.working_dir;
  }
  if (!plan.user.empty()) {
    Result<image::User> user = image::resolve_user(container.rootfs, plan.user);
    if (!user) {
      return fail(std::move(user).error().with_code(Errc::InvalidValue).with_field("user"));
    }
    process.user = {.uid = user->uid,
                    .gid = user->gid,
                    .additional_gids = std::move(user->additional_gids),
                    .home = user->home};
    process.env = core::merge_env(std::move(process.env), {"HOME=" + user->home});
  }
  process.env = core::merge_env(std::move(process.env), plan.env);
  return core::build_process_json(process);
}

/// Blocking: files on tmpfs, the image's passwd.
Status prepare(const Guest& guest, Exec& exec, const ExecPlan& plan, std::int64_t number) {
  const std::string base = guest.layout.directory + "/exec-" + std::to_string(number);
  exec.process_file = base + ".json";
  exec.pid_file = base + ".pid";
  exec.log = base + ".log";
  ATE_ASSIGN(const std::string text, process_text(*exec.container, plan));
  ATE_ASSIGN(exec.input, make_input(plan.input));
  ATE_TRY(make_streams(exec));
  return os::create_file(exec.process_file, text, 0600);
}

void clear_files(const Exec& exec) {
  for (const std::string& path : {exec.process_file, exec.pid_file, exec.log}) {
    if (!path.empty()) {
      // IGNORED: they go with the incarnation's directory at the latest.
      static_cast<void>(os::remove_file(path).has_value());
    }
  }
}

/// The number that the sandbox gave the process; 0 when it was never started.
std::int64_t started_pid(const Exec& exec) {
  const Result<std::string> text = os::read_file(exec.pid_file, 64);
  std::int64_t pid = 0;
  if (text) {
    static_cast<void>(std::from_chars(text->data(), text->data() + text->size(), pid));
  }
  return pid;
}

/// Numbers of the other commands that run in the same container.
std::vector<std::int64_t> others_of(const Guest& guest, const ExecPtr& exec) {
  std::vector<std::int64_t> pids;
  for (const ExecPtr& other : guest.execs) {
    const std::int64_t pid = started_pid(*other);
    if (other != exec && other->container == exec->container && pid > 0 && !other->done.is_set()) {
      pids.push_back(pid);
    }
  }
  return pids;
}

async::Task<void> run_command(GuestPtr guest, ExecPtr exec, std::chrono::milliseconds deadline) {
  core::RunscGlobals globals = guest->globals;
  globals.log = exec->log;
  Command command;
  command.what = "runsc exec";
  command.argv = core::runsc_exec(globals, exec->container->id, exec->process_file, exec->pid_file);
  command.log = exec->log;
  command.deadline = deadline;
  command.stdio = {{exec->input.get(), STDIN_FILENO},
                   {exec->streams[0].theirs.get(), STDOUT_FILENO},
                   {exec->streams[1].theirs.get(), STDERR_FILENO}};
  Result<Outcome> outcome = co_await guest->services.runsc.run(std::move(command));
  exec->outcome.emplace(std::move(outcome));
  constexpr std::uint64_t kOne = 1;
  static_cast<void>(::write(exec->over.get(), &kOne, sizeof kOne));
  exec->done.set();
}

/// Reads once. What is beyond the limit is read too and dropped: the process must get on. false:
/// nothing was there.
bool read_some(const UniqueFd& epoll, Stream& stream, std::size_t limit) {
  std::array<char, 64 * 1024> buffer;
  const ssize_t got = stream.open ? ::read(stream.ours.get(), buffer.data(), buffer.size()) : -1;
  if (got > 0) {
    const std::size_t room = limit - stream.text.size();
    const std::size_t count = static_cast<std::size_t>(got);
    stream.text.append(buffer.data(), std::min(room, count));
    stream.truncated = stream.truncated || count > room;
    return true;
  }
  if (got == 0 && stream.open) {
    stream.open = false;
    static_cast<void>(::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, stream.ours.get(), nullptr));
  }
  return false;
}

/// Until the command has ended and all that it wrote is read. What its children write after it is
/// nobody's any more.
async::Task<void> read_streams(ExecPtr exec, std::size_t limit) {
  constexpr std::chrono::milliseconds kFloodPause(10);
  constexpr int kLastReads = 256;  // a pipe holds 64 KiB; a child that floods must not keep us
  while (!exec->done.is_set()) {
    const Status readable = co_await async::wait_readable(exec->ready.get());
    if (!readable) {
      co_return;
    }
    bool flooding = false;
    for (Stream& stream : exec->streams) {
      static_cast<void>(read_some(exec->ready, stream, limit));
      flooding = flooding || stream.truncated;
    }
    if (flooding) {
      // One that never stops gets a few MB/s and no core of ours.
      const bool done = co_await exec->done.wait_for(kFloodPause);
      static_cast<void>(done);
    }
  }
  for (Stream& stream : exec->streams) {
    for (int i = 0; i < kLastReads && read_some(exec->ready, stream, limit); ++i) {
    }
  }
}

async::Task<Result<bool>> read_all(ExecPtr exec, std::size_t limit) {
  co_await read_streams(std::move(exec), limit);
  co_return true;
}

Error ended_meanwhile(const Guest& guest) {
  return Error(Errc::StateConflict,
               guest.killing ? "the actor was saved or ended while the command ran"
                             : "the actor ended while the command ran: " + describe_end(guest));
}

/// runsc itself failed: it says so in its log, which an application that ends with this code
/// doesn't.
bool runsc_failed(const Exec& exec) {
  constexpr int kRunscFailed = 128;
  if (!exec.outcome || !*exec.outcome) {
    return false;
  }
  const Outcome& outcome = **exec.outcome;
  return outcome.signal != 0 || (outcome.exit_code == kRunscFailed && !outcome.error.empty());
}

Result<ExecOutput> result_of(const Guest& guest, Exec& exec, bool timed_out) {
  ExecOutput output;
  output.timed_out = timed_out;
  output.out = std::move(exec.streams[0].text);
  output.err = std::move(exec.streams[1].text);
  output.out_truncated = exec.streams[0].truncated;
  output.err_truncated = exec.streams[1].truncated;
  constexpr int kKilled = 137;
  output.exit_code = kKilled;
  if (guest.killing || guest.ended.is_set()) {
    return fail(ended_meanwhile(guest));
  }
  if (timed_out) {
    return output;
  }
  if (!*exec.outcome) {
    return fail(exec.outcome->error());
  }
  const Outcome& outcome = **exec.outcome;
  if (runsc_failed(exec)) {
    if (guest.paused) {
      return fail(Errc::StateConflict, "the actor is being saved");
    }
    const bool refused = outcome.signal == 0 && started_pid(exec) == 0;
    return fail(refused
                    ? Error(Errc::InvalidValue, "the command can't be started: " + outcome.error)
                          .with_field("argv")
                    : command_error("runsc exec", outcome));
  }
  output.exit_code = outcome.exit_code;
  return output;
}

}  // namespace

async::Task<Result<ExecOutput>> exec_in(GuestPtr guest, ExecPlan plan) {
  Services& services = guest->services;
  if (guest->ended.is_set() || guest->killing) {
    co_return fail(Errc::StateConflict, "the actor has ended: " + describe_end(*guest));
  }
  auto exec = std::make_shared<Exec>(services.context);
  ATE_CO_ASSIGN(exec->container, find_container(*guest, plan.container));
  if (exec->container->state != ContainerView::State::Running) {
    co_return fail(Errc::StateConflict, "container " + exec->container->name + " does not run");
  }
  if (guest->execs.size() >= kExecsAtOnce) {
    co_return fail(Error(Errc::TooManyRequests,
                         std::to_string(kExecsAtOnce) + " commands run in this actor already")
                       .with("retryAfterSeconds", std::int64_t{1}));
  }
  guest->execs.push_back(exec);
  const ScopeExit leave([guest, exec]() {
    std::erase(guest->execs, exec);
    clear_files(*exec);
  });
  const std::int64_t number = guest->exec_number++;
  auto job = [guest, exec, plan, number]() { return prepare(*guest, *exec, plan, number); };
  const Status prepared = co_await async::run_blocking(services.context, job);
  ATE_CO_TRY(prepared);
  if (failpoint("gvisor-exec")) {
    co_return fail(Errc::RuntimeFailed, "failpoint gvisor-exec");
  }
  if (!services.watchers.spawn("exec", run_command(guest, exec, plan.timeout + 2 * kAfterKill))) {
    co_return fail(Errc::Unavailable, "the daemon is stopping");
  }
  const Result<bool> finished =
      co_await async::with_deadline(plan.timeout, "the command", read_all(exec, plan.output_limit));
  const bool timed_out = !finished && !exec->done.is_set();
  if (timed_out) {
    const std::int64_t pid = started_pid(*exec);
    if (pid > 0) {
      const Status killed =
          co_await kill_process_tree(core::runsc_control_socket(guest->layout.directory),
                                     exec->container->id, pid, others_of(*guest, exec));
      static_cast<void>(killed);  // IGNORED: the deadline of the command is behind it
    }
    const Result<bool> rest = co_await async::with_deadline(kAfterKill, "the end of the command",
                                                            read_all(exec, plan.output_limit));
    static_cast<void>(rest);  // IGNORED: what can't be killed is told as timed out all the same
  }
  if (runsc_failed(*exec) && started_pid(*exec) != 0) {
    // Mostly for want of a sandbox, of which we are just about to hear.
    constexpr std::chrono::seconds kHeard(1);
    const bool ended = co_await guest->ended.wait_for(kHeard);
    static_cast<void>(ended);  // result_of looks at it
  }
  co_return result_of(*guest, *exec, timed_out);
}

}  // namespace ate::runtime::gvisor
