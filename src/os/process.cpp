#include "ate/os/process.hpp"

#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <string_view>

#include "ate/util/scope_exit.hpp"
#include "os/spawn_child.hpp"

namespace ate::os {

namespace {

constexpr std::size_t kStackBytes = 64 * 1024;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::uint64_t kClearSighand = 0x100000000ULL;  // CLONE_CLEAR_SIGHAND
constexpr std::uint64_t kIntoCgroup = 0x200000000ULL;    // CLONE_INTO_CGROUP

/// The child's stack, with a page below it that faults.
class ChildStack {
 public:
  ChildStack()
      : base_(::mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0)) {
    if (base_ != MAP_FAILED) {
      static_cast<void>(::mprotect(base_, kGuardBytes, PROT_NONE));
    }
  }

  ~ChildStack() {
    if (base_ != MAP_FAILED) {
      static_cast<void>(::munmap(base_, kStackBytes + kGuardBytes));
    }
  }

  ChildStack(const ChildStack&) = delete;
  ChildStack& operator=(const ChildStack&) = delete;
  ChildStack(ChildStack&&) = delete;
  ChildStack& operator=(ChildStack&&) = delete;

  [[nodiscard]] bool ok() const { return base_ != MAP_FAILED; }

  [[nodiscard]] std::uint64_t usable() const {
    return reinterpret_cast<std::uint64_t>(base_) + kGuardBytes;
  }

 private:
  void* base_;
};

/// clone3 whose child calls `run(argument)` on the stack in `args`. Negative errno on failure.
/// SAFETY: a C function can't return twice on two stacks, hence the assembler; the child never
/// comes out of it. With CLONE_VFORK this thread is suspended until the child execs or exits.
long clone_on_stack(clone_args* args, void (*run)(void*), void* argument) {
#if defined(__x86_64__)
  long result = SYS_clone3;  // NOLINT(misc-const-correctness): the assembler writes it
  register void (*run_register)(void*) __asm__("r8") = run;
  register void* argument_register __asm__("r9") = argument;
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r9, %%rdi\n\t"
      "call *%%r8\n\t"
      "ud2\n\t"
      "1:"
      : "+a"(result)
      : "D"(args), "S"(sizeof(clone_args)), "r"(run_register), "r"(argument_register)
      : "rcx", "r11", "memory", "cc");
  return result;
#elif defined(__aarch64__)
  register long result __asm__("x0") = reinterpret_cast<long>(args);
  register unsigned long size __asm__("x1") = sizeof(clone_args);
  register long number __asm__("x8") = SYS_clone3;
  register void (*run_register)(void*) __asm__("x9") = run;
  register void* argument_register __asm__("x10") = argument;
  __asm__ volatile(
      "svc 0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x10\n\t"
      "blr x9\n\t"
      "brk 1\n\t"
      "1:"
      : "+r"(result)
      : "r"(size), "r"(number), "r"(run_register), "r"(argument_register)
      : "memory", "cc");
  return result;
#else
#error "os::spawn: no clone3 entry for this architecture"
#endif
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    // SAFETY: execve takes char* but writes nothing.
    out.push_back(const_cast<char*>(text.c_str()));
  }
  out.push_back(nullptr);
  return out;
}

const char* step_text(SpawnStep step) {
  switch (step) {
    case SpawnStep::Started:
      return "start";
    case SpawnStep::Session:
      return "make a session for";
    case SpawnStep::ParentDeath:
      return "tie to its parent";
    case SpawnStep::Network:
      return "enter the network namespace for";
    case SpawnStep::Descriptors:
      return "pass descriptors to";
    case SpawnStep::WorkingDirectory:
      return "enter the working directory for";
    case SpawnStep::Capabilities:
      return "drop CAP_CHOWN for";
    case SpawnStep::Exec:
      return "execute";
  }
  return "start";
}

struct Cloned {
  pid_t pid = 0;
  UniqueFd pidfd;
};

Result<Cloned> clone_child(const SpawnPlan& plan, ChildPlan& child) {
  const ChildStack stack;
  if (!stack.ok()) {
    return fail(Error::from_errno("start " + plan.executable, errno));
  }
  int pidfd = -1;
  clone_args args{};
  args.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | kClearSighand;
  args.exit_signal = SIGCHLD;
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  args.stack = stack.usable();
  args.stack_size = kStackBytes;
  if (plan.cgroup_fd >= 0) {
    args.flags |= kIntoCgroup;
    args.cgroup = static_cast<std::uint64_t>(plan.cgroup_fd);
  }
  // No signal may be taken by the child before it has reset its dispositions.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const long pid = clone_on_stack(&args, run_child, &child);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return fail(Error::from_errno(
        "start " + plan.executable + (plan.cgroup_fd >= 0 ? " in its cgroup" : ""),
        static_cast<int>(-pid)));
  }
  Cloned cloned;
  cloned.pid = static_cast<pid_t>(pid);
  cloned.pidfd = UniqueFd(std::move(pidfd));
  return cloned;
}

