#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The one JSON reader and writer. A strict one of our own, because it reads what strangers wrote
/// (images, requests) and what must be changed in one place without touching the rest (the OCI spec
/// of a snapshot): that needs refused duplicates, limits and the place of every value.
namespace ate::core {

/// Length (1..4) of the well-formed UTF-8 sequence at `text[at]`; 0 when it is none (overlong
/// forms, surrogates and values past U+10FFFF included).
[[nodiscard]] std::size_t utf8_length(std::string_view text, std::size_t at);

/// Appends `text` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
[[nodiscard]] std::string json_quote(std::string_view text);
/// `[a,b]` of JSON texts.
[[nodiscard]] std::string json_array(const std::vector<std::string>& items);
/// `["a","b"]` of plain texts.
[[nodiscard]] std::string json_strings(const std::vector<std::string>& values);

/// Writes one JSON object member by member. Messages go through codec; this is for the few texts
/// that are no message.
class JsonObject {
 public:
  JsonObject& text(std::string_view key, std::string_view value);

  template <std::integral Number>
  JsonObject& number(std::string_view key, Number value) {
    return raw(key, std::to_string(value));
  }

  JsonObject& boolean(std::string_view key, bool value);
  JsonObject& strings(std::string_view key, const std::vector<std::string>& values);
  /// `json` is written as it is.
  JsonObject& raw(std::string_view key, std::string_view json);
  [[nodiscard]] std::string finish() &&;

 private:
  void key(std::string_view name);
  std::string out_ = "{";
};

struct JsonMember;

/// A value and where it stands in the text it was read from: bytes `[begin, end)`.
struct JsonValue {
  enum class Kind : std::uint8_t { Null, Bool, Number, String, Array, Object };
  Kind kind = Kind::Null;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string text;  // of a String; the spelling of Number, Bool and Null
  std::vector<JsonValue> items;
  std::vector<JsonMember> members;  // in the order of the text

  [[nodiscard]] bool is_object() const { return kind == Kind::Object; }

  /// nullptr or nullopt when this is of another kind.
  [[nodiscard]] const std::string* as_text() const;
  [[nodiscard]] const std::vector<JsonValue>* as_array() const;
  [[nodiscard]] std::optional<bool> as_bool() const;
  /// nullopt also for numbers with a point or an exponent, and beyond 64 bits.
  [[nodiscard]] std::optional<std::int64_t> as_integer() const;
  /// Member of an object; nullptr when absent, null, or when this is no object.
  [[nodiscard]] const JsonValue* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  std::size_t begin = 0;  // of the key
  JsonValue value;
};

/// What one text may ask for. A MiB of `[[],[],…` would otherwise become 50 MiB of values.
struct JsonLimits {
  std::size_t bytes = std::size_t{4} << 20U;
  std::size_t depth = 32;  // lists and objects within each other
  std::size_t values = 200'000;
  bool unique_keys = true;  // false: the reader of the tree looks for duplicates itself
};

/// Why a text is refused, and at which byte of it.
struct JsonFault {
  std::size_t at = 0;
  std::string what;
};

/// Strict RFC 8259: well-formed UTF-8 only, no lone surrogates, nothing after the value.
[[nodiscard]] std::expected<JsonValue, JsonFault> parse_json(std::string_view text,
                                                             const JsonLimits& limits);

}  // namespace ate::core
