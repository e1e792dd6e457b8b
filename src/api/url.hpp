#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ate/util/result.hpp"

/// What the API accepts of a request target: decoded once, then refused unless canonical.
namespace ate::api {

/// Segments between the slashes, still encoded. One trailing slash is ignored. Malformed: no slash
/// in front, an empty segment.
[[nodiscard]] Result<std::vector<std::string_view>> split_path(std::string_view path);

/// Percent-decodes one segment. Malformed: broken escapes, control characters, non-ASCII bytes, an
/// encoded slash or backslash, `.` and `..` in any spelling.
[[nodiscard]] Result<std::string> decode_segment(std::string_view segment);

using Query = std::vector<std::pair<std::string, std::string>>;

/// `a=1&b` -> {a,1},{b,""}. Malformed: broken escapes, control characters, an empty name.
[[nodiscard]] Result<Query> parse_query(std::string_view query);

/// Opaque page token of a sort key and back. Malformed for what this did not write.
[[nodiscard]] std::string make_page_token(std::string_view key);
[[nodiscard]] Result<std::string> read_page_token(std::string_view token);

}  // namespace ate::api
