#include "os/tree_step.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace ate::os {

Result<struct stat> stat_directory(const UniqueFd& fd, const std::string& name) {
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return fail(Error::from_errno("stat " + name, errno));
  }
  return info;
}

Result<UniqueFd> enter_directory(int dir, const std::string& name) {
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

Result<UniqueFd> leave_directory(const UniqueFd& from, const DirectoryId& expected) {
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

}  // namespace ate::os
