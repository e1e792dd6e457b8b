#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ate/async/task.hpp"

namespace ate::v1alpha1 {
class SnapshotManifest;
}  // namespace ate::v1alpha1

namespace ate::artifacts {

/// Version of a snapshot's manifest that is written; a higher one is refused, lower ones are read.
/// 2: durable volumes, other scopes than FULL.
inline constexpr std::int32_t kManifestVersion = 2;

/// SHA-256 as lower-case hex.
[[nodiscard]] std::string sha256_text(const std::string& text);

/// Content-addressed copies of what a snapshot needs to be restored (runsc now; VMM, kernel later):
/// <stateDir>/assets/sha256/<hex>, 0755, written once, verified when adopted.
class AssetStore {
 public:
  AssetStore(async::Context& context, std::string directory);
  [[nodiscard]] Status prepare();
  /// Copies `path` in (regular file of at most 1 GiB, not group/world-writable, O_NOFOLLOW) and
  /// returns "sha256:<hex>". `expected` ("" or "sha256:<hex>") must match: AssetInvalid names both.
  /// A file whose (dev, ino, size, mtime, ctime) were hashed before by this object is not read
  /// again.
  [[nodiscard]] async::Task<Result<std::string>> import(std::string path, std::string expected);
  /// Path of an asset that is there; AssetInvalid when it is missing.
  [[nodiscard]] Result<std::string> path_of(const std::string& digest) const;

  struct Listed {
    std::string digest;
    std::int64_t bytes = 0;
    std::int64_t made_ms = 0;  // wall clock
  };

  [[nodiscard]] Result<std::vector<Listed>> list() const;
  /// The caller knows that nothing names it; an import that comes later copies it again.
  [[nodiscard]] Status remove(const std::string& digest);

 private:
  struct Known;
  async::Context& context_;
  std::string directory_;
  std::shared_ptr<Known> known_;  // digests by identity of the source; used on the loop only
};

/// Snapshot directories: <stateDir>/snapshots/<id>/{manifest.json, payload...}. A snapshot exists
/// when its manifest does; the manifest is written last, into `<id>.partial`, which is then
/// renamed.
class SnapshotStore {
 public:
  struct Options {
    std::string directory;                   // <stateDir>/snapshots
    std::int64_t reserve_bytes = 1LL << 30;  // NodeConfig.spec.diskReserve
    /// Give the payload's page cache back after the fsync. Off: see docs of seal().
    bool drop_page_cache = false;
  };

  SnapshotStore(async::Context& context, Options options);
  ~SnapshotStore();
  SnapshotStore(const SnapshotStore&) = delete;
  SnapshotStore& operator=(const SnapshotStore&) = delete;
  SnapshotStore(SnapshotStore&&) = delete;
  SnapshotStore& operator=(SnapshotStore&&) = delete;

  [[nodiscard]] Status prepare();

  /// DiskFull (507) with neededBytes/freeBytes when free space - `expected_bytes` < reserve. Before
  /// the pause.
  [[nodiscard]] Status check_space(std::int64_t expected_bytes) const;
  /// Creates the empty `<id>.partial` directory, 0700, and returns its path.
  [[nodiscard]] async::Task<Result<std::string>> begin(std::string id);

  /// fsyncs every payload file, drops it from the page cache where asked, hashes it (XXH3-128),
  /// fills manifest.files, writes manifest.json, fsyncs, renames to <id>, fsyncs the parent.
  /// Returns the SHA-256 of manifest.json and the bytes of it all. After an error the caller calls
  /// remove(). The page cache is kept by default: after the fsync the pages are clean, so that any
  /// pressure takes them first, and a resume that comes soon reads memory instead of the disk
  /// (docs/performance.md).
  struct Sealed {
    std::string manifest_sha256;
    std::int64_t bytes = 0;
  };

  [[nodiscard]] async::Task<Result<Sealed>> seal(
      std::string id, std::shared_ptr<v1alpha1::SnapshotManifest> manifest);
  /// Removes a partial or a whole snapshot's files and what an earlier remove() left (rename aside,
  /// then unlink). Idempotent.
  [[nodiscard]] async::Task<Status> remove(std::string id);

  /// Reads manifest.json, checks its SHA-256 against the store's row, its shape, the presence and
  /// the size of every file. SnapshotCorrupt otherwise; SnapshotIncompatible when a newer ate-noded
  /// wrote it. Cheap: no payload is read.
  struct Opened {
    std::string directory;
    std::shared_ptr<v1alpha1::SnapshotManifest> manifest;
    /// (dev, ino, size, ctime) of all files are those that this process sealed or verified.
    bool trusted = false;
  };

  [[nodiscard]] async::Task<Result<Opened>> open(std::string id, std::string manifest_sha256);
  /// XXH3-128 of every payload file against the manifest; runs beside a restore, in slices, so that
  /// a cancellation ends it soon. SnapshotCorrupt. Reads always, also what is trusted.
  [[nodiscard]] async::Task<Status> verify_payload(Opened opened);

  /// Ids of whole snapshots and of partial or discarded remains on disk.
  struct Listing {
    std::vector<std::string> complete;
    std::vector<std::string> partial;
  };

  [[nodiscard]] async::Task<Result<Listing>> list();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ate::artifacts
