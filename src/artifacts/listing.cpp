#include "artifacts/listing.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>

namespace ate::artifacts {

namespace {

constexpr std::size_t kHalf = 16;

std::string checksum(const std::string& text) {
  Xxh3 digest;
  digest.update(std::as_bytes(std::span(text)));
  return digest.finish();
}

/// Two names never give the same text: they hold no NUL.
std::string describe(const std::string& place, const std::string& name, const struct stat& info) {
  // The size of a directory depends on how it was filled.
  const std::int64_t size = S_ISDIR(info.st_mode) ? 0 : info.st_size;
  std::string text = place + '\0' + name + '\0';
  for (const std::int64_t value :
       {std::int64_t{info.st_mode}, std::int64_t{info.st_uid}, std::int64_t{info.st_gid}, size,
        std::int64_t{info.st_mtim.tv_sec}, std::int64_t{info.st_mtim.tv_nsec}}) {
    text += std::to_string(value) + ' ';
  }
  return text;
}

}  // namespace

void Listing::add(const std::string& text) {
  const std::string digits = checksum(text);
  const std::uint64_t high = std::stoull(digits.substr(0, kHalf), nullptr, 16);
  const std::uint64_t low = std::stoull(digits.substr(kHalf), nullptr, 16);
  const std::uint64_t sum = low_ + low;
  high_ += high + (sum < low ? 1 : 0);
  low_ = sum;
  ++entries_;
}

Status Listing::enter(int /*self*/, const std::string& name, const struct stat& info) {
  if (places_.empty()) {
    places_.emplace_back();
    add(describe("", "", info));
    --entries_;  // the top is not in itself
    return {};
  }
  add(describe(places_.back(), name, info));
  places_.push_back(checksum(places_.back() + '\0' + name));
  return {};
}

Status Listing::entry(int dir, const std::string& name, const struct stat& info) {
  if (S_ISSOCK(info.st_mode) || S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode)) {
    return {};  // copies have none
  }
  std::string text = describe(places_.back(), name, info);
  if (S_ISLNK(info.st_mode)) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(dir, name.c_str(), target.data(), target.size());
    if (length < 0) {
      return fail(Error::from_errno("read a link", errno));
    }
    text.append(target.data(), static_cast<std::size_t>(length));
  }
  add(text);
  return {};
}

Status Listing::leave(int /*self*/) {
  places_.pop_back();
  return {};
}

std::string Listing::finish() const {
  std::array<char, 2 * kHalf + 1> digits{};
  static_cast<void>(std::snprintf(digits.data(), digits.size(), "%016llx%016llx",
                                  static_cast<unsigned long long>(high_),
                                  static_cast<unsigned long long>(low_)));
  return digits.data();
}

}  // namespace ate::artifacts
