#include <algorithm>
#include <charconv>
#include <utility>

#include "ate/core/json.hpp"

namespace ate::core {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

int hex_value(char c) {
  if (is_digit(c)) {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | (code >> 6U));
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U));
    put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

/// A member whose key stands before it in the same object; nullptr when there is none.
const JsonMember* find_duplicate(const std::vector<JsonMember>& members) {
  std::vector<const JsonMember*> sorted;
  sorted.reserve(members.size());
  for (const JsonMember& member : members) {
    sorted.push_back(&member);
  }
  std::ranges::sort(sorted, [](const JsonMember* a, const JsonMember* b) {
    return std::pair(std::string_view(a->key), a->begin) <
           std::pair(std::string_view(b->key), b->begin);
  });
  const auto found = std::ranges::adjacent_find(
      sorted, [](const JsonMember* a, const JsonMember* b) { return a->key == b->key; });
  return found == sorted.end() ? nullptr : *std::next(found);
}

/// The functions below return false once `fault_` says why; at_ is then where.
class Parser {
 public:
  Parser(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  std::expected<JsonValue, JsonFault> document() {
    JsonValue root;
    if (!whole(root)) {
      return std::unexpected(JsonFault{.at = at_, .what = std::move(fault_)});
    }
    return root;
  }

 private:
  using Kind = JsonValue::Kind;

  bool error(std::string what) {
    fault_ = std::move(what);
    return false;
  }

  bool whole(JsonValue& root) {
    if (text_.size() > limits_.bytes) {
      return error("larger than " + std::to_string(limits_.bytes) + " bytes");
    }
    if (!value(root, 1)) {
      return false;
    }
    skip_space();
    return at_ == text_.size() || error("nothing may follow the JSON value");
  }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(char c) {
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").contains(text_[at_])) {
      ++at_;
    }
  }

  bool value(JsonValue& out, std::size_t depth) {
    skip_space();
    if (++values_ > limits_.values) {
      return error("more than " + std::to_string(limits_.values) + " values");
    }
    out.begin = at_;
    const bool good = typed(out, depth);
    out.end = at_;
    return good;
  }

  bool typed(JsonValue& out, std::size_t depth) {
    if (at_ == text_.size()) {
      return error("a value is missing");
    }
    switch (peek()) {
      case '{':
      case '[':
        if (depth > limits_.depth) {
          return error("nested deeper than " + std::to_string(limits_.depth));
        }
        return peek() == '{' ? object(out, depth) : array(out, depth);
      case '"':
        out.kind = Kind::String;
        return string(out.text);
      case 't':
        return word(out, "true", Kind::Bool);
      case 'f':
        return word(out, "false", Kind::Bool);
      case 'n':
        return word(out, "null", Kind::Null);
      default:
        return number(out);
    }
  }

  bool word(JsonValue& out, std::string_view text, Kind kind) {
    if (text_.substr(at_, text.size()) != text) {
      return error("not a JSON value");
    }
    at_ += text.size();
    out.kind = kind;
    out.text = text;
    return true;
  }

  bool object(JsonValue& out, std::size_t depth) {
    out.kind = Kind::Object;
    ++at_;
    skip_space();
    if (take('}')) {
      return true;
    }
    do {
      if (!member(out.members.emplace_back(), depth)) {
        return false;
      }
      skip_space();
    } while (take(','));
    if (!take('}')) {
      return error("\",\" or \"}\" is missing");
    }
    const JsonMember* twice = limits_.unique_keys ? find_duplicate(out.members) : nullptr;
    if (twice != nullptr) {
      at_ = twice->begin;
      return error("a key appears twice in one object");
    }
    return true;
  }

  bool member(JsonMember& out, std::size_t depth) {
    skip_space();
    if (peek() != '"') {
      return error("a member name in double quotes is missing");
    }
    out.begin = at_;
    if (!string(out.key)) {
      return false;
    }
    skip_space();
    if (!take(':')) {
      return error("\":\" is missing after the member name");
    }
    return value(out.value, depth + 1);
  }

