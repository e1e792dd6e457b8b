// Removes trees with three descriptors at most, whatever their depth (os/tree_step). Follows no
// symbolic link, enters no mount.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ate/os/fs.hpp"
#include "os/tree_step.hpp"

namespace ate::os {

namespace {

// Directories remembered per reading of a directory; the rest is found by reading it again.
constexpr std::size_t kBatch = 4096;

struct Level {
  std::string name;
  DirectoryId id;
  std::vector<std::string> pending;  // directories in it still to be visited
  bool complete = true;              // all of it was read
};

Status identify(const UniqueFd& fd, Level& level) {
  ATE_ASSIGN(const struct stat info, stat_directory(fd, level.name));
  level.id = {info.st_dev, info.st_ino};
  return {};
}

Result<bool> is_directory(int dir, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) {
    return entry.d_type == DT_DIR;
  }
  struct stat info{};
  if (::fstatat(dir, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return fail(Error::from_errno(std::string("stat ") + entry.d_name, errno));
  }
  return S_ISDIR(info.st_mode);
}

Error refused(const std::string& name, int err) {
  return Error::from_errno("remove " + name, err, err == EBUSY ? Errc::InUse : Errc::Internal);
}

Status unlink(int dir, const std::string& name, int flags) {
  if (::unlinkat(dir, name.c_str(), flags) != 0 && errno != ENOENT) {
    return fail(refused(name, errno));
  }
  return {};
}

/// Whether the directory was empty, and now is gone.
Result<bool> remove_empty(int dir, const std::string& name) {
  if (::unlinkat(dir, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
    return true;
  }
  if (errno == ENOTEMPTY || errno == EEXIST) {
    return false;
  }
  return fail(refused(name, errno));
}

Status visit_entry(int dir, const dirent& entry, Level& level) {
  if (std::strcmp(entry.d_name, ".") == 0 || std::strcmp(entry.d_name, "..") == 0) {
    return {};
  }
  ATE_ASSIGN(const bool directory, is_directory(dir, entry));
  if (!directory) {
    return unlink(dir, entry.d_name, 0);
  }
  ATE_ASSIGN(const bool gone, remove_empty(dir, entry.d_name));
  if (!gone) {
    level.pending.emplace_back(entry.d_name);
  }
  return {};
}

Status read_level(const UniqueFd& fd, Level& level) {
  // A second opening: closedir closes what it reads from, and the offset must be its own.
  UniqueFd again(::openat(fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* opened = again ? ::fdopendir(again.get()) : nullptr;
  if (opened == nullptr) {
    return fail(Error::from_errno("read " + level.name, errno));
  }
  static_cast<void>(again.release());
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opened,
                                                   [](DIR* dir) { return ::closedir(dir); });
  level.complete = true;
  errno = 0;
  for (const dirent* entry = ::readdir(opened); entry != nullptr; entry = ::readdir(opened)) {
    ATE_TRY(visit_entry(fd.get(), *entry, level));
    if (level.pending.size() >= kBatch) {
      level.complete = false;
      return {};
    }
    errno = 0;
  }
  if (errno != 0) {
    return fail(Error::from_errno("read " + level.name, errno));
  }
  return {};
}

/// The directory `name` in `parent` with all that is below.
Status remove_directory(UniqueFd parent, const std::string& name) {
  std::vector<Level> levels(1);
  ATE_TRY(identify(parent, levels[0]));
  levels[0].pending.push_back(name);
  UniqueFd current = std::move(parent);
  while (true) {
    Level& top = levels.back();
    if (!top.pending.empty()) {
      Level below;
      below.name = std::move(top.pending.back());
      top.pending.pop_back();
      Result<UniqueFd> entered = enter_directory(current.get(), below.name);
      if (!entered && entered.error().sys_errno() == ENOENT) {
        continue;  // somebody else removed it
      }
      ATE_ASSIGN(UniqueFd child, std::move(entered));
      ATE_TRY(identify(child, below));
      ATE_TRY(read_level(child, below));
      levels.push_back(std::move(below));
      current = std::move(child);
      continue;
    }
    if (levels.size() == 1) {
      return {};
    }
    if (!top.complete) {
      ATE_TRY(read_level(current, top));
      continue;
    }
    ATE_ASSIGN(UniqueFd above, leave_directory(current, levels[levels.size() - 2].id));
    const std::string left = std::move(top.name);
    levels.pop_back();
    ATE_TRY(unlink(above.get(), left, AT_REMOVEDIR));
    current = std::move(above);
  }
}

std::string last_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  return path;
}

}  // namespace

Status remove_tree_at(int dir, const std::string& name) {
  struct stat info{};
  if (::fstatat(dir, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? Status{} : fail(Error::from_errno("stat " + name, errno));
  }
  if (!S_ISDIR(info.st_mode)) {
    return unlink(dir, name, 0);
  }
  UniqueFd parent(::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent) {
    return fail(Error::from_errno("open the directory of " + name, errno));
  }
  return remove_directory(std::move(parent), name);
}

Status remove_tree(const std::string& given) {
  const std::string path = without_trailing_slashes(given);
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? Status{} : fail(Error::from_errno("stat " + path, errno));
  }
  if (!S_ISDIR(info.st_mode)) {
    return remove_file(path);
  }
  ATE_ASSIGN(const UniqueFd parent, open_dir(parent_dir(path)));
  Status status = remove_tree_at(parent.get(), last_name(path));
  if (!status) {
    return fail(std::move(status).error().context("remove " + path));
  }
  return {};
}

}  // namespace ate::os
