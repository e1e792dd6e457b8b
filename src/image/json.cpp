#include "image/json.hpp"

#include <algorithm>
#include <charconv>
#include <unordered_set>
#include <utility>

#include "image/limits.hpp"

namespace ate::image::json {

namespace {

// Length of the UTF-8 sequence at the start of `text`, 0 when it is malformed.
std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(0);
  if (first < 0x80) {
    return 1;
  }
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0U) != 0x80) {
      return 0;
    }
  }
  const bool overlong = (first == 0xe0 && at(1) < 0xa0) || (first == 0xf0 && at(1) < 0x90);
  const bool surrogate = first == 0xed && at(1) >= 0xa0;
  const bool beyond = first == 0xf4 && at(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

void append_utf8(std::string& out, unsigned code) {
  const auto push = [&](unsigned byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xc0U | (code >> 6U));
    push(0x80U | (code & 0x3fU));
  } else if (code < 0x10000) {
    push(0xe0U | (code >> 12U));
    push(0x80U | ((code >> 6U) & 0x3fU));
    push(0x80U | (code & 0x3fU));
  } else {
    push(0xf0U | (code >> 18U));
    push(0x80U | ((code >> 12U) & 0x3fU));
    push(0x80U | ((code >> 6U) & 0x3fU));
    push(0x80U | (code & 0x3fU));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Value> document() {
    if (text_.size() > kMaxJsonBytes) {
      return fail(Errc::ImageInvalid, "JSON document larger than 4 MiB");
    }
    ATE_ASSIGN(Value value, parse_value(0));
    skip_space();
    if (at_ != text_.size()) {
      return error("something follows the document");
    }
    return value;
  }

 private:
  [[nodiscard]] std::unexpected<Error> error(const std::string& what) const {
    return fail(Errc::ImageInvalid, "JSON: " + what + " at byte " + std::to_string(at_));
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").contains(text_[at_])) {
      ++at_;
    }
  }

  bool take(char c) {
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }

  Result<Value> parse_value(std::size_t depth) {
    if (depth > kMaxJsonDepth) {
      return error("nested deeper than 32");
    }
    if (++values_ > kMaxJsonValues) {
      return error("more than 200000 values");
    }
    skip_space();
    if (at_ >= text_.size()) {
      return error("the document ends early");
    }
    switch (text_[at_]) {
      case '{':
        return parse_object(depth);
      case '[':
        return parse_array(depth);
      case '"': {
        ATE_ASSIGN(std::string text, parse_string());
        return Value{std::move(text)};
      }
      case 't':
        return parse_word("true", Value{true});
      case 'f':
        return parse_word("false", Value{false});
      case 'n':
        return parse_word("null", Value{nullptr});
      default:
        return parse_number();
    }
  }

  Result<Value> parse_word(std::string_view word, Value value) {
    if (text_.substr(at_, word.size()) != word) {
      return error("unknown word");
    }
    at_ += word.size();
    return value;
  }

  Result<Value> parse_object(std::size_t depth) {
    ++at_;
    Object object;
    std::unordered_set<std::string> seen;
    skip_space();
    if (take('}')) {
      return Value{std::move(object)};
    }
    while (true) {
      skip_space();
      if (at_ >= text_.size() || text_[at_] != '"') {
        return error("a key is expected");
      }
      ATE_ASSIGN(std::string key, parse_string());
      if (!seen.insert(key).second) {
        return error("a key appears twice in one object");
      }
      skip_space();
      if (!take(':')) {
        return error("':' is expected");
      }
      ATE_ASSIGN(Value value, parse_value(depth + 1));
      object.keys.push_back(std::move(key));
      object.values.push_back(std::move(value));
      skip_space();
      if (take('}')) {
        return Value{std::move(object)};
      }
      if (!take(',')) {
        return error("',' or '}' is expected");
      }
    }
  }

  Result<Value> parse_array(std::size_t depth) {
    ++at_;
    Array array;
    skip_space();
    if (take(']')) {
      return Value{std::move(array)};
    }
    while (true) {
      ATE_ASSIGN(Value value, parse_value(depth + 1));
      array.push_back(std::move(value));
      skip_space();
      if (take(']')) {
        return Value{std::move(array)};
      }
      if (!take(',')) {
        return error("',' or ']' is expected");
      }
    }
  }

  Result<std::string> parse_string() {
    ++at_;
    std::string out;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return out;
      }
      if (c == '\\') {
        ATE_TRY(parse_escape(out));
        continue;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return error("a control character in a string");
      }
      const std::size_t length = utf8_length(text_.substr(at_));
      if (length == 0) {
        return error("invalid UTF-8");
      }
      out += text_.substr(at_, length);
      at_ += length;
    }
    return error("a string does not end");
  }

  Status parse_escape(std::string& out) {
    ++at_;
    if (at_ >= text_.size()) {
      return error("a string does not end");
    }
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (const std::size_t i = kFrom.find(c); i != std::string_view::npos) {
      out += kTo[i];
      return {};
    }
    if (c != 'u') {
      return error("an unknown escape");
    }
    ATE_ASSIGN(unsigned code, parse_hex4());
    if (code >= 0xdc00 && code <= 0xdfff) {
      return error("a lone surrogate");
    }
    if (code >= 0xd800 && code <= 0xdbff) {
      if (text_.substr(at_, 2) != "\\u") {
        return error("a lone surrogate");
      }
      at_ += 2;
      ATE_ASSIGN(const unsigned low, parse_hex4());
      if (low < 0xdc00 || low > 0xdfff) {
        return error("a lone surrogate");
      }
      code = 0x10000 + ((code - 0xd800) << 10U) + (low - 0xdc00);
    }
    append_utf8(out, code);
    return {};
  }

  Result<unsigned> parse_hex4() {
    const std::string_view digits = text_.substr(at_, 4);
    unsigned code = 0;
    const auto [end, problem] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || problem != std::errc() || end != digits.data() + 4) {
      return error("four hexadecimal digits are expected");
    }
    at_ += 4;
    return code;
  }

  bool digits() {
    const std::size_t start = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      ++at_;
    }
    return at_ > start;
  }

  Result<Value> parse_number() {
    const std::size_t start = at_;
    bool whole = true;
    take('-');
    const bool zero = at_ < text_.size() && text_[at_] == '0';
    const std::size_t first = at_;
    if (!digits() || (zero && at_ - first > 1)) {
      return error("a value is expected");
    }
    if (take('.')) {
      whole = false;
      if (!digits()) {
        return error("a digit is expected");
      }
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) {
        take('-');
      }
      if (!digits()) {
        return error("a digit is expected");
      }
    }
    const std::string_view number = text_.substr(start, at_ - start);
    if (whole) {
      std::int64_t integer = 0;
      if (std::from_chars(number.data(), number.data() + number.size(), integer).ec ==
          std::errc()) {
        return Value{integer};
      }
    }
    double real = 0;
    if (std::from_chars(number.data(), number.data() + number.size(), real).ec != std::errc()) {
      return error("a number out of range");
    }
    return Value{real};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

const Value* Value::find(std::string_view key) const {
  const Object* members = object();
  if (members == nullptr) {
    return nullptr;
  }
  const auto found = std::ranges::find(members->keys, key);
  if (found == members->keys.end()) {
    return nullptr;
  }
  const Value& value = members->values[static_cast<std::size_t>(found - members->keys.begin())];
  return value.is_null() ? nullptr : &value;
}

Result<Value> parse(std::string_view text) {
  return Parser(text).document();
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

std::string quote(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace ate::image::json
