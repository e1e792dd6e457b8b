#include "objects/directory.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "ate/os/fs.hpp"

namespace ate::objects {
namespace {

constexpr std::size_t kMaxFileBytes = 1U << 20U;
constexpr std::int64_t kSettledNs = 2'000'000'000;

std::int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

Signature signature_of(const struct stat& info) {
  return Signature{
      info.st_dev, info.st_ino, info.st_size, nanoseconds(info.st_mtim), nanoseconds(info.st_ctim),
      info.st_uid, info.st_mode};
}

bool is_object_file(const std::string& name) {
  return !name.starts_with('.') && (name.ends_with(".yaml") || name.ends_with(".yml"));
}

/// Symbolic links are followed inside the directory only (`..data` of a mounted secret); what is
/// no regular file is never opened for reading.
UniqueFd open_file(const UniqueFd& dir, const std::string& name, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, dir.get(), name.c_str(), &how, sizeof(how))));
}

/// Why a file may not be read; empty when it may.
std::string refusal(const struct stat& info, const std::string& path) {
  if (!S_ISREG(info.st_mode)) {
    return "is not a regular file";
  }
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return "must belong to root; run: chown root " + path;
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return "may be written by others than its owner; run: chmod go-w " + path;
  }
  if (static_cast<std::size_t>(info.st_size) > kMaxFileBytes) {
    return "is larger than 1 MiB";
  }
  return {};
}

std::shared_ptr<const SourceFile> unreadable(const std::string& path, std::string detail) {
  auto file = std::make_shared<SourceFile>();
  file->path = path;
  Problem problem;
  problem.code = Errc::InvalidValue;
  problem.detail = std::move(detail);
  problem.file = path;
  file->problems.push_back(std::move(problem));
  return file;
}

class Reader {
 public:
  Reader(std::string path, const FileCache& before) : path_(std::move(path)), before_(before) {}

  DirectoryRead run() {
    Result<UniqueFd> dir = os::open_dir(path_);
    if (!dir) {
      out_.error = dir.error().message();
      return std::move(out_);
    }
    struct stat info{};
    if (::fstat(dir->get(), &info) != 0) {
      out_.error = Error::from_errno("reading " + path_, errno).message();
      return std::move(out_);
    }
    out_.identity = std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
        (info.st_uid != 0 && info.st_uid != ::geteuid())) {
      out_.error = path_ + " may be changed by others than root; run: chown root " + path_ +
                   " && chmod go-w " + path_;
      return std::move(out_);
    }
    // The open directory, not the path: that may be another one by now.
    const Result<std::vector<std::string>> names =
        os::list_dir("/proc/self/fd/" + std::to_string(dir->get()));
    if (!names) {
      out_.error = names.error().message();
      return std::move(out_);
    }
    for (const std::string& name : *names) {
      if (is_object_file(name)) {
        read(*dir, name);
      }
    }
    return std::move(out_);
  }

 private:
  void read(const UniqueFd& dir, const std::string& name) {
    const std::string full = path_ + "/" + name;
    const UniqueFd probe = open_file(dir, name, O_PATH);
    struct stat info{};
    if (!probe || ::fstat(probe.get(), &info) != 0) {
      const int err = errno;
      if (err == ENOENT && !is_link(dir, name)) {
        return;  // gone since it was listed
      }
      const std::string why = err == EXDEV ? "leads out of the directory; put a file in its place"
                                           : Error::from_errno("cannot be opened", err).message();
      out_.files[name].file = unreadable(full, why);
      return;
    }
    const std::string why = refusal(info, full);
    if (!why.empty()) {
      out_.files[name].file = unreadable(full, why);
      return;
    }
    const auto known = before_.find(name);
    if (known != before_.end() && known->second.settled &&
        known->second.signature == signature_of(info)) {
      out_.files[name] = known->second;
      return;
    }
    out_.files[name] = load(dir, name, full);
  }

  static bool is_link(const UniqueFd& dir, const std::string& name) {
    struct stat info{};
    return ::fstatat(dir.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISLNK(info.st_mode);
  }

  CachedFile load(const UniqueFd& dir, const std::string& name, const std::string& full) {
    CachedFile cached;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const UniqueFd fd = open_file(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
      struct stat first{};
      if (!fd || ::fstat(fd.get(), &first) != 0) {
        cached.file = unreadable(full, Error::from_errno("cannot be opened", errno).message());
        return cached;
      }
      const std::string why = refusal(first, full);
      if (!why.empty()) {
        cached.file = unreadable(full, why);
        return cached;
      }
      const Result<std::string> text = os::read_descriptor(fd.get(), kMaxFileBytes, full);
      struct stat second{};
      if (text && ::fstat(fd.get(), &second) == 0 && signature_of(first) == signature_of(second)) {
        cached.signature = signature_of(first);
        timespec now{};
        ::clock_gettime(CLOCK_REALTIME, &now);
        cached.settled = nanoseconds(now) - cached.signature.ctime_ns > kSettledNs;
        cached.file = std::make_shared<SourceFile>(parse_source(full, *text));
        return cached;
      }
    }
    out_.retry = true;
    cached.file = unreadable(full, "changes while it is read; it is tried again");
    return cached;
  }

  std::string path_;
  const FileCache& before_;
  DirectoryRead out_;
};

}  // namespace

DirectoryRead read_directory(const std::string& path, const FileCache& before) {
  return Reader(path, before).run();
}

}  // namespace ate::objects
