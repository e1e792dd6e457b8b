#include "runtime/gvisor/compatibility.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ate/artifacts/artifacts.hpp"
#include "ate/core/oci_spec.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "runtime/gvisor/guest.hpp"
#include "runtime/gvisor/trial.hpp"

namespace ate::runtime::gvisor {
namespace {

Error incompatible(const std::string& field, const std::string& snapshot, const std::string& host) {
  return Error(Errc::SnapshotIncompatible,
               "the snapshot has " + field + " '" + snapshot + "', this host '" + host + "'")
      .with_field(field)
      .with("snapshotValue", snapshot)
      .with("hostValue", host);
}

Status same(const v1alpha1::SnapshotManifest& manifest, const std::string& key,
            const std::string& ours) {
  const std::string theirs = runtime_value(manifest, key);
  if (theirs == ours) {
    return {};
  }
  return fail(incompatible("runtime." + key, theirs, ours));
}

Status check_spec(const std::string& spec) {
  const Result<std::vector<std::string>> binds = core::bind_destinations(spec);
  return binds ? Status{} : Status(fail(binds.error()));
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ",") + word;
  }
  return text;
}

}  // namespace

std::string asset_digest(const v1alpha1::SnapshotManifest& manifest) {
  const auto found = manifest.assets().find("runsc");
  return found == manifest.assets().end() ? std::string() : found->second;
}

std::string runtime_value(const v1alpha1::SnapshotManifest& manifest, const std::string& key) {
  const auto found = manifest.runtime().find(key);
  return found == manifest.runtime().end() ? std::string() : found->second;
}

Status check_manifest(const v1alpha1::SnapshotManifest& manifest) {
  if (manifest.version() > artifacts::kManifestVersion) {
    return fail(incompatible("version", std::to_string(manifest.version()),
                             std::to_string(artifacts::kManifestVersion)));
  }
  if (manifest.sandbox_class() != v1alpha1::SandboxClass::gvisor) {
    return fail(incompatible("sandboxClass", v1alpha1::SandboxClass_Name(manifest.sandbox_class()),
                             "gvisor"));
  }
  if (manifest.scope() != "FULL" && !manifest.scope().empty()) {
    return fail(incompatible("scope", manifest.scope(), "FULL"));
  }
  ATE_TRY(same(manifest, "network", kNetworkMode));
  ATE_TRY(same(manifest, "overlay", kOverlayMode));
  const std::string platform = runtime_value(manifest, "platform");
  if (platform != "systrap" && platform != "kvm" && platform != "ptrace") {
    return fail(incompatible("runtime.platform", platform, "systrap, kvm or ptrace"));
  }
  if (asset_digest(manifest).empty()) {
    return fail(
        Error(Errc::SnapshotCorrupt, "the manifest names no runsc").with_field("assets.runsc"));
  }
  ATE_TRY(check_spec(manifest.oci_spec()));
  for (const v1alpha1::ContainerSnapshot& container : manifest.containers()) {
    ATE_TRY(check_spec(container.oci_spec()));
  }
  return {};
}

Status check_cpu(const v1alpha1::SnapshotManifest& manifest, const std::vector<std::string>& host) {
  std::vector<std::string> wanted(manifest.cpu_features().begin(), manifest.cpu_features().end());
  std::sort(wanted.begin(), wanted.end());
  const std::vector<std::string> missing = missing_features(wanted, host);
  if (missing.empty()) {
    return {};
  }
  return fail(Error(Errc::SnapshotIncompatible, "the snapshot was taken on a CPU with " +
                                                    joined(missing) + ", which this host lacks")
                  .with_field("cpuFeatures")
                  .with("missing", missing)
                  .with("snapshotValue", joined(wanted))
                  .with("hostValue", joined(host)));
}

}  // namespace ate::runtime::gvisor
