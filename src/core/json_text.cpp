#include "core/json_text.hpp"

#include <array>
#include <functional>

namespace ate::core {
namespace {

constexpr int kMaxDepth = 32;

/// Length of the UTF-8 sequence at the start of `text`; 0 when it is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto tail = [&](std::size_t from, std::size_t count) {
    if (text.size() < from + count) {
      return false;
    }
    for (std::size_t i = from; i < from + count; ++i) {
      if ((byte(i) & 0xC0U) != 0x80U) {
        return false;
      }
    }
    return true;
  };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xC2 && first <= 0xDF) {
    return tail(1, 1) ? 2 : 0;
  }
  if (first >= 0xE0 && first <= 0xEF && tail(1, 2)) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (first >= 0xF0 && first <= 0xF4 && tail(1, 3)) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool beyond = first == 0xF4 && byte(1) >= 0x90;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

/// Walks a JSON text. Every function leaves `at` behind what it read, or returns false.
class Walker {
 public:
  using Member = std::function<bool(JsonSpan key, JsonSpan value)>;
  using Element = std::function<bool(JsonSpan value)>;

  explicit Walker(std::string_view text, std::size_t at = 0) : text_(text), at_(at) {}

  [[nodiscard]] std::size_t at() const noexcept { return at_; }

  void space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  bool value(int depth, JsonSpan& span) {
    space();
    if (depth > kMaxDepth || at_ >= text_.size()) {
      return false;
    }
    span.begin = at_;
    bool good = false;
    switch (text_[at_]) {
      case '{':
        good = object(depth, [](JsonSpan, JsonSpan) { return true; });
        break;
      case '[':
        good = array(depth, [](JsonSpan) { return true; });
        break;
      case '"':
        good = string();
        break;
      default:
        good = scalar();
    }
    span.end = at_;
    return good;
  }

  bool object(int depth, const Member& member) {
    if (!take('{')) {
      return false;
    }
    space();
    if (take('}')) {
      return true;
    }
    for (;;) {
      space();
      JsonSpan key{at_, at_};
      JsonSpan span;
      if (!string()) {
        return false;
      }
      key.end = at_;
      space();
      if (!take(':') || !value(depth + 1, span) || !member(key, span)) {
        return false;
      }
      space();
      if (take('}')) {
        return true;
      }
      if (!take(',')) {
        return false;
      }
    }
  }

  bool array(int depth, const Element& element) {
    if (!take('[')) {
      return false;
    }
    space();
    if (take(']')) {
      return true;
    }
    for (;;) {
      JsonSpan span;
      if (!value(depth + 1, span) || !element(span)) {
        return false;
      }
      space();
      if (take(']')) {
        return true;
      }
      if (!take(',')) {
        return false;
      }
    }
  }

 private:
  bool take(char c) {
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }

  bool string() {
    if (!take('"')) {
      return false;
    }
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') {
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return false;
      }
      if (c == '\\' && !escape()) {
        return false;
      }
    }
    return false;
  }

  bool escape() {
    if (at_ >= text_.size()) {
      return false;
    }
    const char c = text_[at_++];
    if (c != 'u') {
      return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
    }
    if (text_.size() - at_ < 4) {
      return false;
    }
    const std::string_view digits = text_.substr(at_, 4);
    at_ += 4;
    return digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
  }

  /// Number, true, false, null: what our own writer makes; a looser number does no harm here.
  bool scalar() {
    const std::size_t end = text_.find_first_not_of("0123456789+-.eEtrufalsn", at_);
    const std::string_view word = text_.substr(at_, end - at_);
    at_ += word.size();
    if (word == "true" || word == "false" || word == "null") {
      return true;
    }
    return !word.empty() && word.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
  }

  std::string_view text_;
  std::size_t at_;
};

unsigned hex_value(std::string_view digits) {
  unsigned value = 0;
  for (const char c : digits) {
    const unsigned digit =
        c <= '9' ? static_cast<unsigned>(c - '0') : static_cast<unsigned>((c | 0x20) - 'a') + 10U;
    value = (value << 4U) | digit;
  }
  return value;
}

void append_utf8(std::string& out, unsigned code) {
  const auto put = [&out](unsigned byte) { out.push_back(static_cast<char>(byte)); };
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

/// Code point of the \u escape whose digits start at `at`; joins surrogate pairs.
unsigned read_code_point(std::string_view text, std::size_t& at) {
  unsigned code = hex_value(text.substr(at, 4));
  at += 4;
  const bool high = code >= 0xD800 && code < 0xDC00;
  if (high && text.substr(at, 2) == "\\u" && text.size() - at >= 6) {
    const unsigned low = hex_value(text.substr(at + 2, 4));
    if (low >= 0xDC00 && low < 0xE000) {
      at += 6;
      code = 0x10000U + ((code - 0xD800U) << 10U) + (low - 0xDC00U);
    }
  }
  return code >= 0xD800 && code < 0xE000 ? 0xFFFDU : code;
}

char plain_escape(char c) {
  switch (c) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return c;
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out.push_back('"');
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(text.front());
    } else if (c < 0x20 || c == 0x7F) {
      out += "\\u00";
      out.push_back(kHex[c >> 4U]);
      out.push_back(kHex[c & 0xFU]);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out.push_back('"');
}

bool json_well_formed(std::string_view text) {
  Walker walker(text);
  JsonSpan span;
  if (!walker.value(0, span)) {
    return false;
  }
  walker.space();
  return walker.at() == text.size();
}

JsonSpan json_root(std::string_view text) {
  Walker walker(text);
  JsonSpan span;
  return walker.value(0, span) ? span : JsonSpan{};
}

std::optional<JsonSpan> json_member(std::string_view text, JsonSpan object, std::string_view key) {
  std::optional<JsonSpan> found;
  Walker walker(text.substr(0, object.end), object.begin);
  const bool good = walker.object(0, [&](JsonSpan name, JsonSpan value) {
    if (!found && json_string(text, name) == key) {
      found = value;
    }
    return true;
  });
  return good ? found : std::nullopt;
}

std::vector<JsonSpan> json_elements(std::string_view text, JsonSpan array) {
  std::vector<JsonSpan> elements;
  Walker walker(text.substr(0, array.end), array.begin);
  const bool good = walker.array(0, [&](JsonSpan value) {
    elements.push_back(value);
    return true;
  });
  return good ? elements : std::vector<JsonSpan>{};
}

std::optional<std::string> json_string(std::string_view text, JsonSpan value) {
  if (value.end < value.begin + 2 || text[value.begin] != '"') {
    return std::nullopt;
  }
  const std::string_view body = text.substr(value.begin + 1, value.end - value.begin - 2);
  std::string out;
  for (std::size_t at = 0; at < body.size();) {
    if (body[at] != '\\') {
      out.push_back(body[at++]);
      continue;
    }
    const char kind = body[at + 1];
    at += 2;
    if (kind == 'u') {
      append_utf8(out, read_code_point(body, at));
    } else {
      out.push_back(plain_escape(kind));
    }
  }
  return out;
}

}  // namespace ate::core
