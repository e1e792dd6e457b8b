#include "api/url.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>

#include "ate/util/log.hpp"

namespace ate::api {

namespace {

constexpr std::size_t kQuoteLimit = 100;
constexpr std::size_t kSealBytes = 4;
constexpr std::string_view kTokenPrefix = "ate1";
constexpr std::string_view kHexDigits = "0123456789abcdef";

std::string quoted(std::string_view text) {
  return '"' + escape_text(text, kQuoteLimit) + '"';
}

/// Value of two hexadecimal digits, -1 when they are none.
int hex_byte(std::string_view digits) {
  if (digits.size() != 2) {
    return -1;
  }
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + 2, value, 16);
  return error == std::errc{} && end == digits.data() + 2 && digits.front() != '-' ? value : -1;
}

Result<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (text[i] == '%') {
      const int value = hex_byte(text.substr(i + 1, 2));
      if (value < 0) {
        return fail(Errc::Malformed, "broken percent escape in " + quoted(text));
      }
      byte = static_cast<unsigned char>(value);
      i += 2;
    } else if (byte >= 0x80) {
      return fail(Errc::Malformed, "unescaped non-ASCII byte in " + quoted(text));
    }
    if (byte < 0x20 || byte == 0x7f) {
      return fail(Errc::Malformed,
                  fmt::format("control character %{:02X} in {}", byte, quoted(text)));
    }
    out += static_cast<char>(byte);
  }
  return out;
}

}  // namespace

Result<std::vector<std::string_view>> split_path(std::string_view path) {
  if (path.empty() || path.front() != '/') {
    return fail(Errc::Malformed, "the request target is not a path");
  }
  path.remove_prefix(1);
  if (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  std::vector<std::string_view> segments;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view segment = path.substr(0, slash);
    if (segment.empty()) {
      return fail(Errc::Malformed, "empty path segment (//)");
    }
    segments.push_back(segment);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (slash != std::string_view::npos && path.empty()) {
      return fail(Errc::Malformed, "empty path segment (//)");
    }
  }
  return segments;
}

Result<std::string> decode_segment(std::string_view segment) {
  ATE_ASSIGN(std::string text, percent_decode(segment));
  if (text == "." || text == ".." || text.find_first_of("/\\") != std::string::npos) {
    return fail(Errc::Malformed, "path segment " + quoted(segment) + " is not a name");
  }
  return text;
}

Result<Query> parse_query(std::string_view query) {
  Query out;
  while (!query.empty()) {
    const std::size_t end = query.find('&');
    const std::string_view item = query.substr(0, end);
    query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
    if (item.empty()) {
      continue;
    }
    const std::size_t equals = item.find('=');
    ATE_ASSIGN(std::string name, percent_decode(item.substr(0, equals)));
    if (name.empty()) {
      return fail(Errc::Malformed, "query parameter without a name: " + quoted(item));
    }
    const std::string_view raw =
        equals == std::string_view::npos ? std::string_view{} : item.substr(equals + 1);
    ATE_ASSIGN(std::string value, percent_decode(raw));
    out.emplace_back(std::move(name), std::move(value));
  }
  return out;
}

namespace {

/// FNV-1a: no secret, but what somebody made up or cut short is told from what we gave out.
std::string seal_of(std::string_view key) {
  std::uint32_t sum = 0x811c9dc5U;
  for (const char c : key) {
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x01000193U;
  }
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) {
    out += static_cast<char>((sum >> static_cast<unsigned>(shift)) & 0xffU);
  }
  return out;
}

}  // namespace

std::string make_page_token(std::string_view key) {
  std::string out(kTokenPrefix);
  for (const char c : std::string(key) + seal_of(key)) {
    const auto byte = static_cast<unsigned char>(c);
    out += kHexDigits[byte >> 4U];
    out += kHexDigits[byte & 0xfU];
  }
  return out;
}

Result<std::string> read_page_token(std::string_view token) {
  const Error bad = Error(Errc::Malformed, "pageToken is not one that this daemon gave out")
                        .with_field("pageToken");
  if (!token.starts_with(kTokenPrefix) || token.size() % 2 != 0 ||
      token.size() == kTokenPrefix.size()) {
    return fail(bad);
  }
  token.remove_prefix(kTokenPrefix.size());
  std::string key;
  for (; !token.empty(); token.remove_prefix(2)) {
    const int byte = hex_byte(token.substr(0, 2));
    if (byte < 0) {
      return fail(bad);
    }
    key += static_cast<char>(byte);
  }
  const std::size_t length = key.size() > kSealBytes ? key.size() - kSealBytes : 0;
  const std::string seal = key.substr(length);
  key.resize(length);
  if (key.empty() || seal != seal_of(key)) {
    return fail(bad);
  }
  return key;
}

}  // namespace ate::api
