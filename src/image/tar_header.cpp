#include <algorithm>
#include <cstring>
#include <limits>

#include "image/limits.hpp"
#include "image/tar.hpp"

namespace ate::image::tar {

namespace {

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Errc::ImageInvalid, "tar: " + what);
}

std::string_view field(const Block& block, std::size_t offset, std::size_t length) {
  return std::string_view(block.data() + offset, length);
}

std::string text_field(const Block& block, std::size_t offset, std::size_t length) {
  const std::string_view raw = field(block, offset, length);
  return std::string(raw.substr(0, raw.find('\0')));
}

// Both sums in use: of unsigned bytes (POSIX) and of signed ones (old Sun tars).
bool checksum_ok(const Block& block) {
  const Result<std::uint64_t> stored = parse_number(field(block, 148, 8), "checksum");
  if (!stored) {
    return false;
  }
  std::uint64_t unsigned_sum = 0;
  std::int64_t signed_sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : block[i];
    unsigned_sum += static_cast<unsigned char>(c);
    signed_sum += static_cast<signed char>(c);
  }
  return *stored == unsigned_sum ||
         (signed_sum >= 0 && *stored == static_cast<std::uint64_t>(signed_sum));
}

// The prefix of a ustar name; GNU puts times there, star a shorter prefix.
std::string name_prefix(const Block& block) {
  constexpr std::string_view kUstar("ustar\0", 6);
  if (field(block, 257, 6) != kUstar) {
    return {};
  }
  constexpr std::string_view kStar("tar\0", 4);
  return text_field(block, 345, field(block, 508, 4) == kStar ? 131 : 155);
}

Result<std::uint64_t> parse_binary(std::string_view raw, const char* what) {
  const auto first = static_cast<unsigned char>(raw[0]);
  std::uint64_t value = first & 0x7fU;
  if ((first & 0x40U) != 0) {
    return invalid(std::string(what) + " is negative");
  }
  for (const char c : raw.substr(1)) {
    if (value > (std::numeric_limits<std::uint64_t>::max() >> 8U)) {
      return invalid(std::string(what) + " is out of range");
    }
    value = (value << 8U) | static_cast<unsigned char>(c);
  }
  return value;
}

}  // namespace

Result<std::uint64_t> parse_number(std::string_view raw, const char* what) {
  if (!raw.empty() && (static_cast<unsigned char>(raw[0]) & 0x80U) != 0) {
    return parse_binary(raw, what);
  }
  const auto padding = [](char c) { return c == ' ' || c == '\0'; };
  while (!raw.empty() && padding(raw.front())) {
    raw.remove_prefix(1);
  }
  while (!raw.empty() && padding(raw.back())) {
    raw.remove_suffix(1);
  }
  std::uint64_t value = 0;
  for (const char c : raw) {
    if (c < '0' || c > '7' || value > (std::numeric_limits<std::uint64_t>::max() >> 3U)) {
      return invalid(std::string(what) + " is not a number");
    }
    value = (value << 3U) | static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

Result<std::int64_t> parse_time(std::string_view raw) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto first = static_cast<unsigned char>(raw[0]);
  if ((first & 0xc0U) == 0xc0U) {
    // Two's complement over the whole field; every byte above the low eight must be sign.
    std::uint64_t value = ~std::uint64_t{0};
    for (const char c : raw) {
      if ((value >> 55U) != (~std::uint64_t{0} >> 55U)) {
        return invalid("the time is out of range");
      }
      value = (value << 8U) | static_cast<unsigned char>(c);
    }
    return static_cast<std::int64_t>(value);
  }
  ATE_ASSIGN(const std::uint64_t value, parse_number(raw, "the time"));
  if (value > kMax) {
    return invalid("the time is out of range");
  }
  return static_cast<std::int64_t>(value);
}

Result<Header> parse_header(const Block& block) {
  if (!checksum_ok(block)) {
    return invalid("wrong checksum in a header: damaged, or not a tar archive");
  }
  Header header;
  header.type = block[156];
  header.name = text_field(block, 0, 100);
  header.link = text_field(block, 157, 100);
  if (const std::string prefix = name_prefix(block); !prefix.empty()) {
    header.name = prefix + "/" + header.name;
  }
  ATE_ASSIGN(header.mode, parse_number(field(block, 100, 8), "the mode"));
  ATE_ASSIGN(header.uid, parse_number(field(block, 108, 8), "the uid"));
  ATE_ASSIGN(header.gid, parse_number(field(block, 116, 8), "the gid"));
  ATE_ASSIGN(header.size, parse_number(field(block, 124, 12), "the size"));
  ATE_ASSIGN(header.mtime, parse_time(field(block, 136, 12)));
  const bool device = header.type == '3' || header.type == '4';
  if (device) {
    ATE_ASSIGN(header.device_major, parse_number(field(block, 329, 8), "the device"));
    ATE_ASSIGN(header.device_minor, parse_number(field(block, 337, 8), "the device"));
  }
  return header;
}

Status set_extents(Entry& entry, const std::vector<std::uint64_t>& numbers) {
  if (numbers.size() % 2 != 0 || numbers.size() / 2 > kMaxSparseRegions) {
    return invalid("the sparse map has an odd or too large number of entries");
  }
  entry.sparse = true;
  entry.extents.clear();
  std::uint64_t end = 0;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    const Extent extent{numbers[i], numbers[i + 1]};
    if (extent.offset < end || extent.offset > entry.size ||
        extent.length > entry.size - extent.offset) {
      return invalid("the sparse map overlaps or leaves the file");
    }
    end = extent.offset + extent.length;
    sum += extent.length;
    if (extent.length > 0) {
      entry.extents.push_back(extent);
    }
  }
  if (sum != entry.stored) {
    return invalid("the sparse map disagrees with the stored size");
  }
  return {};
}

}  // namespace ate::image::tar
