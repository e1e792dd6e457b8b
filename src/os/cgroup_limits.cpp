#include "ate/os/cgroup_limits.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "ate/os/fs.hpp"

namespace ate::os {

namespace {

constexpr std::size_t kLimitFileBytes = 4096;

/// cgroup v2; the first three are its alone.
constexpr std::array<const char*, 7> kFilesV2{"memory.max",     "cpu.max",  "cpuset.cpus.effective",
                                              "memory.high",    "pids.max", "hugetlb.2MB.max",
                                              "hugetlb.1GB.max"};
constexpr std::size_t kOnlyV2 = 3;
/// v1, where "pids.max" is the same; a quota without its period says nothing.
constexpr std::array<const char*, 7> kFilesV1{
    "memory.limit_in_bytes",     "cpu.cfs_quota_us", "cpu.cfs_period_us",
    "cpuset.effective_cpus",     "cpuset.cpus",      "hugetlb.2MB.limit_in_bytes",
    "hugetlb.1GB.limit_in_bytes"};

/// Controllers whose v1 hierarchies are looked at.
constexpr std::array<std::string_view, 5> kControllers{"memory", "cpu", "cpuset", "pids",
                                                       "hugetlb"};

Error gone(const std::string& path) {
  return Error(Errc::NotFound, "cgroup " + path + " is not there (any more)");
}

Result<UniqueFd> open_level(int parent, const std::string& name, const std::string& path) {
  // The mount point itself comes from the kernel's list; below it nothing is followed.
  const int follow = parent == AT_FDCWD ? 0 : O_NOFOLLOW;
  UniqueFd fd(::openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | follow));
  if (!fd) {
    return fail(errno == ENOENT ? gone(path) : Error::from_errno("open cgroup " + path, errno));
  }
  return fd;
}

/// The kernel gives such a file in one piece: no second read to see its end.
Result<std::string> read_once(const UniqueFd& fd, const std::string& file) {
  std::array<char, kLimitFileBytes> buffer;
  ssize_t got = 0;
  do {
    got = ::read(fd.get(), buffer.data(), buffer.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return fail(Error::from_errno("read " + file, errno));
  }
  if (static_cast<std::size_t>(got) == buffer.size()) {
    return fail(Errc::InvalidValue, "read " + file + ": longer than a limit can be");
  }
  return std::string(buffer.data(), static_cast<std::size_t>(got));
}

/// False: this level has no such file.
Result<bool> read_limit(const UniqueFd& level, const std::string& path, const char* name,
                        CgroupLimitFiles& out) {
  const UniqueFd fd(::openat(level.get(), name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && errno == ENOENT) {
    return false;
  }
  std::string file = path + "/" + name;
  if (!fd) {
    return fail(errno == ENODEV ? gone(path) : Error::from_errno("open " + file, errno));
  }
  Result<std::string> text = read_once(fd, file);
  if (!text && text.error().sys_errno() == ENODEV) {
    return fail(gone(path));
  }
  if (!text) {
    return fail(std::move(text).error());
  }
  out.files.emplace_back(std::move(file), std::move(*text));
  return true;
}

Status read_level(const UniqueFd& level, const std::string& path, CgroupLimitFiles& out) {
  bool v2 = false;
  for (std::size_t at = 0; at < kFilesV2.size(); ++at) {
    ATE_ASSIGN(const bool found, read_limit(level, path, kFilesV2[at], out));
    v2 = v2 || (found && at < kOnlyV2);
  }
  for (const char* name : kFilesV1) {
    if (v2) {
      break;
    }
    ATE_TRY(read_limit(level, path, name, out));
  }
  return {};
}

Result<ino_t> inode_of(const UniqueFd& fd, const std::string& path) {
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return fail(Error::from_errno("stat cgroup " + path, errno));
  }
  return info.st_ino;
}

bool is_cgroup(const MountEntry& mount) {
  return mount.fs_type == "cgroup" || mount.fs_type == "cgroup2";
}

/// What of `path` is below `top`; none when it is not at or below it.
std::optional<std::string> below(const std::string& path, const std::string& top) {
  if (top == "/") {
    return path.substr(std::min<std::size_t>(1, path.size()));
  }
  if (path == top) {
    return std::string();
  }
  if (path.starts_with(top + "/")) {
    return path.substr(top.size() + 1);
  }
  return std::nullopt;
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == word) {
      return true;
    }
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return false;
}

/// One line of /proc/<pid>/cgroup: "hierarchy:controllers:path".
struct CgroupLine {
  std::string_view controllers;  // "" = the v2 hierarchy
  std::string path;
};

std::optional<CgroupLine> parse_cgroup_line(std::string_view line) {
  const std::size_t first = line.find(':');
  const std::size_t second = line.find(':', first == std::string_view::npos ? first : first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) {
    return std::nullopt;
  }
  CgroupLine out{line.substr(first + 1, second - first - 1), std::string(line.substr(second + 1))};
  constexpr std::string_view kDeleted = " (deleted)";
  if (out.path.ends_with(kDeleted)) {
    out.path.resize(out.path.size() - kDeleted.size());
  }
  return out;
}

bool is_of(const MountEntry& mount, const CgroupLine& line) {
  if (line.controllers.empty()) {
    return mount.fs_type == "cgroup2";
  }
  return mount.fs_type == "cgroup" &&
         std::ranges::any_of(kControllers, [&](std::string_view controller) {
           return has_word(line.controllers, controller) &&
                  has_word(mount.super_options, controller);
         });
}

}  // namespace

