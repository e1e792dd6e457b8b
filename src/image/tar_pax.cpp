#include <algorithm>
#include <charconv>
#include <string_view>

#include "image/limits.hpp"
#include "image/tar.hpp"

namespace ate::image::tar {

namespace {

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Errc::ImageInvalid, "tar: " + what);
}

Status check_text(const std::string& text, const char* what) {
  if (text.contains('\0')) {
    return invalid(std::string(what) + " holds a NUL byte");
  }
  return {};
}

Status set_id(const std::string& value, const std::string& key, std::uint32_t& out) {
  ATE_ASSIGN(const std::uint64_t id, parse_decimal(value, key));
  if (id > kMaxId) {
    return invalid(key + " " + std::to_string(id) + " is above 2147483647");
  }
  out = static_cast<std::uint32_t>(id);
  return {};
}

Status add_xattr(const std::string& name, const std::string& value, Entry& entry) {
  ATE_TRY(check_text(name, "an xattr name"));
  std::erase_if(entry.xattrs, [&](const auto& pair) { return pair.first == name; });
  if (value.empty()) {
    return {};
  }
  if (entry.xattrs.size() >= kMaxXattrs) {
    return invalid("more than 64 extended attributes on one file");
  }
  entry.xattrs.emplace_back(name, value);
  return {};
}

Status parse_map(std::string_view text, SparseRecords& sparse) {
  sparse.numbers.clear();
  while (true) {
    const std::size_t comma = text.find(',');
    ATE_ASSIGN(const std::uint64_t number, parse_decimal(text.substr(0, comma), "the sparse map"));
    sparse.numbers.push_back(number);
    if (comma == std::string_view::npos) {
      return {};
    }
    text.remove_prefix(comma + 1);
  }
}

Status apply_sparse(const std::string& key, const std::string& value, SparseRecords& sparse) {
  sparse.present = true;
  if (key == "major" || key == "minor" || key == "numblocks") {
    ATE_ASSIGN(const std::uint64_t number, parse_decimal(value, key));
    if (key == "major") {
      if (number > 1) {
        return invalid("an unknown sparse format");
      }
      sparse.map_in_data = number == 1;
    }
    return {};
  }
  if (key == "name") {
    sparse.name = value;
    return check_text(value, "a name");
  }
  if (key == "size" || key == "realsize") {
    ATE_ASSIGN(sparse.size, parse_decimal(value, key));
    return {};
  }
  if (key == "map") {
    return parse_map(value, sparse);
  }
  if (key == "offset" || key == "numbytes") {
    // Format 0.0: the two keys take turns.
    if ((sparse.numbers.size() % 2 == 0) != (key == "offset")) {
      return invalid("the sparse map is out of order");
    }
    ATE_ASSIGN(const std::uint64_t number, parse_decimal(value, key));
    sparse.numbers.push_back(number);
    return {};
  }
  return invalid("an unknown sparse record");
}

Status apply_record(const std::string& key, const std::string& value, Entry& entry,
                    SparseRecords& sparse) {
  constexpr std::string_view kXattr = "SCHILY.xattr.";
  constexpr std::string_view kSparse = "GNU.sparse.";
  if (key.starts_with(kXattr)) {
    return add_xattr(key.substr(kXattr.size()), value, entry);
  }
  if (key.starts_with(kSparse)) {
    return apply_sparse(key.substr(kSparse.size()), value, sparse);
  }
  if (value.empty()) {
    return {};  // POSIX: takes an earlier global record back; there are none
  }
  if (key == "path") {
    entry.name = value;
    return check_text(value, "a name");
  }
  if (key == "linkpath") {
    entry.link = value;
    return check_text(value, "a link target");
  }
  if (key == "size") {
    ATE_ASSIGN(entry.stored, parse_decimal(value, key));
    return {};
  }
  if (key == "uid") {
    return set_id(value, key, entry.uid);
  }
  if (key == "gid") {
    return set_id(value, key, entry.gid);
  }
  if (key == "mtime") {
    ATE_ASSIGN(const auto time, parse_pax_time(value));
    entry.mtime_seconds = time.first;
    entry.mtime_nanoseconds = time.second;
  }
  return {};  // atime, ctime, uname, gname, comment, hdrcharset and vendors' keys: not needed
}

}  // namespace

Result<std::uint64_t> parse_decimal(std::string_view text, const std::string& what) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size()) {
    return invalid(what + " is not a number");
  }
  return value;
}

Result<std::pair<std::int64_t, std::uint32_t>> parse_pax_time(const std::string& text) {
  const std::size_t dot = text.find('.');
  std::string_view whole = std::string_view(text).substr(0, dot);
  const bool negative = whole.starts_with('-');
  if (negative) {
    whole.remove_prefix(1);
  }
  ATE_ASSIGN(const std::uint64_t seconds, parse_decimal(whole, "mtime"));
  if (seconds > static_cast<std::uint64_t>(INT64_MAX - 1)) {
    return invalid("mtime is out of range");
  }
  std::string fraction = dot == std::string::npos ? "" : text.substr(dot + 1);
  const bool digits = std::ranges::all_of(fraction, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) {
    return invalid("mtime is not a number");
  }
  fraction.resize(9, '0');
  ATE_ASSIGN(const std::uint64_t nanoseconds, parse_decimal(fraction, "mtime"));
  auto signed_seconds = static_cast<std::int64_t>(seconds);
  auto signed_nanoseconds = static_cast<std::int64_t>(nanoseconds);
  if (negative) {
    signed_seconds = -signed_seconds;
    if (signed_nanoseconds > 0) {
      signed_seconds -= 1;
      signed_nanoseconds = 1'000'000'000 - signed_nanoseconds;
    }
  }
  return std::pair(signed_seconds, static_cast<std::uint32_t>(signed_nanoseconds));
}

Result<Records> parse_pax(std::string_view data) {
  Records records;
  while (!data.empty()) {
    const std::size_t space = data.find(' ');
    if (space > 8) {  // npos included
      return invalid("a pax record has no length");
    }
    ATE_ASSIGN(const std::uint64_t length, parse_decimal(data.substr(0, space), "a pax length"));
    if (length > data.size() || length < space + 3 || data[length - 1] != '\n') {
      return invalid("a pax record has a wrong length");
    }
    const std::string_view record = data.substr(space + 1, length - space - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return invalid("a pax record has no key");
    }
    records.emplace_back(record.substr(0, equals), record.substr(equals + 1));
    data.remove_prefix(length);
  }
  return records;
}

Status apply_extended(const Extended& extended, Entry& entry, SparseRecords& sparse) {
  const bool gnu = extended.gnu_name.has_value() || extended.gnu_link.has_value();
  if (extended.pax) {
    for (const auto& [key, value] : *extended.pax) {
      if (gnu && (key == "path" || key == "linkpath")) {
        return invalid("an entry is named by both a GNU and a pax header");
      }
      ATE_TRY(apply_record(key, value, entry, sparse));
    }
  }
  if (extended.gnu_name) {
    entry.name = *extended.gnu_name;
  }
  if (extended.gnu_link) {
    entry.link = *extended.gnu_link;
  }
  if (!sparse.name.empty()) {
    entry.name = sparse.name;  // `path` is then only a hint like ./GNUSparseFile.123/x
  }
  return {};
}

}  // namespace ate::image::tar
