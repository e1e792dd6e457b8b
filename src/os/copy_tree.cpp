// Copies a tree for a snapshot of a volume, and back.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "ate/os/fs.hpp"
#include "ate/os/tree.hpp"
#include "ate/util/log.hpp"
#include "os/copy_file.hpp"

namespace ate::os {

namespace {

constexpr std::size_t kNamesLimit = std::size_t{64} << 10U;  // XATTR_LIST_MAX
constexpr std::size_t kShownName = 128;
constexpr std::int64_t kBlock = 512;
constexpr mode_t kModeBits = 07777;
// Up to here each entry is synced by itself.
constexpr std::int64_t kSyncedOneByOne = 32;

Error failed(const char* what, const std::string& name) {
  const int err = errno;
  return Error::from_errno(std::string(what) + " " + escape_text(name, kShownName), err);
}

bool is_kept_attribute(std::string_view name) {
  return name.starts_with("user.") || name.starts_with("trusted.") ||
         name.starts_with("system.posix_acl_") || name == "security.capability";
}

Status copy_attributes(int from, int to, const std::string& name) {
  if (::flistxattr(from, nullptr, 0) == 0) {
    return {};
  }
  std::vector<char> names(kNamesLimit);
  const ssize_t length = ::flistxattr(from, names.data(), names.size());
  if (length < 0) {
    return errno == EOPNOTSUPP ? Status{} : fail(failed("list attributes of", name));
  }
  std::vector<char> value(kNamesLimit);
  const std::string_view all(names.data(), static_cast<std::size_t>(length));
  for (std::size_t at = 0; at < all.size();) {
    const std::string attribute(names.data() + at);
    at += attribute.size() + 1;
    if (!is_kept_attribute(attribute)) {
      continue;
    }
    const ssize_t size = ::fgetxattr(from, attribute.c_str(), value.data(), value.size());
    if (size < 0 ||
        ::fsetxattr(to, attribute.c_str(), value.data(), static_cast<std::size_t>(size), 0) != 0) {
      return fail(failed("copy an attribute of", name));
    }
  }
  return {};
}

/// Owner first: a change of it takes set-user-ID bits away; times last.
Status finish(int from, int to, const std::string& name, const struct stat& info) {
  if (::fchown(to, info.st_uid, info.st_gid) != 0) {
    return fail(failed("chown", name));
  }
  ATE_TRY(copy_attributes(from, to, name));
  if (::fchmod(to, info.st_mode & kModeBits) != 0) {
    return fail(failed("chmod", name));
  }
  const std::array<timespec, 2> times{info.st_atim, info.st_mtim};
  return ::futimens(to, times.data()) == 0 ? Status{} : fail(failed("set the times of", name));
}

class Copier final : public TreeVisitor {
 public:
  Copier(UniqueFd to, const CopyOptions& options)
      : to_(std::move(to)), options_(options), clone_(options.try_clone) {}

