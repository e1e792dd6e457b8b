// The files that actors write into and that are kept short while they do.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "ate/logs/logs.hpp"
#include "ate/os/fs.hpp"
#include "ate/util/ids.hpp"

namespace ate::logs {

namespace {

// Blocks of a file's own administration, and those that the writer adds meanwhile.
constexpr std::int64_t kAllocationSlack = 4LL << 20;

Result<UniqueFd> open_log(const UniqueFd& directory, const std::string& name) {
  UniqueFd file(::openat(directory.get(), name.c_str(),
                         O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0) {
    return fail(Error::from_errno("open log " + name, errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(Errc::Internal, "log " + name + " is not a regular file");
  }
  return file;
}

}  // namespace

Result<StdioFiles> open_stdio(const std::string& directory, const std::string& container) {
  if (!is_dns_label(container)) {
    return fail(Errc::InvalidValue, "`" + container + "` can't be a container's name");
  }
  ATE_TRY(os::make_dirs(directory, 0700));
  ATE_ASSIGN(const UniqueFd base, os::open_dir(directory));
  StdioFiles files;
  ATE_ASSIGN(files.out, open_log(base, container + ".stdout"));
  ATE_ASSIGN(files.err, open_log(base, container + ".stderr"));
  return files;
}

Result<std::int64_t> bound_file(const std::string& path, std::int64_t keep_bytes) {
  const UniqueFd file(
      ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat before{};
  if (!file || ::fstat(file.get(), &before) != 0) {
    return fail(Error::from_errno("open log " + path, errno,
                                  errno == ENOENT ? Errc::NotFound : Errc::Internal));
  }
  const std::int64_t surplus = before.st_size - keep_bytes;
  const std::int64_t end = surplus - surplus % before.st_blksize;
  if (end <= 0) {
    return 0;
  }
  // Most calls find nothing new below: no write to the file system then. SEEK_DATA does not see
  // blocks that were only allocated, as fallocate() of an actor on its output does.
  const off_t first = ::lseek(file.get(), 0, SEEK_DATA);
  const bool nothing_below = first < 0 || first >= end;
  if (nothing_below && before.st_blocks * 512 <= keep_bytes + kAllocationSlack) {
    return 0;
  }
  if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, end) != 0) {
    return fail(Error::from_errno("shortening log " + path, errno));
  }
  struct stat after{};
  if (::fstat(file.get(), &after) != 0) {
    return fail(Error::from_errno("stat log " + path, errno));
  }
  // The writer may have added blocks meanwhile.
  const std::int64_t freed = (before.st_blocks - after.st_blocks) * 512;
  return freed > 0 ? freed : 0;
}

Result<std::int64_t> bound_directory(const std::string& directory, std::int64_t keep_bytes) {
  const Result<std::vector<std::string>> names = os::list_dir(directory);
  if (!names) {
    if (!os::exists(directory)) {
      return 0;
    }
    return fail(names.error());
  }
  std::int64_t freed = 0;
  for (const std::string& name : *names) {
    if (!name.ends_with(".stdout") && !name.ends_with(".stderr")) {
      continue;
    }
    const Result<std::int64_t> part = bound_file(directory + "/" + name, keep_bytes);
    if (!part && part.error().code() != Errc::NotFound) {
      return part;
    }
    freed += part.value_or(0);
  }
  return freed;
}

}  // namespace ate::logs
