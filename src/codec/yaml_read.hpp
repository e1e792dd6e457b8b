#pragma once

#include <cstdint>
#include <string_view>

#include "ate/util/result.hpp"
#include "codec/node.hpp"

namespace ate::codec {

/// One YAML document, without its `---` line. `first_line` is where it starts in its file. The text
/// has passed scan_characters. Malformed with one problem that carries line and column.
[[nodiscard]] Result<Node> read_yaml(std::string_view text, std::uint32_t first_line);

}  // namespace ate::codec
