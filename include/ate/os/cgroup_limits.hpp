#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ate/os/mount.hpp"
#include "ate/util/result.hpp"

namespace ate::os {

/// Where in a mounted cgroup hierarchy something is. What lies above the mount (a cgroup namespace,
/// a bind-mounted subtree) can't be seen.
struct CgroupPlace {
  std::string mount_point;
  std::string relative;  // below it, no leading slash; "" = the mount itself
};

/// Limit files of a directory and its ancestors, as text: path -> content. Files that a level does
/// not have are left out.
struct CgroupLimitFiles {
  std::vector<std::pair<std::string, std::string>> files;
  ino_t inode = 0;  // of the directory itself: what identifies a cgroup
};

/// Reads memory, cpu, cpuset, pids and hugetlb limits of cgroup v1 and v2 from the mount down to
/// the place. NotFound when the directory is missing or goes away while it is read (its files would
/// look as if nothing limited it); anything else that can't be read is an error naming the file.
[[nodiscard]] Result<CgroupLimitFiles> read_cgroup_limits(const CgroupPlace& place);

/// The places of a process: text of /proc/<pid>/cgroup, and the mounts that this process sees. One
/// per hierarchy that has a controller with limits; hierarchies that are not mounted are left out.
[[nodiscard]] std::vector<CgroupPlace> find_cgroup_places(std::string_view cgroup,
                                                          const std::vector<MountEntry>& mounts);

/// The place of a directory in the innermost cgroup mount that holds it. NotFound: in none.
[[nodiscard]] Result<CgroupPlace> locate_cgroup(const std::string& directory,
                                                const std::vector<MountEntry>& mounts);

}  // namespace ate::os
