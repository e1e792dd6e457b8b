#include "api/prefer.hpp"

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace ate::api {

namespace {

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

Result<std::chrono::milliseconds> parse_wait(std::string_view text,
                                             std::chrono::milliseconds longest) {
  std::uint32_t seconds = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seconds);
  if (error != std::errc{} || stop != end) {
    return fail(Error(Errc::Malformed, "Prefer: wait takes a whole number of seconds")
                    .with_field("Prefer"));
  }
  return std::min<std::chrono::milliseconds>(std::chrono::seconds(seconds), longest);
}

Status apply(std::string_view item, std::chrono::milliseconds longest, Prefer& out) {
  item = trim(item.substr(0, item.find(';')));
  const std::size_t equals = item.find('=');
  const std::string_view name = trim(item.substr(0, equals));
  if (name == "respond-async") {
    out.respond_async = true;
  } else if (name == "wait") {
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : trim(item.substr(equals + 1));
    ATE_ASSIGN(out.wait, parse_wait(value, longest));
  }
  return {};
}

}  // namespace

Result<Prefer> parse_prefer(const http::Headers& headers, std::chrono::milliseconds longest) {
  Prefer out;
  for (const auto& [name, value] : headers) {
    if (::strcasecmp(name.c_str(), "Prefer") != 0) {
      continue;
    }
    std::string_view left = value;
    while (!left.empty()) {
      const std::size_t comma = left.find(',');
      ATE_TRY(apply(left.substr(0, comma), longest, out));
      left.remove_prefix(comma == std::string_view::npos ? left.size() : comma + 1);
    }
  }
  return out;
}

}  // namespace ate::api
