#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ate/core/budget.hpp"
#include "ate/core/paths.hpp"
#include "ate/os/cgroup.hpp"
#include "ate/util/result.hpp"
#include "daemon/config.hpp"

namespace ate::daemon {

/// What was found and made on this host before anything runs.
struct Host {
  std::string boot_id;
  core::HostCapacity capacity;
  gid_t socket_gid = 0;
  std::string cgroup_root;            // below which workers live; "" = none can be had
  std::optional<os::Cgroup> cgroup;   // the same, open
  std::optional<os::Cgroup> helpers;  // where unpack helpers are started
  std::string cgroup_detail;          // how cgroups are used, for /readyz and the start line
  std::vector<std::string> warnings;
};

/// Directories with their modes, one file system, socket paths, groups, cgroups. An error is the
/// exact reason not to start.
[[nodiscard]] Result<Host> prepare_host(const Config& config, const core::Paths& paths);

/// With `enforcement: off`: removes our cgroup and the private mount if nothing runs in them.
void release_host(const Config& config, Host& host);

/// Whether `path` can be the root of enforced budgets; the error says what is missing and what to
/// do.
[[nodiscard]] Result<os::Cgroup> open_cgroup_root(const std::string& path);

/// Name of our directory in the host's one v2 hierarchy, different for each state directory.
[[nodiscard]] std::string private_cgroup_name(std::string_view state_dir);

}  // namespace ate::daemon
