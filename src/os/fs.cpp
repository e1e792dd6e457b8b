#include "ate/os/fs.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "ate/util/ids.hpp"
#include "ate/util/scope_exit.hpp"

namespace ate::os {

namespace {

Error path_error(const char* verb, const std::string& path, int err) {
  const Errc code = err == ENOENT ? Errc::NotFound : Errc::Internal;
  return Error::from_errno(std::string(verb) + " " + path, err, code);
}

Status sync_descriptor(const UniqueFd& fd, const std::string& path) {
  if (::fsync(fd.get()) != 0) {
    return fail(path_error("fsync", path, errno));
  }
  return {};
}

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

}  // namespace

Result<UniqueFd> open_dir(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    return fail(path_error("open", path, errno));
  }
  return fd;
}

Result<UniqueFd> open_beneath(const UniqueFd& dir, const std::string& relative, int flags,
                              mode_t mode) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(static_cast<unsigned>(flags | O_CLOEXEC));
  how.mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? mode : 0;  // else openat2 refuses
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  UniqueFd fd(
      static_cast<int>(::syscall(SYS_openat2, dir.get(), relative.c_str(), &how, sizeof how)));
  if (!fd) {
    return fail(path_error("open", relative, errno));
  }
  return fd;
}

Result<std::string> read_descriptor(int fd, std::size_t limit, std::string_view name) {
  std::string out;
  constexpr std::size_t kChunk = 16 * 1024;
  while (true) {
    const std::size_t have = out.size();
    // One byte more than allowed, so that a file of exactly `limit` bytes is told from a longer
    // one.
    const std::size_t want = std::min(kChunk, limit + 1 - have);
    out.resize(have + want);
    const ssize_t got = ::read(fd, out.data() + have, want);
    if (got < 0 && errno == EINTR) {
      out.resize(have);
      continue;
    }
    if (got < 0) {
      return fail(path_error("read", std::string(name), errno));
    }
    out.resize(have + static_cast<std::size_t>(got));
    if (got == 0) {
      return out;
    }
    if (out.size() > limit) {
      return fail(Errc::InvalidValue, "read " + std::string(name) + ": longer than the " +
                                          std::to_string(limit) + " bytes it may have");
    }
  }
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  // O_NONBLOCK: a FIFO in the place of a file must not stop us.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    return fail(path_error("open", path, errno));
  }
  return read_descriptor(fd.get(), limit, path);
}

Status write_all(int fd, std::string_view data, std::string_view name) {
  while (!data.empty()) {
    const ssize_t put = ::write(fd, data.data(), data.size());
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0) {
      return fail(path_error("write", std::string(name), errno));
    }
    data.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Status write_control_file(const std::string& path, std::string_view value) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) {
    return fail(path_error("open", path, errno));
  }
  if (::write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size())) {
    return fail(Error::from_errno("write '" + std::string(value) + "' to " + path, errno));
  }
  return {};
}

Status write_file_atomic(const std::string& path, std::string_view content, mode_t mode) {
  const std::string temporary = path + ".tmp-" + random_hex(8);
  const UniqueFd fd(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) {
    return fail(path_error("create", temporary, errno));
  }
  // IGNORED: the error that brought us here is the one to tell.
  ScopeExit discard([&temporary] { static_cast<void>(::unlink(temporary.c_str())); });
  ATE_TRY(write_all(fd.get(), content, temporary));
  if (::fchmod(fd.get(), mode) != 0) {
    return fail(path_error("chmod", temporary, errno));
  }
  ATE_TRY(sync_descriptor(fd, temporary));
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    return fail(path_error("rename to", path, errno));
  }
  discard.dismiss();
  return fsync_path(parent_dir(path));
}

Status create_file(const std::string& path, std::string_view content, mode_t mode) {
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  // open takes the umask off, fchmod doesn't.
  if (!fd || ::fchmod(fd.get(), mode) != 0) {
    return fail(path_error("create", path, errno));
  }
  return write_all(fd.get(), content, path);
}

Status make_dir(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) {
    // mkdir takes the umask off, chmod doesn't.
    if (::chmod(path.c_str(), mode) != 0) {
      return fail(path_error("chmod", path, errno));
    }
    return {};
  }
  const int err = errno;
  struct stat info{};
  if (err == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return {};
  }
  return fail(path_error("make directory", path, err));
}

Status make_dirs(const std::string& path, mode_t mode) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (path[slash - 1] != '/') {
      ATE_TRY(make_dir(path.substr(0, slash), mode));
    }
  }
  return make_dir(path, mode);
}

Result<std::vector<std::string>> list_dir(const std::string& path) {
  ATE_ASSIGN(const UniqueFd dir, open_dir(path));
  return list_dir_at(dir.get(), path);
}

Result<std::vector<std::string>> list_dir_at(int fd, std::string_view path) {
  // A second opening: the stream closes what it reads from, and moves its offset.
  UniqueFd again(::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, CloseDir> dir(again ? ::fdopendir(again.get()) : nullptr);
  if (dir == nullptr) {
    return fail(path_error("open", std::string(path), errno));
  }
  static_cast<void>(again.release());
  std::vector<std::string> names;
  errno = 0;
  for (const dirent* entry = ::readdir(dir.get()); entry != nullptr; entry = ::readdir(dir.get())) {
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") {
      names.emplace_back(name);
    }
    errno = 0;
  }
  if (errno != 0) {
    return fail(path_error("read", std::string(path), errno));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail(path_error("remove", path, errno));
  }
  return {};
}

Status fsync_path(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    return fail(path_error("open", path, errno));
  }
  return sync_descriptor(fd, path);
}

Status rename_durably(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    return fail(path_error("rename", from + " to " + to, errno));
  }
  ATE_TRY(fsync_path(parent_dir(to)));
  if (parent_dir(from) != parent_dir(to)) {
    ATE_TRY(fsync_path(parent_dir(from)));
  }
  return {};
}

Result<bool> is_same_filesystem(const std::string& a, const std::string& b) {
  struct stat first{};
  struct stat second{};
  if (::stat(a.c_str(), &first) != 0) {
    return fail(path_error("stat", a, errno));
  }
  if (::stat(b.c_str(), &second) != 0) {
    return fail(path_error("stat", b, errno));
  }
  return first.st_dev == second.st_dev;
}

bool exists(const std::string& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

std::string parent_dir(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace ate::os
