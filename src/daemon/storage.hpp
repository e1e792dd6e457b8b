#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ate/api/backend.hpp"
#include "ate/artifacts/artifacts.hpp"
#include "ate/core/paths.hpp"
#include "ate/core/retention.hpp"
#include "ate/image/image.hpp"

namespace ate::daemon {

/// What takes the space, and what of it may go: images and sandbox binaries that nothing names, and
/// live snapshots that their template does not keep. Collects in the background and on demand.
class Storage {
 public:
  struct Options {
    std::chrono::milliseconds unreferenced_for{std::chrono::hours(24)};
    std::int64_t budget_bytes = 0;  // 0 = none
    std::int64_t reserve_bytes = 0;
    std::chrono::milliseconds period{std::chrono::minutes(1)};
  };

  Storage(async::Context& context, engine::Engine& engine, objects::Catalog& catalog,
          image::Store& images, artifacts::AssetStore& assets, artifacts::SnapshotStore& snapshots,
          const core::Paths& paths, const Clock& clock, const Log& log, Options options);

  [[nodiscard]] async::Task<Result<api::Backend::StorageReport>> report();
  /// Everything that may go, whatever its age.
  [[nodiscard]] async::Task<Result<api::Backend::Collected>> collect(bool dry_run);
  /// Collects what has been unreferenced for long enough, or at once when over the budget; until
  /// cancelled.
  [[nodiscard]] async::Task<void> run();

 private:
  struct Named;
  struct Survey;

  [[nodiscard]] async::Task<std::set<std::string>> read_manifests();
  [[nodiscard]] async::Task<Named> named();
  [[nodiscard]] async::Task<Result<Survey>> survey();
  [[nodiscard]] std::vector<core::Doomed> expired() const;
  [[nodiscard]] async::Task<Status> remove(core::Doomed item);
  [[nodiscard]] async::Task<void> turn();
  /// A cheap look: whether anything could go at all.
  [[nodiscard]] async::Task<bool> worth_a_turn();
  [[nodiscard]] std::int64_t now_ms() const;

  async::Context& context_;
  engine::Engine& engine_;
  objects::Catalog& catalog_;
  image::Store& images_;
  artifacts::AssetStore& assets_;
  artifacts::SnapshotStore& snapshots_;
  const core::Paths& paths_;
  const Clock& clock_;
  const Log& log_;
  const Options options_;
  async::Mutex collecting_;
  std::map<std::string, objects::Catalog::Pins> by_snapshot_;  // what each manifest names
  std::map<std::string, SteadyTime> unnamed_since_;
  bool told_over_budget_ = false;
};

}  // namespace ate::daemon