Result<Process> spawn_once(const SpawnPlan& plan, ChildPlan child) {
  child.parent = ::getpid();
  ATE_ASSIGN(Cloned cloned, clone_child(plan, child));
  if (child.error != 0) {
    siginfo_t info{};
    // IGNORED: the reaper may have been quicker.
    static_cast<void>(::waitid(P_PIDFD, static_cast<id_t>(cloned.pidfd.get()), &info, WEXITED));
    return fail(
        Error::from_errno(std::string(step_text(child.step)) + " " + plan.executable, child.error));
  }
  Process process;
  process.id.pid = cloned.pid;
  process.pidfd = std::move(cloned.pidfd);
  // Unknown (0) only when it has ended and been reaped already: then there is nothing to identify.
  const Result<std::uint64_t> start_time = process_start_time(cloned.pid);
  process.id.start_time = start_time ? *start_time : 0;
  return process;
}

}  // namespace

Result<Process> spawn(const SpawnPlan& plan) {
  std::vector<char*> argv = pointers(plan.argv);
  std::vector<char*> env = pointers(plan.env);
  std::vector<int> moved(plan.fds.size(), -1);
  const UniqueFd null_fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_fd) {
    return fail(Error::from_errno("open /dev/null", errno));
  }
  ChildPlan child;
  child.executable = plan.executable.c_str();
  child.argv = argv.data();
  child.env = env.data();
  child.working_dir = plan.working_dir.empty() ? "/" : plan.working_dir.c_str();
  child.fds = plan.fds.data();
  child.moved = moved.data();
  child.count = plan.fds.size();
  for (const auto& [ours, number] : plan.fds) {
    child.scratch_base = std::max(child.scratch_base, number + 1);
  }
  child.null_fd = null_fd.get();
  child.netns_fd = plan.netns_fd;
  child.drop_chown = plan.drop_chown;
  child.new_session = plan.new_session;
  child.die_with_parent = plan.die_with_parent;

  // A file that was just written can't be executed while a child of another thread, between its
  // clone and its exec, still holds the writer's descriptor (ETXTBSY); that lasts a moment.
  constexpr int kBusyTries = 20;
  constexpr timespec kBusyPause{0, 2'000'000};
  for (int attempt = 1;; ++attempt) {
    Result<Process> process = spawn_once(plan, child);
    if (process || process.error().sys_errno() != ETXTBSY || attempt == kBusyTries) {
      return process;
    }
    static_cast<void>(::nanosleep(&kBusyPause, nullptr));  // lint: bounded: ETXTBSY has no event
  }
}

Result<std::uint64_t> process_start_time(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> buffer{};
  const ssize_t got = file ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  if (got <= 0) {
    return fail(Error(Errc::NotFound, "no process " + std::to_string(pid)));
  }
  const std::string_view text(buffer.data(), static_cast<std::size_t>(got));
  // Field 2 is the name in parentheses and may hold anything, parentheses too: count from the last.
  std::size_t at = text.rfind(')');
  for (int field = 2; field < 22 && at != std::string_view::npos; ++field) {
    at = text.find(' ', at + 1);
  }
  std::uint64_t value = 0;
  if (at == std::string_view::npos ||
      std::from_chars(text.data() + at + 1, text.data() + text.size(), value).ec != std::errc{}) {
    return fail(Error(Errc::Internal, path + ": not understood"));
  }
  return value;
}

Result<UniqueFd> open_process(const ProcessId& id) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, id.pid, 0)));
  if (!pidfd) {
    const Errc code = errno == ESRCH ? Errc::NotFound : Errc::Internal;
    return fail(Error::from_errno("open process " + std::to_string(id.pid), errno, code));
  }
  // Compared after the open: what the pidfd holds can't change any more.
  ATE_ASSIGN(const std::uint64_t start_time, process_start_time(id.pid));
  if (start_time != id.start_time) {
    return fail(Error(Errc::NotFound,
                      "process " + std::to_string(id.pid) + " is another one than the recorded"));
  }
  return pidfd;
}

Status send_signal(const UniqueFd& pidfd, int signal) {
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) != 0 && errno != ESRCH) {
    return fail(Error::from_errno("send signal " + std::to_string(signal), errno));
  }
  return {};
}

}  // namespace ate::os
