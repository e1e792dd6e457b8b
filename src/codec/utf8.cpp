#include "codec/utf8.hpp"

namespace ate::codec {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
}

bool is_tail(unsigned byte) {
  return (byte & 0xC0U) == 0x80U;
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

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) {
      return at;
    }
    at += length;
  }
  return std::string_view::npos;
}

}  // namespace ate::codec
