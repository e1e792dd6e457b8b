#include "image/helper_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "ate/os/fs.hpp"
#include "ate/util/log.hpp"
#include "ate/util/scope_exit.hpp"
#include "image/limits.hpp"

namespace ate::image {

namespace {

/// A file in memory that can't grow: what a child writes to it is bounded by construction.
Result<UniqueFd> make_buffer(std::size_t size) {
  UniqueFd memory(::memfd_create("ate-unpack", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return fail(Error::from_errno("making a buffer for the unpack helper", errno));
  }
  return memory;
}

Result<UniqueFd> make_request(const std::string& text) {
  ATE_ASSIGN(UniqueFd memory, make_buffer(text.size()));
  ATE_TRY(os::write_all(memory.get(), text, "the unpack helper's request"));
  if (::lseek(memory.get(), 0, SEEK_SET) != 0) {
    return fail(Error::from_errno("the unpack helper's request", errno));
  }
  return memory;
}

/// What was written from the start: a buffer that was never written is all NUL.
std::string read_buffer(const UniqueFd& memory) {
  std::string text;
  std::string chunk(std::size_t{64} << 10U, '\0');
  while (true) {
    const ssize_t got =
        ::pread(memory.get(), chunk.data(), chunk.size(), static_cast<off_t>(text.size()));
    if (got <= 0) {
      return text;
    }
    const std::size_t end = std::min(static_cast<std::size_t>(got), chunk.find('\0'));
    text.append(chunk, 0, end);
    if (end < static_cast<std::size_t>(got)) {
      return text;
    }
  }
}

std::string show(const std::string& path) {
  return "'" + escape_text(path, 300) + "'";
}

Result<UniqueFd> open_source(const Reference& reference) {
  const bool archive = reference.transport != Reference::Transport::OciDirectory;
  // O_NONBLOCK: a FIFO must not hold us up. Symlinks are the operator's own, so they are followed.
  UniqueFd source(::open(reference.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
                                                     (archive ? 0 : O_DIRECTORY)));
  if (!source) {
    const int why = errno;
    if (why == ENOTDIR && !archive) {
      return fail(Errc::ImageInvalid,
                  show(reference.path) + " is not a directory; for a file use oci-archive:");
    }
    return fail(Error::from_errno("opening " + show(reference.path), why, Errc::ImageInvalid));
  }
  struct stat info{};
  if (::fstat(source.get(), &info) != 0) {
    return fail(Error::from_errno("looking at " + show(reference.path), errno));
  }
  if (archive && !S_ISREG(info.st_mode)) {
    return fail(Errc::ImageInvalid,
                show(reference.path) + " is not a file" +
                    (S_ISDIR(info.st_mode) ? "; for a directory use oci:" : ""));
  }
  return source;
}

std::vector<std::string> helper_environment() {
  std::vector<std::string> environment;
#ifdef ATE_FAILPOINTS
  if (const char* armed = std::getenv("ATE_FAILPOINT"); armed != nullptr) {
    environment.push_back(std::string("ATE_FAILPOINT=") + armed);
  }
#endif
  return environment;
}

Result<os::Process> start(const HelperOptions& options, const HelperJob& job) {
  os::SpawnPlan plan;
  plan.executable = options.executable;
  plan.argv = {"ate-noded", "unpack-helper"};
  plan.env = helper_environment();
  plan.fds = {{job.request.get(), STDIN_FILENO},
              {job.reply.get(), STDOUT_FILENO},
              {job.errors.get(), STDERR_FILENO},
              {job.source.get(), kSourceFd}};
  if (job.destination) {
    plan.fds.emplace_back(job.destination.get(), kDestinationFd);
  }
  plan.cgroup_fd = options.cgroup_fd;
  plan.die_with_parent = true;
  return os::spawn(plan);
}

async::Task<void> wait_for_end(async::Reaper& reaper, pid_t pid,
                               std::shared_ptr<std::optional<async::ChildExit>> out) {
  const async::ChildExit exit = co_await reaper.wait(pid);
  out->emplace(exit);
}

std::string said(const HelperJob& job) {
  const std::string text = read_buffer(job.errors);
  return text.empty() ? "" : ": " + escape_text(text, 1000);
}

HelperEnd read_end(const HelperJob& job, const async::ChildExit& exit) {
  HelperEnd end;
  if (exit.signal == 0 && exit.code == 0) {
    end.reply = parse_reply(read_buffer(job.reply));
    return end;
  }
  if (exit.signal == 0) {
    end.reply = fail(Errc::Internal,
                     "the unpack helper ended with code " + std::to_string(exit.code) + said(job));
    return end;
  }
  // SIGSYS is a bug of ours and SIGXCPU the limit: neither gets better by trying again.
  end.killed = exit.signal != SIGSYS && exit.signal != SIGXCPU;
  const Errc code = exit.signal == SIGXCPU ? Errc::DeadlineExceeded : Errc::Internal;
  end.reply = fail(
      code, "the unpack helper was killed by signal " + std::to_string(exit.signal) + said(job));
  return end;
}

}  // namespace

Result<std::shared_ptr<HelperJob>> HelperJob::open(const Reference& reference,
                                                   const HelperRequest& request) {
  auto job = std::make_shared<HelperJob>();
  ATE_ASSIGN(job->source, open_source(reference));
  ATE_ASSIGN(job->request, make_request(write_request(request)));
  ATE_ASSIGN(job->reply, make_buffer(kMaxReplyBytes));
  ATE_ASSIGN(job->errors, make_buffer(kMaxHelperErrorBytes));
  return job;
}

async::Task<HelperEnd> run_helper(async::Reaper& reaper, HelperOptions options,
                                  std::shared_ptr<HelperJob> job) {
  HelperEnd end;
  // On this thread: PR_SET_PDEATHSIG is about the thread that started the child, and the pool's
  // threads end before the loop's.
  Result<os::Process> started = start(options, *job);
  if (!started) {
    end.reply = fail(std::move(started).error());
    co_return end;
  }
  job->process = std::move(*started);
  const pid_t pid = job->process->id.pid;
  reaper.watch(pid);
  ScopeExit cancelled([&reaper, job, pid]() {
    // IGNORED: it may have ended already.
    static_cast<void>(os::send_signal(job->process->pidfd, SIGKILL));
    reaper.forget(pid);
  });
  const auto exit = std::make_shared<std::optional<async::ChildExit>>();
  const bool in_time =
      co_await async::finish_within(options.limit, wait_for_end(reaper, pid, exit));
  if (!in_time) {
    static_cast<void>(os::send_signal(job->process->pidfd, SIGKILL));
    // SIGKILL ends a process that is not stuck in the kernel; a stuck one is given up after this.
    constexpr std::chrono::seconds kDying(10);
    const bool gone = co_await async::finish_within(kDying, wait_for_end(reaper, pid, exit));
    end.reply = fail(Errc::DeadlineExceeded, "unpacking took longer than " +
                                                 std::to_string(options.limit.count()) + " s" +
                                                 (gone ? "" : ", and the helper does not end"));
  } else {
    end = read_end(*job, **exit);
  }
  reaper.forget(pid);
  cancelled.dismiss();
  co_return end;
}

void discard(const HelperJob& job) {
  if (job.process) {
    constexpr int kKilledWithinMs = 10'000;
    pollfd ended{job.process->pidfd.get(), POLLIN, 0};
    // IGNORED: whatever poll says, what can be removed is removed, and the next start does the
    // rest.
    static_cast<void>(::poll(&ended, 1, kKilledWithinMs));
  }
  if (!job.temporary.empty()) {
    // IGNORED: as above.
    static_cast<void>(os::remove_tree(job.temporary));
  }
}

}  // namespace ate::image
