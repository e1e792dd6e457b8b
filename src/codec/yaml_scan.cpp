#include "codec/yaml_scan.hpp"

#include <algorithm>

#include "ate/core/json.hpp"
#include "codec/yaml_cursor.hpp"

namespace ate::codec {
namespace {

using Found = std::optional<ScanProblem>;

constexpr std::size_t kNpos = std::string_view::npos;

/// What the value of a key or list entry that ended its line may still be.
enum class Pending : std::uint8_t { None, Value };

class Scanner : private Cursor {
 public:
  explicit Scanner(std::string_view text) : Cursor(text) {}

  Found run() {
    while (at_ < text_.size()) {
      if (Found found = line()) {
        return found;
      }
    }
    return {};
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
  }

  /// Past the line break.
  void next_line() {
    while (at_ < text_.size() && text_[at_] != '\n') {
      ++at_;
    }
    at_ = std::min(at_ + 1, text_.size());
    line_start_ = at_;
  }

  /// After a token: nothing but spaces and a comment may follow on the line.
  Found finish_line() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) {
      ++at_;
    }
    const bool comment = peek(0) == '#' && (text_[at_ - 1] == ' ' || text_[at_ - 1] == '\t');
    if (at_ < text_.size() && !at_break() && !comment) {
      return error("unexpected text after the value; put quotes around the whole value");
    }
    next_line();
    return {};
  }

  Found line() {
    if (block_scalar_) {
      return block_scalar_line();
    }
    skip_spaces();
    if (at_ == text_.size() || at_break() || text_[at_] == '#') {
      next_line();
      return {};
    }
    if (text_[at_] == '%' && column() == 0) {
      return error("directives are not allowed");
    }
    if (complete_ && column() > parent_) {
      return error(
          "unexpected indentation: the value before it is complete; a text over several lines "
          "needs \"|\" or quotes");
    }
    return content();
  }

  /// From the first character of a line that is not empty to its end (flow collections and quoted
  /// scalars may take more lines).
  Found content() {
    bool own_value = pending_ == Pending::Value;  // a value is expected here
    bool on_line = false;                         // a key or dash stands on this line
    pending_ = Pending::None;
    complete_ = false;
    while (true) {
      if (peek(0) == '-' && is_blank(1)) {
        if (on_line && last_was_key_) {
          return error("a list starts on the line after its key");
        }
        parent_ = column();
        last_was_key_ = false;
        ++at_;
      } else {
        const std::size_t start = column();
        bool was_key = false;
        if (Found found = token(own_value || on_line, on_line, was_key)) {
          return found;
        }
        if (!was_key) {
          if (block_scalar_) {
            return {};
          }
          complete_ = on_line || own_value;
          if (!on_line) {
            // A value on the line after its key: its own column bounds what may follow.
            parent_ = start == 0 ? 0 : start - 1;
          }
          return finish_line();
        }
        parent_ = start;
        last_was_key_ = true;
      }
      on_line = true;
      own_value = true;
      skip_spaces();
      if (at_ == text_.size() || at_break() || peek(0) == '#') {
        pending_ = Pending::Value;
        next_line();
        return {};
      }
      if (peek(0) == '\t') {
        return error("a tab is not allowed here; use spaces");
      }
    }
  }

  /// One key (with its colon) or one whole value.
  Found token(bool value_allowed, bool on_line, bool& was_key) {
    const bool key_allowed = !on_line || !last_was_key_;
    switch (peek(0)) {
      case '[':
      case '{':
        if (Found found = flow(1)) {
          return found;
        }
        return peek(0) == ':' ? error("a collection cannot be a key") : Found{};
      case '|':
      case '>':
        return on_line ? block_scalar_head() : error("\"|\" and \">\" stand on their key's line");
      case '"':
      case '\'':
        return quoted_token(value_allowed, key_allowed, was_key);
      default:
        return plain_token(value_allowed, key_allowed, was_key);
    }
  }

