#include "daemon/host.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "ate/os/fs.hpp"
#include "ate/os/host_info.hpp"
#include "ate/os/mount.hpp"
#include "daemon/groups.hpp"

namespace ate::daemon {

namespace {

constexpr std::size_t kSocketPathLimit = 107;
constexpr std::size_t kGroupFileLimit = 4UL << 20;
constexpr std::array<std::string_view, 3> kControllers{"cpu", "memory", "pids"};
/// Group of the virtual machines' uids: they may pass through our directories to what is theirs.
constexpr std::string_view kVmGroup = "ate-vm";

struct DirectoryPlan {
  std::string path;
  mode_t mode;
  gid_t gid;
};

Status make_directory(const DirectoryPlan& plan) {
  ATE_TRY(os::make_dirs(plan.path, plan.mode));
  struct stat status{};
  if (::lstat(plan.path.c_str(), &status) != 0) {
    return fail(Error::from_errno(plan.path, errno));
  }
  if (!S_ISDIR(status.st_mode)) {
    return fail(Errc::Unavailable, plan.path + " is not a directory");
  }
  if ((status.st_uid != 0 || status.st_gid != plan.gid) &&
      ::lchown(plan.path.c_str(), 0, plan.gid) != 0) {
    return fail(Error::from_errno("chown " + plan.path, errno));
  }
  if ((status.st_mode & 07777U) != plan.mode && ::chmod(plan.path.c_str(), plan.mode) != 0) {
    return fail(Error::from_errno("chmod " + plan.path, errno));
  }
  return {};
}

/// Modes of design.md section 4. The run directory itself is passed through by the API group to
/// reach the socket, so it is 0711; nothing in it can be listed or is writable.
std::vector<DirectoryPlan> directories(const core::Paths& paths, gid_t vm) {
  return {
      {paths.state_dir(), 0710, vm},  {paths.images(), 0710, vm}, {paths.assets(), 0710, vm},
      {paths.snapshots(), 0710, vm},  {paths.actors(), 0710, vm}, {paths.run_dir(), 0711, 0},
      {paths.run_actors(), 0710, vm},
  };
}

Status check_one_filesystem(const core::Paths& paths) {
  for (const std::string& path :
       {paths.images(), paths.assets(), paths.snapshots(), paths.actors()}) {
    ATE_ASSIGN(const bool same, os::is_same_filesystem(paths.state_dir(), path));
    if (!same) {
      return fail(Errc::Unavailable, path + " is on another file system than " + paths.state_dir() +
                                         "; snapshots are put in place by rename, which needs one");
    }
  }
  return {};
}

gid_t group_or_root(const std::string& etc_group, const std::string& name, Host& host) {
  if (const std::optional<gid_t> gid = find_group(etc_group, name)) {
    return *gid;
  }
  host.warnings.push_back("group " + name + " does not exist; root is used instead");
  return 0;
}

Status make_helper_cgroup(Host& host, bool enforced) {
  os::Cgroup::Limits limits;
  if (enforced) {
    limits = {{"memory.max", "1073741824"}, {"pids.max", "64"}};
  }
  ATE_ASSIGN(os::Cgroup helpers, host.cgroup->make_child("helpers", limits));
  host.helpers.emplace(std::move(helpers));
  return {};
}

Status enforce(const Config& config, Host& host) {
  ATE_ASSIGN(os::Cgroup root, open_cgroup_root(config.cgroup_root));
  host.cgroup.emplace(std::move(root));
  host.cgroup_root = config.cgroup_root;
  host.cgroup_detail = "budgets are enforced below " + config.cgroup_root;
  return make_helper_cgroup(host, true);
}

std::string private_mount(const Config& config) {
  return config.run_dir + "/cgroup";
}

/// Membership, kill and CLONE_INTO_CGROUP without budgets; a kernel or container that does not
/// allow even that is no reason not to start.
Status use_private_tree(const Config& config, Host& host) {
  const std::string mount = private_mount(config);
  ATE_TRY(os::mount_private_cgroup2(mount));
  ATE_ASSIGN(const os::Cgroup top, os::Cgroup::open(mount));
  ATE_ASSIGN(os::Cgroup ours, top.make_child(private_cgroup_name(config.state_dir), {}));
  host.cgroup.emplace(std::move(ours));
  host.cgroup_root = host.cgroup->path();
  return make_helper_cgroup(host, false);
}

void membership_only(const Config& config, Host& host) {
  const Status made = use_private_tree(config, host);
  if (made) {
    host.cgroup_detail = "NOT ENFORCED: no budget holds; cgroups serve membership and kill only";
    return;
  }
  host.cgroup.reset();
  host.helpers.reset();
  host.cgroup_root.clear();
  host.cgroup_detail =
      "NOT ENFORCED: no budget holds and no cgroup can be had: " + made.error().message();
}

}  // namespace

std::string private_cgroup_name(std::string_view state_dir) {
  std::uint32_t hash = 2166136261U;  // FNV-1a: the same in every build
  for (const char c : state_dir) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return fmt::format("ate-{:08x}", hash);
}

Result<os::Cgroup> open_cgroup_root(const std::string& path) {
  const std::string advice = " (or set spec.enforcement: off, without budgets)";
  Result<os::Cgroup> root = os::Cgroup::open(path);
  if (!root) {
    return fail(Errc::Unavailable, "spec.cgroupRoot " + path + ": " + root.error().message() +
                                       "; create it under the cgroup v2 mount" + advice);
  }
  ATE_ASSIGN(const bool v2, os::is_cgroup2(path));
  if (!v2) {
    return fail(Errc::Unavailable,
                "spec.cgroupRoot " + path + " is not on a cgroup v2 file system" + advice);
  }
  ATE_ASSIGN(const std::vector<std::string> offered, root->controllers());
  std::string missing;
  for (const std::string_view name : kControllers) {
    if (std::find(offered.begin(), offered.end(), name) == offered.end()) {
      missing += (missing.empty() ? "" : ", ") + std::string(name);
    }
  }
  if (!missing.empty()) {
    return fail(Errc::Unavailable, "spec.cgroupRoot " + path + " does not offer " + missing +
                                       "; enable them in its parent's cgroup.subtree_control" +
                                       advice);
  }
  ATE_ASSIGN(const std::vector<pid_t> processes, root->processes());
  if (!processes.empty()) {
    return fail(Errc::Unavailable, fmt::format("spec.cgroupRoot {} holds processes (pid {}); with "
                                               "them in it the kernel gives children no "
                                               "controllers",
                                               path, processes.front()));
  }
  const Status enabled = root->enable({kControllers.begin(), kControllers.end()});
  if (!enabled) {
    return fail(Errc::Unavailable, "spec.cgroupRoot: " + enabled.error().message() + advice);
  }
  return root;
}

Result<Host> prepare_host(const Config& config, const core::Paths& paths) {
  Host host;
  if (::geteuid() != 0) {
    return fail(Errc::Unavailable, "ate-noded must run as root");
  }
  if (config.socket.size() > kSocketPathLimit) {
    return fail(Errc::InvalidValue,
                fmt::format("spec.listen.socket is {} bytes long; a unix socket "
                            "path has at most {}",
                            config.socket.size(), kSocketPathLimit));
  }
  ATE_TRY(paths.check_lengths());
  const std::string groups = os::read_file("/etc/group", kGroupFileLimit).value_or("");
  host.socket_gid = group_or_root(groups, config.socket_group, host);
  const gid_t vm = group_or_root(groups, std::string(kVmGroup), host);
  for (const DirectoryPlan& plan : directories(paths, vm)) {
    ATE_TRY(make_directory(plan));
  }
  ATE_TRY(check_one_filesystem(paths));
  ATE_ASSIGN(const os::HostInfo info, os::read_host_info("/proc"));
  host.boot_id = info.boot_id;
  host.capacity = {static_cast<std::int64_t>(info.memory_total_bytes), config.host_reserve_bytes,
                   static_cast<std::int64_t>(info.cpu_count)};
  if (info.pivot_root_obstacle) {
    host.warnings.push_back("runsc can't run here: " + *info.pivot_root_obstacle);
  }
  if (config.enforcement) {
    ATE_TRY(enforce(config, host));
  } else {
    membership_only(config, host);
  }
  return host;
}

void release_host(const Config& config, Host& host) {
  if (config.enforcement || !host.cgroup) {
    return;
  }
  if (host.helpers) {
    // IGNORED: removed by the next one who can.
    static_cast<void>(host.helpers->remove());
  }
  const Result<bool> populated = host.cgroup->populated();
  if (!populated || *populated || !host.cgroup->remove()) {
    return;  // actors run: all of it stays
  }
  host.cgroup.reset();
  host.helpers.reset();
  // IGNORED: the next start mounts over or uses what is there.
  static_cast<void>(os::unmount_detach(private_mount(config)));
  static_cast<void>(::rmdir(private_mount(config).c_str()));
}

}  // namespace ate::daemon
