#include "ate/core/exec.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "ate/core/json.hpp"

namespace ate::core {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kGroup = 3;   // bytes
constexpr std::size_t kDigits = 4;  // for them

std::unexpected<Error> no_base64() {
  return fail(Errc::InvalidValue, "is no base64 with padding (RFC 4648)");
}

}  // namespace

bool is_plain_text(const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = bytes[at] == '\0' ? 0 : utf8_length(bytes, at);
    if (length == 0) {
      return false;
    }
    at += length;
  }
  return true;
}

std::string trim_cut(std::string bytes) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t back = 1; back <= std::min(kLongest, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80U) {
      break;
    }
    if (byte >= 0xc0U) {  // the beginning of the last sequence
      if (utf8_length(bytes, bytes.size() - back) == 0) {
        bytes.resize(bytes.size() - back);
      }
      break;
    }
  }
  return bytes;
}

std::string base64_encode(const std::string& bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / kGroup * kDigits);
  for (std::size_t at = 0; at < bytes.size(); at += kGroup) {
    const std::size_t count = std::min(kGroup, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < kGroup; ++i) {
      bits = (bits << 8U) | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < kDigits; ++i) {
      out.push_back(i <= count ? kAlphabet[(bits >> (18U - 6U * i)) & 0x3fU] : '=');
    }
  }
  return out;
}

Result<std::string> base64_decode(const std::string& text) {
  if (text.size() % kDigits != 0) {
    return no_base64();
  }
  const std::size_t digits = text.find_last_not_of('=') + 1;  // 0 when there is none
  if (text.size() - digits > 2) {
    return no_base64();
  }
  std::string out;
  out.reserve(text.size() / kDigits * kGroup);
  std::uint32_t bits = 0;
  unsigned have = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const std::size_t value = kAlphabet.find(text[i]);
    if (value == std::string_view::npos) {
      return no_base64();
    }
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    have += 6;
    if (have >= 8) {
      have -= 8;
      out.push_back(static_cast<char>((bits >> have) & 0xffU));
    }
  }
  const bool rest_is_zero = (bits & ((1U << have) - 1U)) == 0;
  return rest_is_zero ? Result<std::string>(std::move(out)) : Result<std::string>(no_base64());
}

}  // namespace ate::core
