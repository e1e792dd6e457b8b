#include "ate/os/project_quota.hpp"

#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace ate::os {

namespace {

constexpr std::int64_t kQuotaBlock = 1024;  // of if_dqblk's limits

/// By descriptor: the block device's path, which quotactl(2) wants, may not be there.
int quotactl_fd(int fd, unsigned command, std::uint32_t id, void* argument) {
  return static_cast<int>(
      ::syscall(SYS_quotactl_fd, static_cast<unsigned>(fd), QCMD(command, PRJQUOTA), id, argument));
}

std::string in_project(const char* what, std::uint32_t project) {
  return std::string(what) + " project " + std::to_string(project);
}

}  // namespace

Status ProjectQuota::enforced(const UniqueFd& directory) {
  fs_quota_statv state{};
  state.qs_version = FS_QSTATV_VERSION1;
  if (quotactl_fd(directory.get(), Q_XGETQSTATV, 0, &state) != 0) {
    if (errno == ENOSYS || errno == ESRCH || errno == EINVAL || errno == EOPNOTSUPP) {
      return fail(Errc::Unavailable,
                  "its file system has no project quota, or the kernel has none");
    }
    return fail(Error::from_errno("look at the project quota", errno).with_code(Errc::Unavailable));
  }
  constexpr unsigned kWanted = FS_QUOTA_PDQ_ACCT | FS_QUOTA_PDQ_ENFD;
  if ((state.qs_flags & kWanted) != kWanted) {
    return fail(Errc::Unavailable,
                "project quota is not switched on there (mount option prjquota; ext4 needs the "
                "features quota and project)");
  }
  return {};
}

Result<std::uint32_t> ProjectQuota::project_of(int file) {
  fsxattr attributes{};
  if (::ioctl(file, FS_IOC_FSGETXATTR, &attributes) != 0) {
    return fail(Error::from_errno("read the project of a file", errno));
  }
  return attributes.fsx_projid;
}

Status ProjectQuota::set_project(int file, std::uint32_t project, bool directory) {
  fsxattr attributes{};
  if (::ioctl(file, FS_IOC_FSGETXATTR, &attributes) != 0) {
    return fail(Error::from_errno("read the project of a file", errno));
  }
  attributes.fsx_projid = project;
  if (directory) {
    attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
  }
  if (::ioctl(file, FS_IOC_FSSETXATTR, &attributes) != 0) {
    return fail(Error::from_errno(in_project("put a file into", project), errno));
  }
  return {};
}

Result<ProjectUse> ProjectQuota::use_of(const UniqueFd& directory, std::uint32_t project) {
  if_dqblk found{};
  if (quotactl_fd(directory.get(), Q_GETQUOTA, project, &found) != 0) {
    if (errno == ENOENT) {
      return ProjectUse{};  // XFS: nobody has used it yet
    }
    return fail(Error::from_errno(in_project("read the quota of", project), errno));
  }
  return ProjectUse{
      .limit_bytes = static_cast<std::int64_t>(found.dqb_bhardlimit) * kQuotaBlock,
      .bytes = static_cast<std::int64_t>(found.dqb_curspace),
      .inodes = static_cast<std::int64_t>(found.dqb_curinodes),
  };
}

Status ProjectQuota::limit(const UniqueFd& directory, std::uint32_t project, std::int64_t bytes) {
  if_dqblk wanted{};
  wanted.dqb_bhardlimit = static_cast<std::uint64_t>((bytes + kQuotaBlock - 1) / kQuotaBlock);
  wanted.dqb_valid = QIF_BLIMITS;
  if (quotactl_fd(directory.get(), Q_SETQUOTA, project, &wanted) != 0) {
    return fail(Error::from_errno(in_project("set the quota of", project), errno));
  }
  return {};
}

}  // namespace ate::os
