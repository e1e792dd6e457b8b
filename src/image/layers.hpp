#pragma once

#include <string>
#include <vector>

#include "image/layout.hpp"
#include "image/oci.hpp"
#include "image/unpack.hpp"

namespace ate::image {

/// A layer to be applied, and what its bytes must hash to.
struct LayerStream {
  FileSpan span;
  Compression compression = Compression::None;
  std::string label;    // for messages
  std::string digest;   // of the bytes as they are; "" = nothing says
  std::string diff_id;  // of the uncompressed tar
};

/// Applies `layers` in order to the empty directory `root`; see unpack_image.
[[nodiscard]] Result<UnpackReport> unpack_layers(const std::vector<LayerStream>& layers,
                                                 Config process, UniqueFd root);

}  // namespace ate::image
