#include "ate/core/json.hpp"

#include <utility>

namespace ate::core {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
}

bool is_tail(unsigned byte) {
  return (byte & 0xC0U) == 0x80U;
}

void append_escape(std::string& out, unsigned char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[c >> 4U];
      out += kHex[c & 0x0FU];
  }
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at);
  if (first < 0x80U) {
    return 1;
  }
  const unsigned second = byte_at(text, at + 1);
  if (first < 0xC2U || first > 0xF4U || !is_tail(second)) {
    return 0;
  }
  if (first < 0xE0U) {
    return 2;
  }
  if (!is_tail(byte_at(text, at + 2))) {
    return 0;
  }
  if (first < 0xF0U) {
    const bool overlong = first == 0xE0U && second < 0xA0U;
    const bool surrogate = first == 0xEDU && second > 0x9FU;
    return overlong || surrogate ? 0 : 3;
  }
  const bool overlong = first == 0xF0U && second < 0x90U;
  const bool too_large = first == 0xF4U && second > 0x8FU;
  return overlong || too_large || !is_tail(byte_at(text, at + 3)) ? 0 : 4;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t clean = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++at;
      continue;
    }
    const std::size_t length = c < 0x80 ? 0 : utf8_length(text, at);
    if (length > 0) {
      at += length;
      continue;
    }
    out.append(text, clean, at - clean);
    if (c < 0x80) {
      append_escape(out, c);
    } else {
      out += "\xEF\xBF\xBD";
    }
    clean = ++at;
  }
  out.append(text, clean, text.size() - clean);
  out += '"';
}

std::string json_quote(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_json_string(out, text);
  return out;
}

std::string json_array(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) {
    if (out.size() > 1) {
      out += ',';
    }
    out += item;
  }
  out += ']';
  return out;
}

std::string json_strings(const std::vector<std::string>& values) {
  std::string out = "[";
  for (const std::string& value : values) {
    if (out.size() > 1) {
      out += ',';
    }
    append_json_string(out, value);
  }
  out += ']';
  return out;
}

void JsonObject::key(std::string_view name) {
  if (out_.size() > 1) {
    out_ += ',';
  }
  append_json_string(out_, name);
  out_ += ':';
}

JsonObject& JsonObject::text(std::string_view key, std::string_view value) {
  this->key(key);
  append_json_string(out_, value);
  return *this;
}

JsonObject& JsonObject::boolean(std::string_view key, bool value) {
  return raw(key, value ? "true" : "false");
}

JsonObject& JsonObject::strings(std::string_view key, const std::vector<std::string>& values) {
  return raw(key, json_strings(values));
}

JsonObject& JsonObject::raw(std::string_view key, std::string_view json) {
  this->key(key);
  out_ += json;
  return *this;
}

std::string JsonObject::finish() && {
  out_ += '}';
  return std::move(out_);
}

}  // namespace ate::core
