#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "ate/async/task.hpp"

/// Finding and ending the processes of an incarnation on hosts without any cgroup2 file system.
namespace ate::runtime::gvisor {

/// Live processes whose command line carries `--root=<directory>`: the sandbox, its gofer, runsc
/// commands on it. A reused pid can't be mistaken: the directory is of one incarnation only.
[[nodiscard]] std::vector<pid_t> processes_by_root(const std::string& directory);
/// SIGKILL to all of them.
[[nodiscard]] Status kill_by_root(const std::string& directory);
/// Until none of them is left (a zombie counts as gone). Bounded by the caller.
[[nodiscard]] async::Task<Status> wait_by_root(std::string directory);

}  // namespace ate::runtime::gvisor
