#include "daemon/groups.hpp"

#include <algorithm>
#include <charconv>

namespace ate::daemon {

namespace {

std::optional<gid_t> parse_gid(std::string_view text) {
  gid_t gid = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, gid);
  if (error != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return gid;
}

std::string_view take_field(std::string_view& line) {
  const std::string_view field = line.substr(0, line.find(':'));
  line.remove_prefix(std::min(line.size(), field.size() + 1));
  return field;
}

}  // namespace

std::optional<gid_t> find_group(std::string_view etc_group, std::string_view name) {
  while (!etc_group.empty()) {
    std::string_view line = etc_group.substr(0, etc_group.find('\n'));
    etc_group.remove_prefix(std::min(etc_group.size(), line.size() + 1));
    if (take_field(line) != name || name.empty()) {
      continue;
    }
    static_cast<void>(take_field(line));  // password
    return parse_gid(take_field(line));
  }
  return parse_gid(name);
}

}  // namespace ate::daemon
