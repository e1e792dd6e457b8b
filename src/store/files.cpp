#include "store/files.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "ate/os/fs.hpp"
#include "store/schema.hpp"

namespace ate::store {

namespace {

constexpr long kCifsMagic = 0xff534d42;
constexpr long kSmb2Magic = 0xfe534d42;

// Offsets of https://www.sqlite.org/fileformat.html#the_database_header
constexpr std::size_t kHeaderBytes = 100;
constexpr std::string_view kMagic{"SQLite format 3\0", 16};

std::string octal(mode_t mode) {
  std::array<char, 8> text{};
  static_cast<void>(std::snprintf(text.data(), text.size(), "%04o", mode & 07777U));
  return text.data();
}

std::uint32_t big_endian(const unsigned char* bytes, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value = value << 8U | bytes[i];
  }
  return value;
}

Status check_directory(const std::string& path) {
  const std::string directory = os::parent_dir(path);
  struct stat info{};
  if (::stat(directory.c_str(), &info) != 0) {
    return fail(Error::from_errno("state directory " + directory, errno));
  }
  if (!S_ISDIR(info.st_mode)) {
    return fail(Errc::Internal, directory + " is not a directory");
  }
  if (info.st_uid != ::geteuid()) {
    return fail(Errc::Internal, "state directory " + directory + " belongs to uid " +
                                    std::to_string(info.st_uid) + ": run `chown " +
                                    std::to_string(::geteuid()) + " " + directory + "`");
  }
  if ((info.st_mode & 022U) != 0) {
    return fail(Errc::Internal, "state directory " + directory + " has mode " +
                                    octal(info.st_mode) + ": run `chmod go-w " + directory + "`");
  }
  struct statfs system{};
  if (::statfs(directory.c_str(), &system) != 0) {
    return fail(Error::from_errno("statfs " + directory, errno));
  }
  if (system.f_type == NFS_SUPER_MAGIC || system.f_type == kCifsMagic ||
      system.f_type == kSmb2Magic || system.f_type == V9FS_MAGIC) {
    return fail(Errc::Internal, "state directory " + directory +
                                    " is on a network file system; SQLite's locks and shared "
                                    "memory need a local one");
  }
  return {};
}

Status check_file(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) {
    return fail(Errc::Internal, path + " is not a regular file");
  }
  if (info.st_uid != ::geteuid()) {
    return fail(Errc::Internal, path + " belongs to uid " + std::to_string(info.st_uid) +
                                    ": run `chown " + std::to_string(::geteuid()) + " " + path +
                                    "`");
  }
  if ((info.st_mode & 077U) != 0) {
    return fail(Errc::Internal,
                path + " has mode " + octal(info.st_mode) + ": run `chmod 0600 " + path + "`");
  }
  return {};
}

std::int64_t size_or_zero(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

std::string restore_hint(const std::string& path) {
  return " It was left as it is: move it away and put a backup at " + path +
         ", or start with none.";
}

Status check_size(const std::string& path, const unsigned char* header, std::int64_t size) {
  // 1 means 65536 (the field has two bytes).
  const std::int64_t raw = big_endian(header + 16, 2);
  const std::int64_t page_bytes = raw == 1 ? 65536 : raw;
  const std::int64_t pages = big_endian(header + 28, 4);
  // With frames in the log the file itself may lag behind its header.
  const bool settled = size_or_zero(path + "-wal") == 0;
  if (settled && pages > 0 && size < pages * page_bytes) {
    return fail(Errc::Internal, path + " is truncated: " + std::to_string(size) + " of " +
                                    std::to_string(pages * page_bytes) + " bytes." +
                                    restore_hint(path));
  }
  return {};
}

Status check_header(const std::string& path, int fd, std::int64_t size) {
  if (size == 0) {
    return fail(Errc::Internal, path + " is empty." + restore_hint(path));
  }
  std::array<unsigned char, kHeaderBytes> header{};
  const ssize_t got = ::pread(fd, header.data(), header.size(), 0);
  if (got < 0) {
    return fail(Error::from_errno("reading " + path, errno));
  }
  const bool magic = got >= static_cast<ssize_t>(kMagic.size()) &&
                     std::memcmp(header.data(), kMagic.data(), kMagic.size()) == 0;
  if (!magic) {
    return fail(Errc::Internal, path + " is not a database." + restore_hint(path));
  }
  if (got < static_cast<ssize_t>(kHeaderBytes)) {
    return fail(Errc::Internal,
                path + " is truncated: " + std::to_string(size) + " bytes." + restore_hint(path));
  }
  const std::int64_t application = big_endian(header.data() + 68, 4);
  if (application != kApplicationId) {
    return fail(Errc::Internal, path + " is a database of another program (application id " +
                                    std::to_string(application) + ")." + restore_hint(path));
  }
  return check_size(path, header.data(), size);
}

}  // namespace

Result<UniqueFd> take_lock(const std::string& path) {
  ATE_TRY(check_directory(path));
  const std::string name = path + ".lock";
  UniqueFd lock(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) {
    return fail(Error::from_errno("opening " + name, errno));
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return fail(Errc::Unavailable,
                  "another ate-noded uses " + path + " (" + name + " is locked)");
    }
    return fail(Error::from_errno("locking " + name, errno));
  }
  return lock;
}

Result<Found> inspect(const std::string& path) {
  // Opened and closed before SQLite opens it, never while it is open (POSIX locks).
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) {
    if (errno != ENOENT) {
      return fail(Error::from_errno("opening " + path, errno));
    }
    if (size_or_zero(path + "-wal") > 0) {
      return fail(Errc::Internal, path + " is missing but its log " + path +
                                      "-wal is there. Put the database back, or remove the log to "
                                      "start with none.");
    }
    return Found::Nothing;
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) {
    return fail(Error::from_errno("fstat " + path, errno));
  }
  ATE_TRY(check_file(path, info));
  ATE_TRY(check_header(path, file.get(), info.st_size));
  return Found::Database;
}

Status create_empty(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    ATE_TRY(os::remove_file(path + suffix));
  }
  const UniqueFd file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) {
    return fail(Error::from_errno("creating " + path, errno));
  }
  return {};
}

Status publish(const std::string& partial, const std::string& target) {
  ATE_TRY(os::fsync_path(partial));
  return os::rename_durably(partial, target);
}

}  // namespace ate::store
