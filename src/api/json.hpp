#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ate::api {

/// JSON string literal; invalid UTF-8 becomes U+FFFD, control characters are escaped.
[[nodiscard]] std::string json_quote(std::string_view text);
/// `[a,b]` of JSON texts.
[[nodiscard]] std::string json_array(const std::vector<std::string>& items);

/// Writes one JSON object member by member. Messages go through codec; this is for the few answers
/// that are no message (problem documents, lists, readiness).
class JsonObject {
 public:
  JsonObject& text(std::string_view key, std::string_view value);
  JsonObject& number(std::string_view key, std::int64_t value);
  JsonObject& boolean(std::string_view key, bool value);
  JsonObject& strings(std::string_view key, const std::vector<std::string>& values);
  /// `json` is written as it is.
  JsonObject& raw(std::string_view key, std::string_view json);
  [[nodiscard]] std::string finish() &&;

 private:
  void key(std::string_view name);
  std::string out_ = "{";
};

}  // namespace ate::api
