#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "ate/util/clock.hpp"

namespace ate {

/// Fills `bytes` from the kernel (getrandom); aborts if the kernel refuses, which it does not after
/// boot.
void random_bytes(unsigned char* bytes, std::size_t count);

/// 26-character lower-case Crockford base32 ULID: sortable by `time`, 80 random bits. Safe as a
/// file name.
[[nodiscard]] std::string make_ulid(WallTime time);

/// The smallest ULID of `time`: everything made before sorts below it.
[[nodiscard]] std::string ulid_floor(WallTime time);

/// `count` random hexadecimal digits.
[[nodiscard]] std::string random_hex(std::size_t count);

/// DNS-1123 label: 1..63 of [a-z0-9-], no dash at either end.
[[nodiscard]] bool is_dns_label(std::string_view text);
[[nodiscard]] bool is_ulid(std::string_view text);

}  // namespace ate
