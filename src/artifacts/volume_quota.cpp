#include "artifacts/volume_quota.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "ate/os/tree.hpp"

namespace ate::artifacts {

namespace {

bool is_ours(std::uint32_t project) {
  return project >= VolumeQuota::kFirst && project - VolumeQuota::kFirst < VolumeQuota::kCount;
}

/// Takes over what is in a volume: of an older version, or of a file system that got its quota
/// later.
class TakeOver final : public os::TreeVisitor {
 public:
  TakeOver(os::ProjectQuota& projects, std::uint32_t project)
      : projects_(projects), project_(project) {}

  Status enter(int, const std::string&, const struct stat&) override { return {}; }

  Status entry(int dir, const std::string& name, const struct stat& info) override {
    if (!S_ISREG(info.st_mode)) {
      return {};
    }
    const UniqueFd file = os::open_entry(dir, name);
    if (!file) {
      return fail(Error::from_errno("open a file of a volume", errno));
    }
    return projects_.set_project(file.get(), project_, false);
  }

  /// After what is in it: the top comes last.
  Status leave(int self) override { return projects_.set_project(self, project_, true); }

 private:
  os::ProjectQuota& projects_;
  std::uint32_t project_;
};

}  // namespace

void VolumeQuota::prepare(const UniqueFd& directory) {
  Status status = projects_->enforced(directory);
  if (status) {
    const Result<std::uint32_t> above = projects_->project_of(directory.get());
    if (!above) {
      status = fail(above.error());
    } else if (*above != 0) {
      // Ours would take the volumes out of it, and renames across the border are refused.
      status = fail(Errc::Unavailable,
                    "the state directory itself is in project " + std::to_string(*above));
    }
  }
  why_not_ = status ? std::string() : status.error().message();
}

Result<std::uint32_t> VolumeQuota::find_free(const UniqueFd& volume) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::uint32_t tried = 0; tried < kCount; ++tried) {
    const std::uint32_t project = kFirst + (next_ + tried) % kCount;
    ATE_ASSIGN(const os::ProjectUse use, projects_->use_of(volume, project));
    // A volume has at least the inode of its directory.
    if (use.inodes == 0 && use.bytes == 0) {
      next_ = project - kFirst + 1;
      return project;
    }
  }
  return fail(Errc::Unavailable, "all projects for volumes are taken");
}

Status VolumeQuota::adopt(const UniqueFd& volume) {
  ATE_ASSIGN(const std::uint32_t project, find_free(volume));
  // What an earlier volume left: copies that are brought back must not meet a limit.
  ATE_TRY(projects_->limit(volume, project, 0));
  TakeOver visitor(*projects_, project);
  return os::walk_tree(volume, visitor);
}

Status VolumeQuota::limit(const UniqueFd& volume, std::int64_t bytes) {
  ATE_ASSIGN(std::uint32_t project, projects_->project_of(volume.get()));
  if (!is_ours(project)) {
    if (bytes == 0) {
      return {};
    }
    ATE_TRY(adopt(volume));
    ATE_ASSIGN(project, projects_->project_of(volume.get()));
  }
  return projects_->limit(volume, project, bytes);
}

void VolumeQuota::give_up(const UniqueFd& volume) {
  const Result<std::uint32_t> project = projects_->project_of(volume.get());
  if (project && is_ours(*project)) {
    // IGNORED: whoever gets the number next sets it anew.
    static_cast<void>(projects_->limit(volume, *project, 0));
  }
}

}  // namespace ate::artifacts
