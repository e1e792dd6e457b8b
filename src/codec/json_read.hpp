#pragma once

#include <string_view>

#include "ate/util/result.hpp"
#include "codec/node.hpp"

namespace ate::codec {

/// Strict RFC 8259: UTF-8 only, depth <= kMaxDepth, nothing after the value. Malformed with line
/// and column. Duplicate keys are kept: the mapper refuses them with their path.
[[nodiscard]] Result<Node> read_json(std::string_view text);

}  // namespace ate::codec
