#include "ate/util/ids.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace ate {

namespace {
constexpr std::string_view kBase32 = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr std::string_view kHex = "0123456789abcdef";
constexpr std::size_t kUlidLength = 26;
}  // namespace

void random_bytes(unsigned char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t got = ::getrandom(bytes, count, 0);
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      std::abort();
    }
    bytes += got;
    count -= static_cast<std::size_t>(got);
  }
}

namespace {

std::string encode_ulid(WallTime time, bool random) {
  std::array<unsigned char, 16> raw{};
  auto millis = static_cast<std::uint64_t>(time.time_since_epoch().count());
  for (std::size_t i = 6; i-- > 0;) {
    raw[i] = static_cast<unsigned char>(millis & 0xffU);
    millis >>= 8U;
  }
  if (random) {
    random_bytes(raw.data() + 6, 10);
  }
  // 128 bits as 26 digits of 5 bits: two leading zero bits, then the bytes in order.
  std::string out(kUlidLength, '0');
  for (std::size_t digit = 0; digit < kUlidLength; ++digit) {
    unsigned value = 0;
    for (std::size_t bit = 0; bit < 5; ++bit) {
      const std::size_t position = digit * 5 + bit;  // counted over 130 bits
      value <<= 1U;
      if (position >= 2) {
        const std::size_t index = position - 2;
        value |= (raw[index / 8] >> (7U - index % 8U)) & 1U;
      }
    }
    out[digit] = kBase32[value];
  }
  return out;
}

}  // namespace

std::string make_ulid(WallTime time) {
  return encode_ulid(time, true);
}

std::string ulid_floor(WallTime time) {
  return encode_ulid(time, false);
}

std::string random_hex(std::size_t count) {
  std::string out(count, '0');
  for (char& c : out) {
    unsigned char byte = 0;
    random_bytes(&byte, 1);
    c = kHex[byte & 0xfU];
  }
  return out;
}

bool is_dns_label(std::string_view text) {
  if (text.empty() || text.size() > 63 || text.front() == '-' || text.back() == '-') {
    return false;
  }
  for (const char c : text) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    if (!ok) {
      return false;
    }
  }
  return true;
}

bool is_ulid(std::string_view text) {
  return text.size() == kUlidLength && text.find_first_not_of(kBase32) == std::string_view::npos;
}

}  // namespace ate
