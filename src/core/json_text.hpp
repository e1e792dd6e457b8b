#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The little JSON that core needs without a library: writing with proper escapes, and finding the
/// place of a value in a text so that it can be replaced and nothing else touched.
namespace ate::core {

/// Appends `text` as a JSON string. Bytes that are not UTF-8 become U+FFFD, since JSON can't carry
/// them.
void append_json_string(std::string& out, std::string_view text);

/// A value inside a text, `[begin, end)`.
struct JsonSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Checks that all of `text` is one JSON value of bounded depth.
[[nodiscard]] bool json_well_formed(std::string_view text);
/// Span of the value of `key` in the object at `object`; nullopt when it has none or is no object.
/// The text must be well-formed; so for the functions below.
[[nodiscard]] std::optional<JsonSpan> json_member(std::string_view text, JsonSpan object,
                                                  std::string_view key);
/// Spans of the elements of the array at `array`; empty for anything else.
[[nodiscard]] std::vector<JsonSpan> json_elements(std::string_view text, JsonSpan array);
/// The string at `value`, unescaped; nullopt when it is no string.
[[nodiscard]] std::optional<std::string> json_string(std::string_view text, JsonSpan value);
/// The span of the outermost value.
[[nodiscard]] JsonSpan json_root(std::string_view text);

}  // namespace ate::core
