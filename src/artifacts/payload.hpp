#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "artifacts/digest.hpp"
#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::v1alpha1 {
class SnapshotManifest;
}  // namespace ate::v1alpha1

namespace ate::artifacts {

/// A payload file held open from its hash to its fsync.
struct PayloadFile {
  std::string name;  // relative to the snapshot's directory
  UniqueFd fd;
  struct stat info{};
  std::string xxh3;
};

/// What is in a snapshot's directory besides the manifest.
struct Tree {
  std::vector<std::string> files;        // sorted
  std::vector<std::string> directories;  // relative, parents first, without the top
};

/// Walks `directory`. SnapshotCorrupt for anything that is neither file nor directory, and beyond
/// 256 files or 4 levels.
[[nodiscard]] Result<Tree> walk(const UniqueFd& directory, const std::string& id);

/// Opens all payload files and remembers what they are now.
[[nodiscard]] Result<std::vector<PayloadFile>> open_payload(const UniqueFd& directory,
                                                            const std::string& id,
                                                            const std::vector<std::string>& names);
/// Fills xxh3 of each, from the page cache.
[[nodiscard]] Status hash_payload(std::vector<PayloadFile>& files);
/// fsync of each. May run beside hash_payload.
[[nodiscard]] Status sync_payload(const std::vector<PayloadFile>& files);
/// Internal when a file changed since it was opened: its checksum would be that of something else.
/// Gives the page cache back where asked.
[[nodiscard]] Status finish_payload(const std::vector<PayloadFile>& files, bool drop_page_cache);

/// Checksum over the identities of all payload files: 32 digits to remember instead of all of them.
class Fingerprint {
 public:
  void add(const std::string& name, const struct stat& info);

  [[nodiscard]] std::string finish() const { return digest_.finish(); }

 private:
  Xxh3 digest_;
};

/// Presence, kind and size of every file of `manifest`, and that there is no other. Returns the
/// fingerprint. SnapshotCorrupt.
[[nodiscard]] Result<std::string> check_files(const UniqueFd& directory,
                                              const v1alpha1::SnapshotManifest& manifest);

/// Reads payload files against their checksums, slice by slice.
class Verifier {
 public:
  Verifier(std::string directory, std::shared_ptr<const v1alpha1::SnapshotManifest> manifest);

  /// Reads about 64 MiB; false when all is done. SnapshotCorrupt.
  [[nodiscard]] Result<bool> step();

  /// After the last step.
  [[nodiscard]] std::string fingerprint() const { return fingerprint_.finish(); }

 private:
  [[nodiscard]] Status open_next();
  [[nodiscard]] Status close_current();

  std::string path_;
  std::shared_ptr<const v1alpha1::SnapshotManifest> manifest_;
  int index_ = 0;
  UniqueFd fd_;
  std::string identity_;
  std::int64_t offset_ = 0;
  std::unique_ptr<Xxh3> digest_;
  std::vector<std::byte> buffer_;
  Fingerprint fingerprint_;
};

}  // namespace ate::artifacts
