#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ate/artifacts/artifacts.hpp"
#include "ate/async/task.hpp"

namespace ate::os {
class ProjectQuota;
}  // namespace ate::os

namespace ate::artifacts {

/// A durable volume as the template wants it.
struct VolumePlan {
  std::string name;
  std::int64_t size_bytes = 0;  // 0 = not limited
  std::uint32_t uid = 0;        // owner of one that is made
  std::uint32_t gid = 0;
};

/// A volume that is there.
struct Volume {
  std::string name;
  std::string path;
  std::int64_t size_bytes = 0;
  bool enforced = false;  // its size is a quota
  std::string why_not;    // why it is not
};

/// The durable volumes of actors: live ones in <stateDir>/actors/<uid>/volumes/<name>/, copies in
/// <snapshot>/volumes/<name>/. Copies share blocks where the file system can, else cost their size
/// again. A copy's listing (names, kinds, modes, owners, sizes, times, link targets) is checked
/// whenever it is brought back; its bytes are not: that would read all of a volume at each suspend,
/// and the file system answers for them.
class VolumeStore {
 public:
  struct Options {
    std::string actors;                          // <stateDir>/actors
    std::string snapshots;                       // <stateDir>/snapshots, on the same file system
    std::shared_ptr<os::ProjectQuota> projects;  // the kernel's but in tests
  };

  using Cancelled = std::function<bool()>;

  VolumeStore(async::Context& context, Options options);

  /// Finds out whether copies can share blocks, and whether sizes can be enforced.
  [[nodiscard]] Status prepare();
  /// Why the size of a volume is not enforced; "" when it is.
  [[nodiscard]] std::string why_not_enforced() const;

  /// Makes what is missing and tells where all are. One that is there keeps its owner and mode; all
  /// have the size that is asked for now.
  [[nodiscard]] async::Task<Result<std::vector<Volume>>> make(std::string uid,
                                                              std::vector<VolumePlan> plans);
  /// What a copy of them would take on disk, about: 0 where blocks are shared.
  [[nodiscard]] async::Task<Result<std::int64_t>> foresee(std::string uid,
                                                          std::vector<std::string> names);
  /// Copies them into `directory` (a snapshot in the making) and adds them to its manifest. For
  /// while the guest stands still; SnapshotStore::seal makes the copies durable.
  [[nodiscard]] async::Task<Status> save(std::string uid, std::vector<std::string> names,
                                         std::string directory,
                                         std::shared_ptr<v1alpha1::SnapshotManifest> manifest,
                                         Cancelled cancelled);
  /// Makes the volumes of `uid` (this actor's or a fork's) those of the snapshot, durably: a crash
  /// leaves the old ones, or the new ones. What the snapshot doesn't have is gone. SnapshotCorrupt
  /// when the copies are not what was saved.
  [[nodiscard]] async::Task<Status> restore(std::string uid, SnapshotStore::Opened snapshot,
                                            Cancelled cancelled);
  /// As a new actor has them: none.
  [[nodiscard]] async::Task<Status> reset(std::string uid);
  /// Removes what an interrupted restore or reset left, and with `all` the volumes themselves.
  [[nodiscard]] async::Task<Status> remove(std::string uid, bool all);
  /// The listings of a snapshot's copies against its manifest. SnapshotCorrupt.
  [[nodiscard]] async::Task<Status> verify(SnapshotStore::Opened snapshot);

  /// What a restore of it takes on disk.
  [[nodiscard]] std::int64_t restore_bytes(const v1alpha1::SnapshotManifest& manifest) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ate::artifacts