  Status enter(int self, const std::string& name, const struct stat& info) override {
    ATE_TRY(alive());
    if (!directories_.empty()) {
      ++stats_.entries;
      if (::mkdirat(to_.get(), name.c_str(), 0700) != 0) {
        return fail(failed("make directory", name));
      }
      UniqueFd below(
          ::openat(to_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!below) {
        return fail(failed("open", name));
      }
      to_ = std::move(below);
    }
    directories_.push_back(info);
    return options_.observer == nullptr ? Status{} : options_.observer->enter(self, name, info);
  }

  Status leave(int self) override {
    ATE_TRY(finish(self, to_.get(), "a directory", directories_.back()));
    directories_.pop_back();
    if (!directories_.empty()) {
      UniqueFd above(::openat(to_.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!above) {
        return fail(failed("open", ".."));
      }
      to_ = std::move(above);
    }
    return options_.observer == nullptr ? Status{} : options_.observer->leave(self);
  }

  Status entry(int dir, const std::string& name, const struct stat& info) override {
    ATE_TRY(alive());
    if (S_ISSOCK(info.st_mode) || S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode)) {
      ++stats_.skipped;
      return {};
    }
    ++stats_.entries;
    if (S_ISREG(info.st_mode)) {
      ATE_TRY(file(dir, name, info));
    } else if (S_ISLNK(info.st_mode)) {
      ATE_TRY(link(dir, name, info));
    } else {
      ATE_TRY(fifo(name, info));
    }
    return options_.observer == nullptr ? Status{} : options_.observer->entry(dir, name, info);
  }

  [[nodiscard]] CopyStats stats() const { return stats_; }

 private:
  [[nodiscard]] Status alive() const {
    if (options_.cancelled && options_.cancelled()) {
      return fail(Errc::Cancelled, "the copy was cancelled");
    }
    return {};
  }

  Status file(int dir, const std::string& name, const struct stat& seen) {
    const bool several = seen.st_nlink > 1 && options_.links_dir >= 0;
    const std::string known = std::to_string(seen.st_dev) + "-" + std::to_string(seen.st_ino);
    if (several) {
      ATE_ASSIGN(const bool linked, link_known(known, name));
      if (linked) {
        return {};
      }
    }
    const UniqueFd from = open_entry(dir, name);
    struct stat info{};
    if (!from || ::fstat(from.get(), &info) != 0) {
      return fail(failed("open", name));
    }
    if (!S_ISREG(info.st_mode) || info.st_ino != seen.st_ino) {
      return fail(Errc::Internal, escape_text(name, kShownName) + " changed while it was copied");
    }
    const UniqueFd to(::openat(to_.get(), name.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!to) {
      return fail(failed("create", name));
    }
    const Status copied = copy_content(from.get(), to.get(), info, clone_, options_.cancelled);
    if (!copied) {
      Error error = copied.error();
      return fail(std::move(error).context("copy " + escape_text(name, kShownName)));
    }
    stats_.bytes += static_cast<std::int64_t>(info.st_blocks) * kBlock;
    ATE_TRY(finish(from.get(), to.get(), name, info));
    if (several && ::linkat(to_.get(), name.c_str(), options_.links_dir, known.c_str(), 0) != 0) {
      return fail(failed("remember", name));
    }
    return {};
  }

  /// A further name of a file that was copied before.
  Result<bool> link_known(const std::string& known, const std::string& name) {
    if (::linkat(options_.links_dir, known.c_str(), to_.get(), name.c_str(), 0) == 0) {
      return true;
    }
    if (errno == ENOENT) {
      return false;
    }
    // Our own name for it is the one too many: it becomes the last one.
    if (errno == EMLINK &&
        ::renameat(options_.links_dir, known.c_str(), to_.get(), name.c_str()) == 0) {
      return true;
    }
    return fail(failed("link", name));
  }

  Status link(int dir, const std::string& name, const struct stat& info) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(dir, name.c_str(), target.data(), target.size() - 1);
    if (length < 0 || ::symlinkat(target.data(), to_.get(), name.c_str()) != 0) {
      return fail(failed("copy link", name));
    }
    return settle_name(name, info);
  }

  Status fifo(const std::string& name, const struct stat& info) {
    // The copy is in a place of our own: nobody puts something else there under the same name.
    if (::mkfifoat(to_.get(), name.c_str(), 0600) != 0) {
      return fail(failed("make FIFO", name));
    }
    ATE_TRY(settle_name(name, info));
    if (::fchmodat(to_.get(), name.c_str(), info.st_mode & kModeBits, 0) != 0) {
      return fail(failed("chmod", name));
    }
    return {};
  }

  Status settle_name(const std::string& name, const struct stat& info) {
    const std::array<timespec, 2> times{info.st_atim, info.st_mtim};
    if (::fchownat(to_.get(), name.c_str(), info.st_uid, info.st_gid, AT_SYMLINK_NOFOLLOW) != 0 ||
        ::utimensat(to_.get(), name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) != 0) {
      return fail(failed("set the attributes of", name));
    }
    return {};
  }

  UniqueFd to_;  // the directory that is being filled
  const CopyOptions& options_;
  std::vector<struct stat> directories_;  // those that were entered
  CopyStats stats_;

 public:
  bool clone_;  // until it turns out that they can't share blocks
};

class Sizer final : public TreeVisitor {
 public:
  Status enter(int, const std::string& name, const struct stat& info) override {
    count(name, info);
    return {};
  }

  Status entry(int, const std::string& name, const struct stat& info) override {
    count(name, info);
    return {};
  }

  Status leave(int) override { return {}; }

  TreeSize size;

 private:
  void count(const std::string& name, const struct stat& info) {
    if (!name.empty()) {
      ++size.entries;
      // A file of several names would count several times: its share, then.
      const auto names = static_cast<std::int64_t>(std::max<nlink_t>(info.st_nlink, 1));
      size.bytes +=
          static_cast<std::int64_t>(info.st_blocks) * kBlock / (S_ISDIR(info.st_mode) ? 1 : names);
    }
  }
};

class Syncer final : public TreeVisitor {
 public:
  Status enter(int, const std::string&, const struct stat&) override { return {}; }

  Status entry(int dir, const std::string& name, const struct stat& info) override {
    if (!S_ISREG(info.st_mode)) {
      return {};
    }
    const UniqueFd file = open_entry(dir, name);
    return file && ::fsync(file.get()) == 0 ? Status{} : fail(failed("fsync", name));
  }

  Status leave(int self) override {
    return ::fsync(self) == 0 ? Status{} : fail(failed("fsync", "a directory"));
  }
};

}  // namespace

Result<CopyStats> copy_tree(const UniqueFd& from, const UniqueFd& to, const CopyOptions& options) {
  UniqueFd top(::openat(to.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!top) {
    return fail(failed("open", "the place of a copy"));
  }
  Copier copier(std::move(top), options);
  const Status copied = walk_tree(from, copier);
  if (options.links_dir >= 0) {
    ATE_ASSIGN(const std::vector<std::string> names, list_dir_at(options.links_dir, "links"));
    for (const std::string& name : names) {
      ATE_TRY(remove_tree_at(options.links_dir, name));
    }
  }
  ATE_TRY(Status(copied));
  CopyStats stats = copier.stats();
  stats.cloned = copier.clone_;
  return stats;
}

Status sync_tree(const UniqueFd& top, std::int64_t entries) {
  if (entries > kSyncedOneByOne) {
    return ::syncfs(top.get()) == 0 ? Status{} : fail(failed("sync", "the file system"));
  }
  Syncer syncer;
  return walk_tree(top, syncer);
}

Result<TreeSize> measure_tree(const UniqueFd& top) {
  Sizer sizer;
  ATE_TRY(walk_tree(top, sizer));
  return sizer.size;
}

Result<bool> can_clone(const UniqueFd& directory) {
  const UniqueFd from(::openat(directory.get(), ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  const UniqueFd to(::openat(directory.get(), ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (!from || !to) {
    return errno == EOPNOTSUPP ? Result<bool>(false) : fail(failed("create", "a probe"));
  }
  ATE_TRY(write_all(from.get(), "probe", "probe"));
  return ::ioctl(to.get(), FICLONE, from.get()) == 0;
}

}  // namespace ate::os
