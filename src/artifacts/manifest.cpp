#include "artifacts/manifest.hpp"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "ate/artifacts/artifacts.hpp"
#include "ate/codec/codec.hpp"
#include "ate/os/fs.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::artifacts {

namespace {

constexpr std::size_t kMaxManifestBytes = std::size_t{4} << 20U;
constexpr std::size_t kXxh3Digits = 32;

bool is_lower_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/// Relative, downward, and not the manifest itself.
bool is_payload_name(std::string_view name) {
  if (name.empty() || name == kManifestName || name.size() > 1024 ||
      name.find('\0') != std::string_view::npos) {
    return false;
  }
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    if (part.empty() || part == "." || part == "..") {
      return false;
    }
    start = end + 1;
  }
  return true;
}

/// A DNS label, as core/validate lets through.
bool is_volume_name(std::string_view name) {
  constexpr std::size_t kLabel = 63;
  return !name.empty() && name.size() <= kLabel && name.front() != '-' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

/// The version that a text claims, also one whose other members we don't know; 0 = none.
std::int32_t claimed_version(std::string_view text) {
  constexpr std::string_view kKey = "\"version\"";
  std::size_t at = text.find(kKey);
  if (at == std::string_view::npos) {
    return 0;
  }
  at = text.find_first_not_of(": \t\r\n", at + kKey.size());
  if (at == std::string_view::npos) {
    return 0;
  }
  std::int32_t version = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), version);
  return version;
}

Status check_shape(const v1alpha1::SnapshotManifest& manifest, const std::string& id) {
  if (manifest.id() != id) {
    return corrupt(id, "its manifest is that of " + manifest.id());
  }
  // A snapshot of volumes only has no payload.
  if (manifest.files().empty() && manifest.volumes().empty()) {
    return corrupt(id, "its manifest names no file");
  }
  std::set<std::string_view> volumes;
  for (const v1alpha1::SnapshotVolume& volume : manifest.volumes()) {
    if (!is_volume_name(volume.name()) || !volumes.insert(volume.name()).second) {
      return corrupt(id, "its manifest has a malformed entry for a volume");
    }
  }
  std::set<std::string_view> names;
  for (const v1alpha1::SnapshotFile& file : manifest.files()) {
    const bool digits = file.xxh3().size() == kXxh3Digits &&
                        std::all_of(file.xxh3().begin(), file.xxh3().end(), is_lower_hex);
    if (!is_payload_name(file.name()) || !digits || file.bytes() < 0 ||
        !names.insert(file.name()).second) {
      return corrupt(id, "its manifest has a malformed entry for a file");
    }
  }
  return {};
}

}  // namespace

bool is_snapshot_id(const std::string& id) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !id.empty() && id.size() <= 64 && id.front() != '-' &&
         std::all_of(id.begin(), id.end(), allowed);
}

std::unexpected<Error> corrupt(const std::string& id, const std::string& what) {
  return fail(Error(Errc::SnapshotCorrupt, "snapshot " + id + ": " + what).with("snapshot", id));
}

Result<std::string> write_manifest(const std::string& directory,
                                   const v1alpha1::SnapshotManifest& manifest) {
  std::string text = codec::to_json(manifest, "");
  text += '\n';
  const std::string path = directory + "/" + kManifestName;
  ATE_TRY(os::create_file(path, text, 0600));
  ATE_TRY(os::fsync_path(path));
  return text;
}

Result<std::shared_ptr<v1alpha1::SnapshotManifest>> read_manifest(const UniqueFd& directory,
                                                                  const std::string& id,
                                                                  const std::string& sha256) {
  const UniqueFd file(::openat(directory.get(), kManifestName,
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file) {
    return corrupt(id, "manifest.json is missing");
  }
  Result<std::string> text = os::read_descriptor(file.get(), kMaxManifestBytes, kManifestName);
  if (!text) {
    return corrupt(id, text.error().message());
  }
  if (const std::string actual = sha256_text(*text); actual != sha256) {
    return corrupt(id, "manifest.json has digest " + actual + ", recorded was " + sha256);
  }
  if (const std::int32_t version = claimed_version(*text); version > kManifestVersion) {
    return fail(Error(Errc::SnapshotIncompatible,
                      "snapshot " + id + " was written by a newer ate-noded (manifest version " +
                          std::to_string(version) + ", this one reads up to " +
                          std::to_string(kManifestVersion) + ")")
                    .with("snapshot", id));
  }
  auto manifest = std::make_shared<v1alpha1::SnapshotManifest>();
  if (Status parsed = codec::from_json(*text, "", *manifest); !parsed) {
    return corrupt(id, "manifest.json can't be read: " + parsed.error().message());
  }
  ATE_TRY(check_shape(*manifest, id));
  return manifest;
}

}  // namespace ate::artifacts