Result<CgroupLimitFiles> read_cgroup_limits(const CgroupPlace& place) {
  CgroupLimitFiles out;
  std::string path = place.mount_point;
  ATE_ASSIGN(UniqueFd level, open_level(AT_FDCWD, path, path));
  ATE_TRY(read_level(level, path, out));
  UniqueFd parent;
  std::string name;
  std::string_view rest = place.relative;
  while (!rest.empty()) {
    const std::size_t slash = rest.find('/');
    name = std::string(rest.substr(0, slash));
    rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
    if (name.empty() || name == "." || name == "..") {
      return fail(Errc::InvalidValue, "not a cgroup below its mount: " + place.relative);
    }
    path += "/" + name;
    parent = std::move(level);
    ATE_ASSIGN(level, open_level(parent.get(), name, path));
    ATE_TRY(read_level(level, path, out));
  }
  ATE_ASSIGN(out.inode, inode_of(level, path));
  if (parent) {
    // A directory that was removed meanwhile has no files. Its ancestors can't go before it.
    ATE_ASSIGN(const UniqueFd again, open_level(parent.get(), name, path));
    ATE_ASSIGN(const ino_t inode, inode_of(again, path));
    if (inode != out.inode) {
      return fail(gone(path));
    }
  }
  return out;
}

std::vector<CgroupPlace> find_cgroup_places(std::string_view cgroup,
                                            const std::vector<MountEntry>& mounts) {
  std::vector<CgroupPlace> places;
  while (!cgroup.empty()) {
    const std::size_t end = cgroup.find('\n');
    const std::optional<CgroupLine> line = parse_cgroup_line(cgroup.substr(0, end));
    cgroup.remove_prefix(end == std::string_view::npos ? cgroup.size() : end + 1);
    if (!line) {
      continue;
    }
    // Of several mounts of one hierarchy the one that shows most of it.
    const MountEntry* best = nullptr;
    for (const MountEntry& mount : mounts) {
      if (is_of(mount, *line) && (best == nullptr || mount.root.size() < best->root.size())) {
        best = &mount;
      }
    }
    if (best != nullptr) {
      // A root outside of what we see ("/../..") leaves the mount itself.
      places.push_back({best->mount_point, below(line->path, best->root).value_or("")});
    }
  }
  return places;
}

Result<CgroupPlace> locate_cgroup(const std::string& directory,
                                  const std::vector<MountEntry>& mounts) {
  const MountEntry* best = nullptr;
  for (const MountEntry& mount : mounts) {
    if (is_cgroup(mount) && below(directory, mount.mount_point) &&
        (best == nullptr || mount.mount_point.size() >= best->mount_point.size())) {
      best = &mount;
    }
  }
  if (best == nullptr) {
    return fail(Errc::NotFound, directory + " is on no cgroup file system");
  }
  return CgroupPlace{best->mount_point, *below(directory, best->mount_point)};
}

}  // namespace ate::os
