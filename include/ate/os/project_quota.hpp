#pragma once

#include <cstdint>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::os {

/// What the kernel counts for one project.
struct ProjectUse {
  std::int64_t limit_bytes = 0;  // 0 = none
  std::int64_t bytes = 0;
  std::int64_t inodes = 0;
};

/// Project quota (ext4, XFS): files carry the number of a project, new ones take it from their
/// directory, and a project may hold so many bytes. Project 0 is everything that belongs to none.
/// The file system is the one of the descriptor; virtual, since few machines of developers have it.
class ProjectQuota {
 public:
  virtual ~ProjectQuota() = default;
  /// Ok when limits of projects are enforced there; Unavailable says why not.
  [[nodiscard]] virtual Status enforced(const UniqueFd& directory);
  /// Of a regular file or a directory.
  [[nodiscard]] virtual Result<std::uint32_t> project_of(int file);
  /// A directory hands it on to what is made in it.
  [[nodiscard]] virtual Status set_project(int file, std::uint32_t project, bool directory);
  [[nodiscard]] virtual Result<ProjectUse> use_of(const UniqueFd& directory, std::uint32_t project);
  /// Rounded up to KiB; 0 takes the limit away. Below what is used already: nothing can be added.
  [[nodiscard]] virtual Status limit(const UniqueFd& directory, std::uint32_t project,
                                     std::int64_t bytes);
};

}  // namespace ate::os
