// SAFETY: everything in this file runs between clone3 and execve, in memory shared with a parent
// whose other threads go on. Only raw system calls; no allocation, no locks, no library state
// besides errno, which belongs to the one parent thread that is suspended meanwhile. The sanitizers
// are off because their run-time knows nothing of this stack.
#include "os/spawn_child.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#define ATE_CHILD_CODE __attribute__((no_sanitize("address", "undefined")))

namespace ate::os {

namespace {

constexpr int kLastSignal = 64;
constexpr std::size_t kKernelSignalSetBytes = 8;

// The kernel's own layout: glibc's sigaction() may take locks.
struct KernelSigaction {
  void* handler;
  unsigned long flags;
  void* restorer;
  std::uint64_t mask;
};

[[noreturn]] ATE_CHILD_CODE void give_up(ChildPlan& plan, SpawnStep step) {
  plan.error = errno;
  plan.step = step;
  while (true) {
    ::syscall(SYS_exit_group, 127);
  }
}

// CLONE_CLEAR_SIGHAND keeps ignored signals ignored, and so does exec: an ignored SIGPIPE would
// reach the actor.
ATE_CHILD_CODE void reset_signals() {
  KernelSigaction action{nullptr, 0, nullptr, 0};  // SIG_DFL
  for (int number = 1; number <= kLastSignal; ++number) {
    // IGNORED: SIGKILL and SIGSTOP refuse.
    ::syscall(SYS_rt_sigaction, number, &action, nullptr, kKernelSignalSetBytes);
  }
  const std::uint64_t none = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, kKernelSignalSetBytes);
}

// Our own protection from the OOM killer is not for what we start. Only this process: the kernel
// leaves out the other users of the memory of a vfork child.
ATE_CHILD_CODE void reset_oom_score() {
  constexpr char kNeutral = '0';
  const long file =
      ::syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
  if (file >= 0) {
    // IGNORED: lower than what a container gave us needs CAP_SYS_RESOURCE.
    ::syscall(SYS_write, file, &kNeutral, 1);
    ::syscall(SYS_close, file);
  }
}

ATE_CHILD_CODE void place(ChildPlan& plan, int from, int number) {
  if (::syscall(SYS_dup3, from, number, 0) < 0) {
    give_up(plan, SpawnStep::Descriptors);
  }
}

// First all sources out of the way of all targets, then each to its number: so any permutation
// works.
ATE_CHILD_CODE void place_descriptors(ChildPlan& plan) {
  if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) < 0) {
    give_up(plan, SpawnStep::Descriptors);
  }
  for (std::size_t i = 0; i < plan.count; ++i) {
    const long moved = ::syscall(SYS_fcntl, plan.fds[i].first, F_DUPFD_CLOEXEC, plan.scratch_base);
    if (moved < 0) {
      give_up(plan, SpawnStep::Descriptors);
    }
    plan.moved[i] = static_cast<int>(moved);
  }
  const long null_moved = ::syscall(SYS_fcntl, plan.null_fd, F_DUPFD_CLOEXEC, plan.scratch_base);
  if (null_moved < 0) {
    give_up(plan, SpawnStep::Descriptors);
  }
  for (int number = 0; number <= 2; ++number) {
    place(plan, static_cast<int>(null_moved), number);
  }
  for (std::size_t i = 0; i < plan.count; ++i) {
    place(plan, plan.moved[i], plan.fds[i].second);
  }
}

}  // namespace

ATE_CHILD_CODE void run_child(void* opaque) {
  ChildPlan& plan = *static_cast<ChildPlan*>(opaque);
  reset_signals();
  reset_oom_score();
  if (plan.new_session && ::syscall(SYS_setsid) < 0) {
    give_up(plan, SpawnStep::Session);
  }
  if (plan.die_with_parent) {
    if (::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) {
      give_up(plan, SpawnStep::ParentDeath);
    }
    if (::syscall(SYS_getppid) != plan.parent) {
      errno = ESRCH;  // it died before it could be told to the kernel
      give_up(plan, SpawnStep::ParentDeath);
    }
  }
  if (plan.netns_fd >= 0 && ::syscall(SYS_setns, plan.netns_fd, CLONE_NEWNET) < 0) {
    give_up(plan, SpawnStep::Network);
  }
  place_descriptors(plan);
  if (::syscall(SYS_chdir, plan.working_dir) < 0) {
    give_up(plan, SpawnStep::WorkingDirectory);
  }
  if (plan.drop_chown && ::syscall(SYS_prctl, PR_CAPBSET_DROP, CAP_CHOWN, 0, 0, 0) < 0) {
    give_up(plan, SpawnStep::Capabilities);
  }
  ::syscall(SYS_execve, plan.executable, plan.argv, plan.env);
  give_up(plan, SpawnStep::Exec);
}

}  // namespace ate::os
