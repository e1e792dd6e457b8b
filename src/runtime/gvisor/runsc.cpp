#include "runtime/gvisor/runsc.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string_view>

#include "ate/os/process.hpp"
#include "ate/util/fd.hpp"
#include "ate/util/log.hpp"

namespace ate::runtime::gvisor {
namespace {

constexpr std::size_t kMessageLimit = 1024;
constexpr std::chrono::seconds kReapAfterKill(10);

/// A file of fixed size in memory that standard output and error share. Sealed against growing: a
/// flood ends in write errors of the flooder, never in memory of ours, and nobody has to read
/// along.
Result<UniqueFd> make_capture(std::size_t limit) {
  UniqueFd fd(::memfd_create("runsc-output", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) {
    return fail(Error::from_errno("memfd_create", errno));
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(limit)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return fail(Error::from_errno("preparing a capture file", errno));
  }
  return fd;
}

std::string read_range(int fd, off_t from, std::size_t count) {
  std::string text(count, '\0');
  std::size_t have = 0;
  while (have < count) {
    const ssize_t got =
        ::pread(fd, text.data() + have, count - have, from + static_cast<off_t>(have));
    if (got <= 0) {
      break;
    }
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

std::string read_capture(const UniqueFd& fd, std::size_t limit) {
  // The offset is shared with the children, so it says how much they wrote.
  const off_t written = ::lseek(fd.get(), 0, SEEK_CUR);
  const std::size_t size = written < 0 ? 0 : std::min(limit, static_cast<std::size_t>(written));
  return read_range(fd.get(), 0, size);
}

off_t file_size(const std::string& path) {
  struct stat info{};
  return path.empty() || ::stat(path.c_str(), &info) != 0 ? 0 : info.st_size;
}

/// What was appended to the log since `from`, at most the newest `limit` bytes.
std::string read_log(const std::string& path, off_t from, std::size_t limit) {
  if (path.empty()) {
    return {};
  }
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0 || info.st_size <= from) {
    return {};
  }
  const off_t start = std::max(from, info.st_size - static_cast<off_t>(limit));
  return read_range(fd.get(), start, static_cast<std::size_t>(info.st_size - start));
}

/// Value of `"msg":"..."` in one line of the JSON log, unescaped as far as a message needs. Not by
/// core::parse_json: the line may be cut off.
std::optional<std::string> log_message(std::string_view line) {
  constexpr std::string_view kKey = "\"msg\":\"";
  const std::size_t key = line.find(kKey);
  if (key == std::string_view::npos) {
    return std::nullopt;
  }
  std::string text;
  for (std::size_t at = key + kKey.size(); at < line.size() && line[at] != '"'; ++at) {
    if (line[at] != '\\' || at + 1 == line.size()) {
      text.push_back(line[at]);
      continue;
    }
    ++at;
    text.push_back(line[at] == 'n' ? '\n' : line[at] == 't' ? '\t' : line[at]);
  }
  return text;
}

std::string_view last_line(std::string_view text) {
  while (!text.empty() && text.back() == '\n') {
    text.remove_suffix(1);
  }
  const std::size_t line = text.rfind('\n');
  return line == std::string_view::npos ? text : text.substr(line + 1);
}

os::SpawnPlan spawn_plan(const Command& command, const UniqueFd& capture) {
  os::SpawnPlan plan;
  plan.executable = command.argv.front();
  plan.argv = command.argv;
  plan.env = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/",
              "LANG=C"};
  plan.cgroup_fd = command.cgroup_fd;
  // runsc gives the files it gets as standard streams to uid 65534, /dev/null's inode included.
  plan.drop_chown = true;
  plan.fds = command.stdio;
  if (plan.fds.empty()) {
    plan.fds = {{capture.get(), STDOUT_FILENO}, {capture.get(), STDERR_FILENO}};
  }
  return plan;
}

async::Task<Result<async::ChildExit>> wait_child(async::Reaper& reaper, pid_t pid) {
  const async::ChildExit exit = co_await reaper.wait(pid);
  co_return exit;
}

}  // namespace

std::string error_text(const std::string& log, const std::string& output) {
  std::optional<std::string> text = log_message(last_line(log));
  if (!text || text->empty()) {
    text = std::string(last_line(output));
  }
  // A panic trace follows the first line; it is in the log file for whoever wants it.
  return escape_text(std::string_view(*text).substr(0, text->find('\n')), kMessageLimit);
}

namespace {

/// The file that a restore looked for in vain, from
/// `failed to walk "x" of type 0100000 in mount "__no_name_0:/data": no such file or directory`.
std::string missing_file(std::string_view error) {
  constexpr std::string_view kBegin = "failed to walk \"";
  constexpr std::string_view kMount = " in mount \"";
  constexpr std::string_view kEnd = "\": no such file or directory";
  const std::size_t begin = error.find(kBegin);
  const std::size_t mount = error.find(kMount, begin);
  const std::size_t end = error.find(kEnd, mount);
  if (begin == std::string_view::npos || mount == std::string_view::npos ||
      end == std::string_view::npos) {
    return {};
  }
  std::string_view name = error.substr(begin + kBegin.size());
  name = name.substr(0, name.find('"'));
  std::string_view place = error.substr(mount + kMount.size(), end - mount - kMount.size());
  place = place.substr(std::min(place.find('/'), place.size()));  // without the file system's name
  return std::string(place) + "/" + std::string(name);
}

}  // namespace

Error command_error(const std::string& what, const Outcome& outcome) {
  if (const std::string file = missing_file(outcome.error); !file.empty()) {
    return Error(Errc::SnapshotIncompatible,
                 "the snapshot has " + file + " open, and the file is not there any more")
        .with("file", file);
  }
  std::string message = what + " failed";
  if (outcome.signal != 0) {
    message += " (killed by signal " + std::to_string(outcome.signal) + ")";
  } else {
    message += " (exit code " + std::to_string(outcome.exit_code) + ")";
  }
  if (!outcome.error.empty()) {
    message += ": " + outcome.error;
  }
  const bool full = outcome.error.find("no space left on device") != std::string::npos ||
                    outcome.error.find("disk quota exceeded") != std::string::npos;
  return Error(full ? Errc::DiskFull : Errc::RuntimeFailed, std::move(message));
}

bool is_transient_restore_failure(const Outcome& outcome) {
  return outcome.error.find("urpc method") != std::string::npos && outcome.error.ends_with("EOF");
}

Runsc::Runsc(async::Context& context, async::Reaper& reaper, std::size_t output_limit)
    : context_(context), reaper_(reaper), output_limit_(output_limit) {}

async::Task<Result<Outcome>> Runsc::run(Command command) {
  UniqueFd capture;
  if (command.stdio.empty()) {
    ATE_CO_ASSIGN(capture, make_capture(output_limit_));
  }
  const off_t log_start = file_size(command.log);
  ATE_CO_ASSIGN(const os::Process process, os::spawn(spawn_plan(command, capture)));
  const pid_t pid = process.id.pid;
  reaper_.watch(pid);
  Result<async::ChildExit> exit =
      co_await async::with_deadline(command.deadline, command.what, wait_child(reaper_, pid));
  if (!exit) {
    // The group is the command's own (new session); a sandbox it started made one for itself and
    // is ended by whoever owns the incarnation.
    static_cast<void>(::kill(-pid, SIGKILL));
    const Result<async::ChildExit> killed =
        co_await async::with_deadline(kReapAfterKill, command.what, wait_child(reaper_, pid));
    static_cast<void>(killed);  // IGNORED: the deadline's error is the one to tell
    reaper_.forget(pid);
    co_return fail(std::move(exit).error());
  }
  reaper_.forget(pid);
  Outcome outcome{.exit_code = exit->code, .signal = exit->signal, .output = {}, .error = {}};
  if (capture) {
    outcome.output = read_capture(capture, output_limit_);
  }
  if (!outcome.ok()) {
    outcome.error = error_text(read_log(command.log, log_start, output_limit_), outcome.output);
  }
  co_return outcome;
}

}  // namespace ate::runtime::gvisor
