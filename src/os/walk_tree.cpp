// Depth first with three descriptors at most (os/tree_step). os/remove_tree takes the same steps
// and needs no order and no attributes.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "ate/os/tree.hpp"
#include "os/tree_step.hpp"

namespace ate::os {

namespace {

// Directories remembered per reading; the rest of a directory is read when they are done.
constexpr std::size_t kBatch = 256;
constexpr std::size_t kEntriesBuffer = std::size_t{32} << 10U;

struct Level {
  DirectoryId id;
  std::vector<std::string> pending;  // directories in it still to be visited
  std::int64_t offset = 0;           // where to read on
  bool complete = false;
};

Status visit(int dir, const std::string& name, Level& level, TreeVisitor& visitor) {
  struct stat info{};
  if (::fstatat(dir, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? Status{} : fail(Error::from_errno("stat " + name, errno));
  }
  if (S_ISDIR(info.st_mode)) {
    level.pending.push_back(name);
    return {};
  }
  return visitor.entry(dir, name, info);
}

/// Reads on in a directory until it ends or the batch is full.
Status read_level(const UniqueFd& fd, Level& level, TreeVisitor& visitor) {
  if (::lseek(fd.get(), level.offset, SEEK_SET) < 0) {
    return fail(Error::from_errno("seek in a directory", errno));
  }
  std::vector<char> buffer(kEntriesBuffer);
  while (level.pending.size() < kBatch) {
    const ssize_t got = ::getdents64(fd.get(), buffer.data(), buffer.size());
    if (got < 0) {
      return fail(Error::from_errno("read a directory", errno));
    }
    if (got == 0) {
      level.complete = true;
      return {};
    }
    for (ssize_t at = 0; at < got;) {
      dirent64 head{};
      std::memcpy(&head, buffer.data() + at, offsetof(dirent64, d_name));
      const std::string name(buffer.data() + at + offsetof(dirent64, d_name));
      level.offset = head.d_off;
      at += head.d_reclen;
      if (name != "." && name != "..") {
        ATE_TRY(visit(fd.get(), name, level, visitor));
      }
    }
  }
  return {};
}

Status descend(const UniqueFd& fd, const std::string& name, std::vector<Level>& levels,
               TreeVisitor& visitor) {
  ATE_ASSIGN(const struct stat info, stat_directory(fd, "a directory"));
  Level level;
  level.id = {info.st_dev, info.st_ino};
  levels.push_back(std::move(level));
  ATE_TRY(visitor.enter(fd.get(), name, info));
  return read_level(fd, levels.back(), visitor);
}

}  // namespace

UniqueFd open_entry(int dir, const std::string& name) {
  return UniqueFd(
      ::openat(dir, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

Status walk_tree(const UniqueFd& top, TreeVisitor& visitor) {
  UniqueFd current(::openat(top.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!current) {
    return fail(Error::from_errno("open the top of a tree", errno));
  }
  std::vector<Level> levels;
  ATE_TRY(descend(current, "", levels, visitor));
  while (true) {
    Level& level = levels.back();
    if (!level.pending.empty()) {
      const std::string name = std::move(level.pending.back());
      level.pending.pop_back();
      if (levels.size() >= kDeepestTree) {
        return fail(Errc::InvalidValue, "directories are nested deeper than " +
                                            std::to_string(kDeepestTree) + " levels");
      }
      Result<UniqueFd> child = enter_directory(current.get(), name);
      if (!child && (child.error().sys_errno() == ENOENT || child.error().sys_errno() == ENOTDIR ||
                     child.error().sys_errno() == ELOOP)) {
        continue;  // a tree that changes meanwhile: it is no directory any more
      }
      ATE_ASSIGN(current, std::move(child));
      ATE_TRY(descend(current, name, levels, visitor));
      continue;
    }
    if (!level.complete) {
      ATE_TRY(read_level(current, level, visitor));
      continue;
    }
    ATE_TRY(visitor.leave(current.get()));
    levels.pop_back();
    if (levels.empty()) {
      return {};
    }
    ATE_ASSIGN(current, leave_directory(current, levels.back().id));
  }
}

}  // namespace ate::os
