#include "image/confine.hpp"

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

#include "image/limits.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ATE_IMAGE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ATE_IMAGE_ASAN 1
#endif

namespace ate::image {

namespace {

#ifdef ATE_IMAGE_ASAN
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr std::array kKeptCapabilities = {CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,
                                          CAP_FSETID, CAP_MKNOD,        CAP_SETFCAP};

std::unexpected<Error> failed(const std::string& what) {
  return fail(Error::from_errno("confining the unpack helper: " + what, errno));
}

bool has_capability(cap_value_t capability) {
  const std::unique_ptr<std::remove_pointer_t<cap_t>, int (*)(void*)> current(::cap_get_proc(),
                                                                              ::cap_free);
  cap_flag_value_t value = CAP_CLEAR;
  return current != nullptr &&
         ::cap_get_flag(current.get(), capability, CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
}

Result<UniqueFd> clone_mount(int directory, std::uint64_t attributes, const std::string& what) {
  UniqueFd tree(::open_tree(directory, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!tree) {
    return failed("a mount of " + what);
  }
  mount_attr attr{};
  attr.attr_set = attributes;
  // A copy of a shared mount is shared (systemd shares all): nothing can be pivoted with one.
  attr.propagation = MS_PRIVATE;
  if (::mount_setattr(tree.get(), "", AT_EMPTY_PATH, &attr, sizeof attr) != 0) {
    return failed("the mount flags of " + what);
  }
  return tree;
}

// Root of this process := the detached mount `mount`. `in_chroot`: our root is no mount point and
// cannot be pivoted; nothing is attached then, for "/" could not be made private and the mount
// would appear on the host.
Status change_root(int mount, bool in_chroot) {
  if (::fchdir(mount) != 0) {
    return failed("entering the destination");
  }
  if (in_chroot) {
    if (::chroot(".") != 0) {
      return failed("chroot");
    }
    return {};
  }
  if (::move_mount(mount, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return failed("attaching the destination");
  }
  // Old and new root end up stacked on one point; then the old one, the upper, is let go.
  if (::syscall(SYS_pivot_root, ".", ".") != 0 || ::umount2(".", MNT_DETACH) != 0) {
    return failed("leaving the old root");
  }
  return {};
}

// An empty root for a helper that writes nothing.
Status enter_empty_root() {
  const UniqueFd context(::fsopen("tmpfs", FSOPEN_CLOEXEC));
  if (!context || ::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return failed("an empty root");
  }
  const UniqueFd mount(
      ::fsmount(context.get(), FSMOUNT_CLOEXEC,
                MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC));
  if (!mount || ::fchdir(mount.get()) != 0 || ::chroot(".") != 0) {
    return failed("entering an empty root");
  }
  return {};
}

// A descriptor of a directory is a way out of any root by "..", unless it is the root of a mount
// without a parent. Made before unshare: only mounts of our own namespace may be cloned.
Status detach(ConfineRequest& request) {
  constexpr std::uint64_t kInert = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  if (request.source_is_directory) {
    ATE_ASSIGN(UniqueFd source,
               clone_mount(request.source.get(), kInert | MOUNT_ATTR_RDONLY, "the image"));
    request.source = std::move(source);
  }
  if (request.destination) {
    ATE_ASSIGN(UniqueFd destination,
               clone_mount(request.destination.get(), kInert, "the destination"));
    request.destination = std::move(destination);
  }
  return {};
}

Status leave_namespaces(ConfineRequest& request) {
  ATE_TRY(detach(request));
  if (::unshare(CLONE_NEWNS | CLONE_NEWNET) != 0) {
    return failed("unshare");
  }
  bool in_chroot = false;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    in_chroot = errno == EINVAL;
    if (!in_chroot) {
      return failed("private mounts");
    }
  }
  if (!request.destination) {
    return enter_empty_root();
  }
  ATE_TRY(change_root(request.destination.get(), in_chroot));
  request.destination = UniqueFd(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!request.destination) {
    return failed("opening the new root");
  }
  return {};
}

Status drop_capabilities() {
  const bool may_bound = has_capability(CAP_SETPCAP);
  for (int capability = 0; may_bound && capability <= CAP_LAST_CAP; ++capability) {
    bool kept = false;
    for (const cap_value_t wanted : kKeptCapabilities) {
      kept = kept || wanted == capability;
    }
    // EINVAL: a kernel that does not know this one yet.
    if (!kept && ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL) {
      return failed("the bounding set");
    }
  }
  const std::unique_ptr<std::remove_pointer_t<cap_t>, int (*)(void*)> wanted(::cap_init(),
                                                                             ::cap_free);
  if (wanted == nullptr) {
    return failed("capabilities");
  }
  for (const cap_value_t capability : kKeptCapabilities) {
    if (!has_capability(capability)) {
      continue;  // a container that gave us less
    }
    for (const cap_flag_t flag : {CAP_PERMITTED, CAP_EFFECTIVE}) {
      if (::cap_set_flag(wanted.get(), flag, 1, &capability, CAP_SET) != 0) {
        return failed("capabilities");
      }
    }
  }
  if (::cap_set_proc(wanted.get()) != 0) {
    return failed("capabilities");
  }
  // IGNORED: empty already on all but odd systems, and of no use without execve.
  static_cast<void>(::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
  return {};
}

Status limit(__rlimit_resource_t resource, std::uint64_t value, const char* what) {
  rlimit wanted{};
  if (::getrlimit(resource, &wanted) != 0) {
    return failed(what);
  }
  wanted.rlim_cur = std::min<rlim_t>(value, wanted.rlim_max);
  wanted.rlim_max = wanted.rlim_cur;
  if (::setrlimit(resource, &wanted) != 0) {
    return failed(what);
  }
  return {};
}

Status limit_resources(std::uint64_t cpu_seconds) {
  if (!kSanitized) {
    ATE_TRY(limit(RLIMIT_AS, kHelperAddressSpace, "memory"));
  }
  ATE_TRY(limit(RLIMIT_CPU, cpu_seconds, "CPU time"));
  ATE_TRY(limit(RLIMIT_FSIZE, kMaxFileBytes, "file size"));
  ATE_TRY(limit(RLIMIT_NOFILE, 1024, "descriptors"));
  ATE_TRY(limit(RLIMIT_NPROC, 0, "processes"));
  ATE_TRY(limit(RLIMIT_CORE, 0, "core files"));
  // Too large a file is then an error with a name instead of a signal.
  if (::signal(SIGXFSZ, SIG_IGN) == SIG_ERR) {
    return failed("SIGXFSZ");
  }
  return {};
}

// What is left: file verbs on descriptors we have, memory, time, the end. No socket, no execve, no
// clone, no mount, no ptrace, no keyring, no bpf, no ioctl.
constexpr std::array kAllowed = {
    // reading and writing
    SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(readv), SCMP_SYS(write), SCMP_SYS(pwrite64),
    SCMP_SYS(writev), SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(ftruncate), SCMP_SYS(fallocate),
    SCMP_SYS(fsync), SCMP_SYS(syncfs),
    // names
    SCMP_SYS(openat2), SCMP_SYS(openat), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(statx),
    SCMP_SYS(getdents64), SCMP_SYS(readlinkat), SCMP_SYS(mkdirat), SCMP_SYS(mknodat),
    SCMP_SYS(linkat), SCMP_SYS(symlinkat), SCMP_SYS(unlinkat), SCMP_SYS(fcntl),
    // metadata
    SCMP_SYS(fchown), SCMP_SYS(fchownat), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(utimensat),
    SCMP_SYS(fsetxattr),
    // memory
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
    // time, chance, identity, the end
    SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(getrandom), SCMP_SYS(getpid),
    SCMP_SYS(gettid), SCMP_SYS(tgkill), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(sched_yield), SCMP_SYS(restart_syscall), SCMP_SYS(exit),
    SCMP_SYS(exit_group)};

Status allow(scmp_filter_ctx filter, int call) {
  if (const int error = ::seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0); error != 0) {
    errno = -error;
    return failed("a system call rule");
  }
  return {};
}

Status add_rules(scmp_filter_ctx filter) {
  for (const int call : kAllowed) {
    ATE_TRY(allow(filter, call));
  }
  if (kSanitized) {
    // How they find out whether memory can be read, and where the stack ends.
    for (const int call : {SCMP_SYS(pipe), SCMP_SYS(pipe2), SCMP_SYS(sigaltstack)}) {
      ATE_TRY(allow(filter, call));
    }
  }
  // Memory, but never memory that can be executed.
  const std::array<scmp_arg_cmp, 1> not_executable = {
      scmp_arg_cmp{2, SCMP_CMP_MASKED_EQ, scmp_datum_t{PROT_EXEC}, 0}};
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)}) {
    const int error = ::seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, not_executable.size(),
                                               not_executable.data());
    if (error != 0) {
      errno = -error;
      return failed("a system call rule");
    }
  }
  return {};
}

Status filter_system_calls() {
  // A sanitizer's own calls differ by version; there they get an error instead of an end.
  const std::uint32_t otherwise = kSanitized ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_KILL_PROCESS;
  const std::unique_ptr<void, void (*)(void*)> filter(::seccomp_init(otherwise), ::seccomp_release);
  if (filter == nullptr) {
    return failed("the system call filter");
  }
  ATE_TRY(add_rules(filter.get()));
  if (const int error = ::seccomp_load(filter.get()); error != 0) {
    errno = -error;
    return failed("loading the system call filter");
  }
  return {};
}

}  // namespace

Result<Confined> confine(ConfineRequest request) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return failed("no_new_privs");
  }
  ::umask(0);
  if (has_capability(CAP_SYS_ADMIN)) {
    ATE_TRY(leave_namespaces(request));
  }
  ATE_TRY(limit_resources(request.cpu_seconds));
  ATE_TRY(drop_capabilities());
  ATE_TRY(filter_system_calls());
  Confined confined;
  confined.source = std::move(request.source);
  confined.destination = std::move(request.destination);
  return confined;
}

}  // namespace ate::image
