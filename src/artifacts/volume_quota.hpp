#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "ate/os/project_quota.hpp"
#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::artifacts {

/// Owner of the projects of durable volumes: a volume is a project of its own, whatever its size,
/// so that another size is another limit and no more. The file system itself is the record: the
/// directory carries the number, and a number that nothing is counted for is free. So nothing can
/// be lost by a crash, and a removed volume gives its number back by being gone. Thread-safe.
class VolumeQuota {
 public:
  /// Numbers that are handed out; one that somebody else uses is passed over.
  static constexpr std::uint32_t kFirst = 0x41540000;  // 1096024064
  static constexpr std::uint32_t kCount = 1U << 16;

  explicit VolumeQuota(std::shared_ptr<os::ProjectQuota> projects)
      : projects_(std::move(projects)) {}

  /// Whether sizes can be enforced below `directory`, which holds all volumes; `why_not()` after.
  void prepare(const UniqueFd& directory);

  [[nodiscard]] const std::string& why_not() const noexcept { return why_not_; }

  [[nodiscard]] bool offered() const noexcept { return why_not_.empty(); }

  /// Makes the directory a volume of its own. What is in it already is taken along (regular files
  /// and directories; others count as nothing), the directory itself last: one that carries a
  /// number of ours is whole.
  [[nodiscard]] Status adopt(const UniqueFd& volume);
  /// adopt(), where it isn't one yet, and its size; 0 = not limited.
  [[nodiscard]] Status limit(const UniqueFd& volume, std::int64_t bytes);
  /// Takes the limit away: for a volume that is about to be removed. A failure is no harm.
  void give_up(const UniqueFd& volume);

 private:
  [[nodiscard]] Result<std::uint32_t> find_free(const UniqueFd& volume);

  std::shared_ptr<os::ProjectQuota> projects_;
  std::string why_not_ = "not looked at";
  std::mutex mutex_;
  // Where to look on: a number is not looked at again before all others were, also while nothing
  // carries it yet.
  std::uint32_t next_ = 0;
};

}  // namespace ate::artifacts
