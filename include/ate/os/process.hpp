#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::os {

/// What a child is started with. Everything is prepared before clone3: between clone3 and execve
/// only async-signal-safe calls run.
struct SpawnPlan {
  std::string executable;         // absolute path; never looked up in PATH
  std::vector<std::string> argv;  // argv[0] included
  std::vector<std::string> env;   // complete environment, "K=V"
  std::vector<std::pair<int, int>>
      fds;                  // (our fd, number in the child); everything else is closed on exec
  int cgroup_fd = -1;       // O_PATH directory of the cgroup to start in; -1 = ours
  int netns_fd = -1;        // network namespace to enter before exec; -1 = ours
  std::string working_dir;  // empty = "/"
  bool drop_chown = false;  // take CAP_CHOWN out of the bounding set (runsc.md 0.3)
  bool new_session = true;
  bool die_with_parent = false;  // PR_SET_PDEATHSIG SIGKILL: helpers only, never what runs an actor
};

/// Identity of a process that survives a daemon restart: pid alone can be reused.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // /proc/<pid>/stat field 22, clock ticks since boot
  bool operator==(const ProcessId&) const = default;
};

/// A started child. Move-only; its destructor closes the pidfd and never kills or waits: reaping is
/// os::Reaper's alone.
struct Process {
  ProcessId id;
  UniqueFd pidfd;
};

/// clone3(CLONE_PIDFD [| CLONE_INTO_CGROUP] | CLONE_CLEAR_SIGHAND | CLONE_VM | CLONE_VFORK): the
/// calling thread waits until the child has exec'd, at a cost that doesn't grow with our memory.
/// Signal mask and dispositions reset, fd allow-list; a failed exec is an error here, its child is
/// reaped. stdin/stdout/stderr not named in `fds` become /dev/null opened by us (never inherited).
/// A die_with_parent child dies with the calling *thread*.
[[nodiscard]] Result<Process> spawn(const SpawnPlan& plan);

/// Opens a pidfd for `id` after checking the start time; NotFound when that process is gone.
[[nodiscard]] Result<UniqueFd> open_process(const ProcessId& id);
/// Start time of a live pid; NotFound when there is none.
[[nodiscard]] Result<std::uint64_t> process_start_time(pid_t pid);
/// pidfd_send_signal; ok when the process is already gone.
[[nodiscard]] Status send_signal(const UniqueFd& pidfd, int signal);

/// How a process ended.
struct ExitStatus {
  bool known = false;  // false: it was not our child, nobody told us
  int code = 0;        // exit code when !signaled
  int signal = 0;      // terminating signal when != 0
};

}  // namespace ate::os
