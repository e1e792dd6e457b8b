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
  // Most calls find nothing new below: no write to the file system then.
  const off_t first = ::lseek(file.get(), 0, SEEK_DATA);
  if (first < 0 || first >= end) {
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

}  // namespace ate::logs
