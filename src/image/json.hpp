#pragma once

#include <string_view>

#include "ate/core/json.hpp"
#include "ate/util/result.hpp"

namespace ate::image {

/// Strict JSON within the limits of limits.hpp; of two equal keys in one object none is preferred,
/// both are refused. ImageInvalid says what and at which byte.
[[nodiscard]] Result<core::JsonValue> parse_json(std::string_view text);

}  // namespace ate::image