  Found quoted_token(bool value_allowed, bool key_allowed, bool& was_key) {
    const std::size_t start = at_;
    if (Found found = quoted()) {
      return found;
    }
    std::size_t ahead = 0;
    while (peek(ahead) == ' ') {
      ++ahead;
    }
    if (peek(ahead) != ':') {
      return value_allowed ? Found{} : error_at(start, "a value without a key");
    }
    if (!key_allowed || text_.substr(start, at_ - start).find('\n') != kNpos) {
      return error_at(start, "this cannot be a key");
    }
    at_ += ahead;
    return colon(was_key);
  }

  Found colon(bool& was_key) {
    ++at_;
    if (!is_blank(0)) {
      return error("a space is missing after \":\"");
    }
    was_key = true;
    return {};
  }

  Found plain_token(bool value_allowed, bool key_allowed, bool& was_key) {
    const std::size_t start = at_;
    if (Found found = plain_start(false)) {
      return found;
    }
    while (at_ < text_.size() && !at_break()) {
      if (text_[at_] == ':' && is_blank(1)) {
        if (!key_allowed) {
          return error("a value that contains \": \" needs quotes");
        }
        return colon(was_key);
      }
      if (text_[at_] == '\t') {
        return error("a tab is not allowed here; use spaces");
      }
      if (text_[at_] == '#' && text_[at_ - 1] == ' ') {
        break;
      }
      ++at_;
    }
    return value_allowed ? Found{}
                         : error_at(start, "a value without a key; \"key: value\" is expected");
  }

  Found block_scalar_head() {
    ++at_;
    if (peek(0) == '-' || peek(0) == '+') {
      ++at_;
    }
    if (peek(0) >= '0' && peek(0) <= '9') {
      return error("indentation indicators are not allowed");
    }
    block_scalar_ = true;
    block_indent_ = kNpos;
    return finish_line();
  }

  Found block_scalar_line() {
    const std::size_t start = at_;
    skip_spaces();
    if (at_ == text_.size() || at_break()) {
      if (block_indent_ == kNpos && column() > parent_ + 1 && at_ != text_.size()) {
        return error("an empty line with spaces before the text of \"|\" or \">\"");
      }
      next_line();
      return {};
    }
    if (column() <= parent_) {
      at_ = start;
      block_scalar_ = false;
      return {};
    }
    if (block_indent_ == kNpos) {
      if (text_[at_] == '\t') {
        return error("a tab is not allowed here; use spaces");
      }
      block_indent_ = column();
    } else if (column() < block_indent_) {
      return error("this line of the text is indented less than its first one");
    }
    next_line();
    return {};
  }

  std::size_t parent_ = 0;  // column of the last key or dash
  bool last_was_key_ = false;
  bool complete_ = false;  // the value before is whole: nothing may be indented below it
  Pending pending_ = Pending::None;
  bool block_scalar_ = false;
  std::size_t block_indent_ = kNpos;
};

}  // namespace

Found scan_characters(std::string_view text) {
  std::uint32_t line = 1;
  std::size_t line_start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    const std::size_t length = core::utf8_length(text, at);
    const bool control =
        (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F ||
        (c == 0xC2 && length == 2 && static_cast<unsigned char>(text[at + 1]) < 0xA0);
    const bool lone_return = c == '\r' && text.substr(at + 1, 1) != "\n";
    const bool order_mark = text.substr(at, 3) == "\xEF\xBB\xBF";
    if (length == 0 || control || lone_return || order_mark) {
      const std::string detail = length == 0   ? "not UTF-8"
                                 : order_mark  ? "a byte order mark is not allowed"
                                 : lone_return ? "a carriage return without a line feed"
                                               : "a control character";
      return ScanProblem{detail, line, static_cast<std::uint32_t>(at - line_start + 1)};
    }
    if (c == '\n') {
      ++line;
      line_start = at + 1;
    }
    at += length;
  }
  return {};
}

Found scan_structure(std::string_view text) {
  return Scanner(text).run();
}

}  // namespace ate::codec