  bool array(JsonValue& out, std::size_t depth) {
    out.kind = Kind::Array;
    ++at_;
    skip_space();
    if (take(']')) {
      return true;
    }
    do {
      if (!value(out.items.emplace_back(), depth + 1)) {
        return false;
      }
      skip_space();
    } while (take(','));
    if (!take(']')) {
      return error("\",\" or \"]\" is missing");
    }
    return true;
  }

  bool number(JsonValue& out) {
    const std::size_t start = at_;
    take('-');
    if (!is_digit(peek())) {
      at_ = start;
      return error("not a JSON value");
    }
    if (!take('0')) {
      skip_digits();
    }
    if (take('.')) {
      if (!is_digit(peek())) {
        return error("a digit is missing after the point");
      }
      skip_digits();
    }
    if (take('e') || take('E')) {
      if (!take('+')) {
        take('-');
      }
      if (!is_digit(peek())) {
        return error("a digit is missing in the exponent");
      }
      skip_digits();
    }
    out.kind = Kind::Number;
    out.text = text_.substr(start, at_ - start);
    return true;
  }

  void skip_digits() {
    while (is_digit(peek())) {
      ++at_;
    }
  }

  bool string(std::string& out) {
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c == '\\') {
        if (!escape(out)) {
          return false;
        }
        continue;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return error("a control character in a string must be escaped");
      }
      const std::size_t length = utf8_length(text_, at_);
      if (length == 0) {
        return error("not UTF-8");
      }
      out.append(text_, at_, length);
      at_ += length;
    }
    return error("a string has no end");
  }

  bool escape(std::string& out) {
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    ++at_;
    const char c = peek();
    if (const std::size_t plain = kFrom.find(c); plain != std::string_view::npos) {
      out += kTo[plain];
      ++at_;
      return true;
    }
    if (c != 'u') {
      return error("unknown escape in a string");
    }
    std::uint32_t code = 0;
    if (!unit(code)) {
      return false;
    }
    if (code >= 0xDC00 && code <= 0xDFFF) {
      return error("a lone surrogate in a string");
    }
    if (code >= 0xD800 && code <= 0xDBFF) {
      if (text_.substr(at_, 2) != "\\u") {
        return error("a lone surrogate in a string");
      }
      ++at_;
      std::uint32_t low = 0;
      if (!unit(low)) {
        return false;
      }
      if (low < 0xDC00 || low > 0xDFFF) {
        return error("a lone surrogate in a string");
      }
      code = 0x10000U + ((code - 0xD800U) << 10U) + (low - 0xDC00U);
    }
    append_utf8(out, code);
    return true;
  }

  /// The four digits of `uXXXX`; at_ is on the `u`.
  bool unit(std::uint32_t& code) {
    for (std::size_t i = 1; i <= 4; ++i) {
      const int digit = at_ + i < text_.size() ? hex_value(text_[at_ + i]) : -1;
      if (digit < 0) {
        return error("\\u needs four hexadecimal digits");
      }
      code = code * 16 + static_cast<std::uint32_t>(digit);
    }
    at_ += 5;
    return true;
  }

  std::string_view text_;
  const JsonLimits& limits_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
  std::string fault_;
};

}  // namespace

const std::string* JsonValue::as_text() const {
  return kind == Kind::String ? &text : nullptr;
}

const std::vector<JsonValue>* JsonValue::as_array() const {
  return kind == Kind::Array ? &items : nullptr;
}

std::optional<bool> JsonValue::as_bool() const {
  return kind == Kind::Bool ? std::optional(text == "true") : std::nullopt;
}

std::optional<std::int64_t> JsonValue::as_integer() const {
  std::int64_t value = 0;
  const char* last = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), last, value);
  const bool whole = kind == Kind::Number && problem == std::errc() && stop == last;
  return whole ? std::optional(value) : std::nullopt;
}

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto found = std::ranges::find(members, key, &JsonMember::key);
  const bool absent = found == members.end() || found->value.kind == Kind::Null;
  return absent ? nullptr : &found->value;
}

std::expected<JsonValue, JsonFault> parse_json(std::string_view text, const JsonLimits& limits) {
  return Parser(text, limits).document();
}

}  // namespace ate::core
