#pragma once

#include <memory>
#include <string>

#include "engine/state.hpp"

namespace ate::engine {

/// A snapshot on its way, whoever asked for it.
struct Engine::State::Save {
  GuestPtr guest;
  std::string id;
  core::State transient = core::State::Suspending;  // RUNNING: a live one
  std::string kind;                                 // unless it follows from that
  std::shared_ptr<v1alpha1::SnapshotManifest> manifest;
  artifacts::SnapshotStore::Sealed sealed;
  core::Scope scope = core::Scope::Full;
  std::vector<std::string> volumes;    // durable ones, by name
  std::chrono::milliseconds grace{0};  // DATA: between the stop signal and the kill
};

/// `suspend-after-intent`, `pause-after-intent`, ...
[[nodiscard]] std::string failpoint_name(const Run& run, const char* where);

/// The row of a sealed snapshot.
[[nodiscard]] std::shared_ptr<v1alpha1::Snapshot> snapshot_row(
    const v1alpha1::SnapshotManifest& manifest, const artifacts::SnapshotStore::Sealed& sealed);

}  // namespace ate::engine
