#include "codec/yaml_cursor.hpp"

#include <algorithm>

#include "codec/node.hpp"

namespace ate::codec {
namespace {

constexpr std::size_t kNpos = std::string_view::npos;

}  // namespace

using Found = Cursor::Found;

Found Cursor::error(std::string detail) const {
  return error_at(at_, std::move(detail));
}

Found Cursor::error_at(std::size_t at, std::string detail) const {
  const std::string_view before = text_.substr(0, std::min(at, text_.size()));
  const std::size_t newline = before.rfind('\n');
  ScanProblem problem;
  problem.detail = std::move(detail);
  problem.line = static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n') + 1);
  problem.column = static_cast<std::uint32_t>(newline == kNpos ? at + 1 : at - newline);
  return problem;
}

char Cursor::peek(std::size_t ahead) const {
  return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n';
}

bool Cursor::at_break() const {
  return is_break(0);
}

bool Cursor::is_break(std::size_t ahead) const {
  return peek(ahead) == '\n' || (peek(ahead) == '\r' && peek(ahead + 1) == '\n');
}

bool Cursor::is_blank(std::size_t ahead) const {
  return peek(ahead) == ' ' || peek(ahead) == '\t' || is_break(ahead);
}

std::size_t Cursor::column() const {
  return at_ - line_start_;
}

Found Cursor::plain_start(bool in_flow) const {
  const char c = peek(0);
  switch (c) {
    case '&':
      return error("anchors are not allowed");
    case '*':
      return error("aliases are not allowed; quote a text that starts with \"*\"");
    case '!':
      return error("tags are not allowed; quote a text that starts with \"!\"");
    case ',':
    case ']':
    case '}':
    case '@':
    case '`':
    case '%':
    case '#':
    case '|':
    case '>':
      return error(std::string("unexpected \"") + c + "\"");
    case '\t':
      return error("a tab is not allowed here; use spaces");
    case '?':
    case ':':
    case '-':
      if (c == ':' || is_blank(1) ||
          (in_flow && std::string_view(",[]{}").find(peek(1)) != kNpos)) {
        return error(std::string("unexpected \"") + c + "\"");
      }
      return {};
    default:
      return {};
  }
}

Found Cursor::quoted() {
  const std::size_t start = at_;
  const char quote = text_[at_++];
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      line_start_ = at_ + 1;
    }
    if (c == '\\' && quote == '"') {
      at_ += peek(1) == '\n' ? 1 : 2;
      continue;
    }
    ++at_;
    if (c != quote) {
      continue;
    }
    if (quote == '\'' && peek(0) == '\'') {
      ++at_;
      continue;
    }
    return {};
  }
  return error_at(start, "the quote has no end");
}

Found Cursor::flow_space() {
  while (at_ < text_.size()) {
    if (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r') {
      ++at_;
    } else if (text_[at_] == '\n') {
      ++at_;
      line_start_ = at_;
    } else if (text_[at_] == '#') {
      if (text_[at_ - 1] != ' ' && text_[at_ - 1] != '\t' && at_ != line_start_) {
        return error("a comment needs a space before \"#\"");
      }
      while (at_ < text_.size() && text_[at_] != '\n') {
        ++at_;
      }
    } else {
      return {};
    }
  }
  return error("the collection has no end");
}

Found Cursor::flow(std::size_t depth) {
  if (depth > kMaxDepth) {
    return error("nested deeper than " + std::to_string(kMaxDepth));
  }
  const bool map = text_[at_] == '{';
  const char close = map ? '}' : ']';
  ++at_;
  while (true) {
    if (Found found = flow_space()) {
      return found;
    }
    if (text_[at_] == close) {
      ++at_;
      return {};
    }
    if (Found found = map ? flow_pair(depth) : flow_value(depth)) {
      return found;
    }
    if (Found found = flow_space()) {
      return found;
    }
    if (text_[at_] == ',') {
      ++at_;
    } else if (text_[at_] != close) {
      return error(std::string("\",\" or \"") + close + "\" is missing");
    }
  }
}

Found Cursor::flow_pair(std::size_t depth) {
  const bool is_quoted = text_[at_] == '"' || text_[at_] == '\'';
  const std::size_t start = at_;
  if (text_[at_] == '[' || text_[at_] == '{') {
    return error("a collection cannot be a key");
  }
  if (Found found = is_quoted ? quoted() : flow_plain()) {
    return found;
  }
  if (text_.substr(start, at_ - start).find('\n') != kNpos) {
    return error_at(start, "this cannot be a key");
  }
  while (peek(0) == ' ') {
    ++at_;
  }
  if (peek(0) != ':') {
    return error("\":\" and a value are missing after the key");
  }
  ++at_;
  if (!is_quoted && !is_blank(0)) {
    return error("a space is missing after \":\"");
  }
  if (Found found = flow_space()) {
    return found;
  }
  if (text_[at_] == ',' || text_[at_] == '}') {
    return error("the value is missing");
  }
  return flow_value(depth);
}

Found Cursor::flow_value(std::size_t depth) {
  switch (text_[at_]) {
    case '[':
    case '{':
      return flow(depth + 1);
    case '"':
    case '\'':
      return quoted();
    default:
      return flow_plain();
  }
}

Found Cursor::flow_plain() {
  if (Found found = plain_start(true)) {
    return found;
  }
  while (at_ < text_.size() && !at_break()) {
    const char c = text_[at_];
    if (std::string_view(",[]{}\t").find(c) != kNpos) {
      return {};
    }
    if (c == ':' && (is_blank(1) || std::string_view(",[]{}").find(peek(1)) != kNpos)) {
      return {};
    }
    if (c == '#' && text_[at_ - 1] == ' ') {
      return {};
    }
    ++at_;
  }
  return {};
}

}  // namespace ate::codec
