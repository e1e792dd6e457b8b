#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ate/image/image.hpp"
#include "image/json.hpp"

namespace ate::image {

/// What kind of document a descriptor names; decided by its media type alone.
enum class DocumentKind : std::uint8_t { Index, Manifest, Other };

struct Descriptor {
  std::string media_type;
  std::string digest;  // sha256:<64 hex>, checked
  std::uint64_t size = 0;
  std::string os;            // "" = no platform given
  std::string architecture;  // "" = no platform given
  std::string tag;           // org.opencontainers.image.ref.name, "" = none
  std::string full_name;     // io.containerd.image.name, "" = none
  bool attestation = false;  // buildkit's provenance: listed beside images, never one

  [[nodiscard]] DocumentKind kind() const;
};

enum class Compression : std::uint8_t { None, Gzip, Zstd };

struct Layer {
  Descriptor blob;
  Compression compression = Compression::None;
};

struct Manifest {
  Descriptor config;
  std::vector<Layer> layers;
};

struct ImageConfig {
  Config process;
  std::vector<std::string> diff_ids;  // one per layer, sha256 of the uncompressed tar
};

/// An image index or docker manifest list. All these return ImageInvalid with the reason.
[[nodiscard]] Result<std::vector<Descriptor>> parse_index(std::string_view text);
/// An image manifest or docker v2s2 manifest; every layer's media type is one we can read.
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text);
/// An image config for linux/amd64 with the process part validated.
[[nodiscard]] Result<ImageConfig> parse_image_config(std::string_view text);

/// The one entry of index.json that `tag` means; with an empty tag the only usable one.
[[nodiscard]] Result<Descriptor> select_tag(const std::vector<Descriptor>& entries,
                                            const std::string& tag);
/// The one linux/amd64 entry of a nested index.
[[nodiscard]] Result<Descriptor> select_platform(const std::vector<Descriptor>& entries);

/// Process part of an image, as written to the store and in the helper's reply.
[[nodiscard]] std::string config_to_json(const Config& config);
/// The reverse, with the same checks as for an image's own config.
[[nodiscard]] Result<Config> config_from_json(const core::JsonValue& value);
/// Checks what an image says about its process: no NUL, `NAME=VALUE`, bounded, absolute directory.
[[nodiscard]] Status check_config(Config& config);

}  // namespace ate::image
