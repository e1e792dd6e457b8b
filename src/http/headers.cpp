#include "http/headers.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace ate::http {

namespace {

constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

constexpr std::array<std::string_view, 10> kConnectionHeaders = {"connection",
                                                                 "keep-alive",
                                                                 "proxy-authenticate",
                                                                 "proxy-authorization",
                                                                 "te",
                                                                 "proxy-connection",
                                                                 "trailer",
                                                                 "transfer-encoding",
                                                                 "upgrade",
                                                                 "content-length"};

/// Calls `visit` for each element of a comma-separated list until it returns true.
template <class F>
bool any_element(std::string_view list, F visit) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (visit(trim(list.substr(0, comma)))) {
      return true;
    }
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return false;
}

}  // namespace

bool iequals(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trim(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<std::string_view> find_header(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (iequals(key, name)) {
      return value;
    }
  }
  return std::nullopt;
}

bool has_token(const Headers& headers, std::string_view name, std::string_view token) {
  return std::any_of(headers.begin(), headers.end(), [&](const auto& header) {
    return iequals(header.first, name) &&
           any_element(header.second, [&](std::string_view item) { return iequals(item, token); });
  });
}

bool is_hop_by_hop(const Headers& headers, std::string_view name) {
  if (iequals(name, "host")) {
    return false;
  }
  return std::any_of(kConnectionHeaders.begin(), kConnectionHeaders.end(),
                     [&](std::string_view fixed) { return iequals(name, fixed); }) ||
         has_token(headers, "connection", name);
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  const std::size_t begin = out.size();
  out.append(value);
  std::replace_if(
      out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(),
      [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }, ' ');
  out.append("\r\n");
}

void append_decimal(std::string& out, std::uint64_t value) {
  std::array<char, 20> digits{};
  const std::to_chars_result end = std::to_chars(digits.begin(), digits.end(), value);
  out.append(digits.data(), end.ptr);
}

std::string_view chunk_head(std::array<char, 20>& room, std::size_t size) noexcept {
  const std::to_chars_result end = std::to_chars(room.begin(), room.end() - 2, size, 16);
  end.ptr[0] = '\r';
  end.ptr[1] = '\n';
  return {room.data(), end.ptr + 2};
}

std::string_view reason_phrase(int status) noexcept {
  struct Phrase {
    int status;
    std::string_view text;
  };

  static constexpr std::array<Phrase, 36> kPhrases = {{
      {100, "Continue"},
      {101, "Switching Protocols"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {206, "Partial Content"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {303, "See Other"},
      {304, "Not Modified"},
      {307, "Temporary Redirect"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {410, "Gone"},
      {411, "Length Required"},
      {412, "Precondition Failed"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {422, "Unprocessable Content"},
      {426, "Upgrade Required"},
      {428, "Precondition Required"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {507, "Insufficient Storage"},
  }};
  const auto* found = std::find_if(kPhrases.begin(), kPhrases.end(),
                                   [&](const Phrase& phrase) { return phrase.status == status; });
  return found == kPhrases.end() ? std::string_view() : found->text;
}

}  // namespace ate::http
