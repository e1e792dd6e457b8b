#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ate {

/// An IPv4 network; host bits are zero.
struct Cidr {
  std::uint32_t address = 0;  // host byte order
  unsigned length = 0;

  bool operator==(const Cidr&) const = default;
};

/// "10.0.0.0/8"; nothing when it is not written like that, or a host bit is set.
[[nodiscard]] std::optional<Cidr> parse_cidr(std::string_view text);
/// Dotted; `address` in host byte order.
[[nodiscard]] std::string format_address(std::uint32_t address);
[[nodiscard]] std::string format_cidr(const Cidr& cidr);
[[nodiscard]] bool overlap(const Cidr& a, const Cidr& b);

}  // namespace ate
