#pragma once

#include <string>
#include <vector>

#include "ate/util/result.hpp"

namespace ate::v1alpha1 {
class SnapshotManifest;
}  // namespace ate::v1alpha1

/// Whether this host can restore a snapshot, by its manifest alone (cases T31, T32). Pure.
namespace ate::runtime::gvisor {

/// Everything but the CPU: class, version, scope, network and overlay mode, platform, spec.
/// SnapshotIncompatible with `field`, `snapshotValue`, `hostValue`; SnapshotCorrupt for what no
/// program of ours has written.
[[nodiscard]] Status check_manifest(const v1alpha1::SnapshotManifest& manifest);
/// The host must have every CPU feature that the saving host had; `host` is sorted.
[[nodiscard]] Status check_cpu(const v1alpha1::SnapshotManifest& manifest,
                               const std::vector<std::string>& host);
/// sha256:<hex> of the runsc that wrote the snapshot; "" when it names none.
[[nodiscard]] std::string asset_digest(const v1alpha1::SnapshotManifest& manifest);
/// manifest.runtime[key], "" when missing.
[[nodiscard]] std::string runtime_value(const v1alpha1::SnapshotManifest& manifest,
                                        const std::string& key);

}  // namespace ate::runtime::gvisor
