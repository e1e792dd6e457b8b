#include "codec/json_read.hpp"

#include "codec/utf8.hpp"

namespace ate::codec {
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

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Node> document() {
    Node root;
    ATE_TRY(value(root, 1));
    skip_space();
    if (at_ != text_.size()) {
      return error("nothing may follow the JSON value");
    }
    return root;
  }

 private:
  std::unexpected<Error> error(const std::string& what) const {
    Problem problem;
    problem.code = Errc::Malformed;
    problem.detail = what;
    problem.line = line_;
    problem.column = column_at(at_);
    const std::string place =
        "line " + std::to_string(problem.line) + ", column " + std::to_string(problem.column);
    return fail(Error(Errc::Malformed, "invalid JSON at " + place + ": " + what)
                    .with_problems({std::move(problem)}));
  }

  [[nodiscard]] std::uint32_t column_at(std::size_t at) const {
    return static_cast<std::uint32_t>(at - line_start_ + 1);
  }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
      ++at_;
    }
  }

  Status value(Node& out, std::size_t depth) {
    skip_space();
    if (++nodes_ > kMaxNodes) {
      return error("more than " + std::to_string(kMaxNodes) + " values");
    }
    out.line = line_;
    out.column = column_at(at_);
    if (at_ == text_.size()) {
      return error("a value is missing");
    }
    switch (peek()) {
      case '{':
      case '[':
        if (depth > kMaxDepth) {
          return error("nested deeper than " + std::to_string(kMaxDepth));
        }
        return peek() == '{' ? object(out, depth) : array(out, depth);
      case '"':
        out.kind = Node::Kind::String;
        return string(out.text);
      case 't':
        return word(out, "true", Node::Kind::Bool);
      case 'f':
        return word(out, "false", Node::Kind::Bool);
      case 'n':
        return word(out, "null", Node::Kind::Null);
      default:
        return number(out);
    }
  }

  Status word(Node& out, std::string_view text, Node::Kind kind) {
    if (text_.substr(at_, text.size()) != text) {
      return error("not a JSON value");
    }
    at_ += text.size();
    out.kind = kind;
    out.text = text;
    return {};
  }

  Status object(Node& out, std::size_t depth) {
    out.kind = Node::Kind::Mapping;
    ++at_;
    skip_space();
    if (peek() == '}') {
      ++at_;
      return {};
    }
    while (true) {
      skip_space();
      if (peek() != '"') {
        return error("a member name in double quotes is missing");
      }
      Member& member = out.members.emplace_back();
      member.line = line_;
      member.column = column_at(at_);
      ATE_TRY(string(member.key));
      skip_space();
      if (peek() != ':') {
        return error("\":\" is missing after the member name");
      }
      ++at_;
      ATE_TRY(value(member.value, depth + 1));
      skip_space();
      if (peek() == '}') {
        ++at_;
        return {};
      }
      if (peek() != ',') {
        return error("\",\" or \"}\" is missing");
      }
      ++at_;
    }
  }

  Status array(Node& out, std::size_t depth) {
    out.kind = Node::Kind::Sequence;
    ++at_;
    skip_space();
    if (peek() == ']') {
      ++at_;
      return {};
    }
    while (true) {
      ATE_TRY(value(out.items.emplace_back(), depth + 1));
      skip_space();
      if (peek() == ']') {
        ++at_;
        return {};
      }
      if (peek() != ',') {
        return error("\",\" or \"]\" is missing");
      }
      ++at_;
    }
  }

  Status number(Node& out) {
    const std::size_t start = at_;
    if (peek() == '-') {
      ++at_;
    }
    if (!is_digit(peek())) {
      at_ = start;
      return error("not a JSON value");
    }
    if (peek() == '0') {
      ++at_;
    } else {
      skip_digits();
    }
    if (peek() == '.') {
      ++at_;
      if (!is_digit(peek())) {
        return error("a digit is missing after the point");
      }
      skip_digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') {
        ++at_;
      }
      if (!is_digit(peek())) {
        return error("a digit is missing in the exponent");
      }
      skip_digits();
    }
    out.kind = Node::Kind::Number;
    out.text = text_.substr(start, at_ - start);
    return {};
  }

  void skip_digits() {
    while (is_digit(peek())) {
      ++at_;
    }
  }

  Status string(std::string& out) {
    ++at_;
    while (true) {
      if (at_ >= text_.size()) {
        return error("a string has no end");
      }
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return {};
      }
      if (c == '\\') {
        ATE_TRY(escape(out));
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
  }

  Status escape(std::string& out) {
    ++at_;
    const char c = peek();
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    const std::size_t index = c == '\0' ? std::string_view::npos : kFrom.find(c);
    if (index != std::string_view::npos) {
      out += kTo[index];
      ++at_;
      return {};
    }
    if (c != 'u') {
      return error("unknown escape in a string");
    }
    ATE_ASSIGN(std::uint32_t code, unit());
    if (code >= 0xDC00 && code <= 0xDFFF) {
      return error("a lone surrogate in a string");
    }
    if (code >= 0xD800 && code <= 0xDBFF) {
      if (text_.substr(at_, 2) != "\\u") {
        return error("a lone surrogate in a string");
      }
      ++at_;
      ATE_ASSIGN(const std::uint32_t low, unit());
      if (low < 0xDC00 || low > 0xDFFF) {
        return error("a lone surrogate in a string");
      }
      code = 0x10000U + ((code - 0xD800U) << 10U) + (low - 0xDC00U);
    }
    append_utf8(out, code);
    return {};
  }

  /// The four digits of `uXXXX`; at_ is on the `u`.
  Result<std::uint32_t> unit() {
    std::uint32_t code = 0;
    for (int i = 1; i <= 4; ++i) {
      const std::size_t at = at_ + static_cast<std::size_t>(i);
      const int digit = at < text_.size() ? hex_value(text_[at]) : -1;
      if (digit < 0) {
        return error("\\u needs four hexadecimal digits");
      }
      code = code * 16 + static_cast<std::uint32_t>(digit);
    }
    at_ += 5;
    return code;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  std::size_t nodes_ = 0;
  std::uint32_t line_ = 1;
};

}  // namespace

Result<Node> read_json(std::string_view text) {
  return Parser(text).document();
}

}  // namespace ate::codec
