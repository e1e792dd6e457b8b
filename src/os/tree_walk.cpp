#include "os/tree_walk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "ate/os/fs.hpp"

namespace ate::os {

namespace {

// Directories remembered per reading of a directory that is being consumed; the rest is found by
// reading it again.
constexpr std::size_t kBatch = 4096;

struct Level {
  std::string name;
  dev_t device = 0;
  ino_t inode = 0;
  std::vector<std::string> pending;  // directories in it still to be visited
  bool complete = true;              // all of it was read
};

Result<UniqueFd> enter(int dir, const std::string& name) {
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
  UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, dir, name.c_str(), &how, sizeof how)));
  if (!fd && errno == EXDEV) {
    return fail(Error(Errc::InUse, "something is mounted at " + name, EBUSY));
  }
  if (!fd) {
    return fail(Error::from_errno("open " + name, errno));
  }
  return fd;
}

Status identify(const UniqueFd& fd, Level& level) {
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return fail(Error::from_errno("stat " + level.name, errno));
  }
  level.device = info.st_dev;
  level.inode = info.st_ino;
  return {};
}

Result<UniqueFd> go_up(const UniqueFd& from, const Level& expected) {
  UniqueFd fd(::openat(from.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    return fail(Error::from_errno("open the parent of a directory", errno));
  }
  if (info.st_dev != expected.device || info.st_ino != expected.inode) {
    return fail(Errc::Internal, "a directory was moved while its tree was walked");
  }
  return fd;
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

Status visit_entry(int dir, const dirent& entry, Level& level, TreeWalk::Visitor& visitor) {
  if (std::strcmp(entry.d_name, ".") == 0 || std::strcmp(entry.d_name, "..") == 0) {
    return {};
  }
  ATE_ASSIGN(const bool directory, is_directory(dir, entry));
  if (!directory) {
    return visitor.file(dir, entry.d_name);
  }
  ATE_ASSIGN(const bool skipped, visitor.skip_dir(dir, entry.d_name));
  if (!skipped) {
    level.pending.emplace_back(entry.d_name);
  }
  return {};
}

Status read_level(const UniqueFd& fd, Level& level, TreeWalk::Visitor& visitor) {
  // A second opening: closedir closes what it reads from, and the offset must be its own.
  UniqueFd again(::openat(fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* opened = again ? ::fdopendir(again.get()) : nullptr;
  if (opened == nullptr) {
    return fail(Error::from_errno("read " + level.name, errno));
  }
  static_cast<void>(again.release());
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opened,
                                                   [](DIR* dir) { return ::closedir(dir); });
  const std::size_t limit = visitor.consumes() ? kBatch : std::numeric_limits<std::size_t>::max();
  level.complete = true;
  errno = 0;
  for (const dirent* entry = ::readdir(opened); entry != nullptr; entry = ::readdir(opened)) {
    ATE_TRY(visit_entry(fd.get(), *entry, level, visitor));
    if (level.pending.size() >= limit) {
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

}  // namespace

Status TreeWalk::run(UniqueFd parent, const std::string& name, Visitor& visitor) {
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
      Result<UniqueFd> entered = enter(current.get(), below.name);
      if (!entered && entered.error().sys_errno() == ENOENT && visitor.consumes()) {
        continue;  // somebody else removed it
      }
      ATE_ASSIGN(UniqueFd child, std::move(entered));
      ATE_TRY(identify(child, below));
      ATE_TRY(read_level(child, below, visitor));
      levels.push_back(std::move(below));
      current = std::move(child);
      continue;
    }
    if (levels.size() == 1) {
      return {};
    }
    if (!top.complete) {
      ATE_TRY(read_level(current, top, visitor));
      continue;
    }
    ATE_ASSIGN(UniqueFd above, go_up(current, levels[levels.size() - 2]));
    const std::string left = std::move(top.name);
    levels.pop_back();
    ATE_TRY(visitor.leave_dir(above.get(), left));
    current = std::move(above);
  }
}

namespace {

class Remover final : public TreeWalk::Visitor {
 public:
  Status file(int dir, const std::string& name) override { return unlink(dir, name, 0); }

  Result<bool> skip_dir(int dir, const std::string& name) override {
    if (::unlinkat(dir, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
      return true;
    }
    if (errno == ENOTEMPTY || errno == EEXIST) {
      return false;
    }
    return fail(refused(name, errno));
  }

  Status leave_dir(int dir, const std::string& name) override {
    return unlink(dir, name, AT_REMOVEDIR);
  }

  [[nodiscard]] bool consumes() const override { return true; }

 private:
  static Error refused(const std::string& name, int err) {
    return Error::from_errno("remove " + name, err, err == EBUSY ? Errc::InUse : Errc::Internal);
  }

  static Status unlink(int dir, const std::string& name, int flags) {
    if (::unlinkat(dir, name.c_str(), flags) != 0 && errno != ENOENT) {
      return fail(refused(name, errno));
    }
    return {};
  }
};

class Syncer final : public TreeWalk::Visitor {
 public:
  Status file(int dir, const std::string& name) override {
    struct stat info{};
    if (::fstatat(dir, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail(Error::from_errno("stat " + name, errno));
    }
    return S_ISREG(info.st_mode) ? sync(dir, name, 0) : Status{};
  }

  Result<bool> skip_dir(int /*dir*/, const std::string& /*name*/) override { return false; }

  Status leave_dir(int dir, const std::string& name) override {
    return sync(dir, name, O_DIRECTORY);
  }

  [[nodiscard]] bool consumes() const override { return false; }

 private:
  static Status sync(int dir, const std::string& name, int flags) {
    const UniqueFd fd(::openat(dir, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | flags));
    if (!fd || ::fsync(fd.get()) != 0) {
      return fail(Error::from_errno("fsync " + name, errno));
    }
    return {};
  }
};

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
    const bool gone = ::unlinkat(dir, name.c_str(), 0) == 0 || errno == ENOENT;
    return gone ? Status{} : fail(Error::from_errno("remove " + name, errno));
  }
  UniqueFd parent(::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent) {
    return fail(Error::from_errno("open the directory of " + name, errno));
  }
  Remover remover;
  return TreeWalk::run(std::move(parent), name, remover);
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

Status fsync_tree(const std::string& given) {
  const std::string path = without_trailing_slashes(given);
  ATE_ASSIGN(UniqueFd parent, open_dir(parent_dir(path)));
  Syncer syncer;
  Status status = TreeWalk::run(std::move(parent), last_name(path), syncer);
  if (!status) {
    return fail(std::move(status).error().context("fsync " + path));
  }
  return {};
}

}  // namespace ate::os
