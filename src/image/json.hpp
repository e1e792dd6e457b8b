#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ate/util/result.hpp"

namespace ate::image::json {

struct Value;
using Array = std::vector<Value>;

/// Keys and values in the order of the text.
struct Object {
  std::vector<std::string> keys;
  Array values;
};

/// A JSON value. Numbers that are not 64-bit integers are kept as `double`.
struct Value {
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object> data =
      nullptr;

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::nullptr_t>(data); }

  [[nodiscard]] const std::string* text() const { return std::get_if<std::string>(&data); }

  [[nodiscard]] const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data); }

  [[nodiscard]] const Array* array() const { return std::get_if<Array>(&data); }

  [[nodiscard]] const Object* object() const { return std::get_if<Object>(&data); }

  /// Member of an object; nullptr when absent, null, or when this is no object.
  [[nodiscard]] const Value* find(std::string_view key) const;
};

/// Strict RFC 8259 with the limits of limits.hpp: duplicate keys, invalid UTF-8 and anything after
/// the value are refused. Not Boost.JSON: that one keeps the last of two equal keys, and this runs
/// on what a stranger wrote. ImageInvalid says what and at which byte.
[[nodiscard]] Result<Value> parse(std::string_view text);

/// `text` as a JSON string, quotes included. `text` must be UTF-8.
[[nodiscard]] std::string quote(std::string_view text);

/// True for well-formed UTF-8 (no surrogates, no overlong forms).
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace ate::image::json
