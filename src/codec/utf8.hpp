#pragma once

#include <cstddef>
#include <string_view>

namespace ate::codec {

/// Length (1..4) of the well-formed UTF-8 sequence at `text[at]`; 0 when it is none (overlong
/// forms, surrogates and values past U+10FFFF included).
[[nodiscard]] std::size_t utf8_length(std::string_view text, std::size_t at);

/// Offset of the first byte that is not UTF-8, or npos.
[[nodiscard]] std::size_t find_invalid_utf8(std::string_view text);

}  // namespace ate::codec
