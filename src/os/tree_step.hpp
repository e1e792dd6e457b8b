#pragma once

#include <sys/stat.h>

#include <string>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

/// One step down and one step up in a tree that somebody may change meanwhile; what copies and what
/// removes trees take the same ones.
namespace ate::os {

/// Which directory a descriptor is.
struct DirectoryId {
  dev_t device = 0;
  ino_t inode = 0;
};

/// fstat; `name` is for the message.
[[nodiscard]] Result<struct stat> stat_directory(const UniqueFd& fd, const std::string& name);

/// The directory `name` in `dir`, opened for reading: through no symbolic link and into no mount,
/// which is InUse.
[[nodiscard]] Result<UniqueFd> enter_directory(int dir, const std::string& name);

/// The parent of `from`. Internal when it is not the directory that was left before.
[[nodiscard]] Result<UniqueFd> leave_directory(const UniqueFd& from, const DirectoryId& expected);

}  // namespace ate::os
