#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ate/artifacts/artifacts.hpp"
#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::artifacts {

inline constexpr const char* kManifestName = "manifest.json";
/// Where in a snapshot the copies of durable volumes are; no payload file.
inline constexpr const char* kVolumesName = "volumes";

/// What can be said of an id before it becomes a path: 1..64 of [a-z0-9-], no dash in front.
[[nodiscard]] bool is_snapshot_id(const std::string& id);

/// Writes manifest.json into the directory, and syncs the file; its text.
[[nodiscard]] Result<std::string> write_manifest(const std::string& directory,
                                                 const v1alpha1::SnapshotManifest& manifest);

/// Reads and checks manifest.json: digest, version, id, and that each file's name and checksum have
/// the only shape we write. SnapshotCorrupt, SnapshotIncompatible (newer).
[[nodiscard]] Result<std::shared_ptr<v1alpha1::SnapshotManifest>> read_manifest(
    const UniqueFd& directory, const std::string& id, const std::string& sha256);

/// An error of a snapshot that can't be used, with its id.
[[nodiscard]] std::unexpected<Error> corrupt(const std::string& id, const std::string& what);

}  // namespace ate::artifacts
