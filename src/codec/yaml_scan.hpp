#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ate::codec {

struct ScanProblem {
  std::string detail;
  std::uint32_t line = 0;    // 1-based within the text given
  std::uint32_t column = 0;  // 1-based, in bytes
};

/// Characters that may stand in an object file: UTF-8 without control characters, lone carriage
/// returns or a byte order mark.
[[nodiscard]] std::optional<ScanProblem> scan_characters(std::string_view text);

/// Checks one document against the subset of YAML that object files may use, before yaml-cpp sees
/// it: no directives, anchors, aliases, tags, complex keys, tabs as indentation, plain scalars over
/// several lines or indentation indicators, and well-formed flow collections of bounded depth.
/// yaml-cpp 0.7 never ends on some texts outside of it (a lone comma is enough).
[[nodiscard]] std::optional<ScanProblem> scan_structure(std::string_view text);

}  // namespace ate::codec
