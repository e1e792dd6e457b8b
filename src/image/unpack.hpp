#pragma once

#include <cstdint>
#include <string>

#include "ate/image/image.hpp"
#include "image/layout.hpp"

namespace ate::image {

/// Follows index.json, and indexes in it, to the one manifest that `tag` means on linux/amd64.
[[nodiscard]] Result<std::string> resolve_digest(Layout& layout, const std::string& tag);

struct UnpackReport {
  Config config;
  std::uint64_t entries = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t skipped_devices = 0;
};

/// Reads the manifest `digest`, its config and every layer into the empty directory `root`; every
/// digest, size and diff_id is checked. Ends with syncfs. On an error the tree is in any state: the
/// caller throws it away. `root` is given away.
[[nodiscard]] Result<UnpackReport> unpack_image(Layout& layout, const std::string& digest,
                                                UniqueFd root);

// docker.cpp: the same for an archive of `docker save`. Its digest is that of the image's config,
// which binds the layers by their diff_ids; the archive itself names no other.

/// The one image that `tag` (`name:tag`, or `name`) means; "" when there is only one.
[[nodiscard]] Result<std::string> resolve_docker(Layout& layout, const std::string& tag);
[[nodiscard]] Result<UnpackReport> unpack_docker(Layout& layout, const std::string& digest,
                                                 UniqueFd root);

}  // namespace ate::image
