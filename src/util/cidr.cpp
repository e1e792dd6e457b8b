#include "ate/util/cidr.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace ate {

namespace {

std::uint32_t host_mask(unsigned length) {
  return static_cast<std::uint32_t>((1ULL << (32U - length)) - 1U);
}

}  // namespace

std::optional<Cidr> parse_cidr(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view digits = text.substr(slash + 1);
  Cidr cidr;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), cidr.length);
  in_addr address{};
  if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size() || cidr.length > 32 ||
      digits.size() > 2 ||
      ::inet_pton(AF_INET, std::string(text.substr(0, slash)).c_str(), &address) != 1) {
    return std::nullopt;
  }
  cidr.address = ntohl(address.s_addr);
  if ((cidr.address & host_mask(cidr.length)) != 0) {
    return std::nullopt;
  }
  return cidr;
}

std::string format_address(std::uint32_t address) {
  const in_addr raw{htonl(address)};
  std::array<char, INET_ADDRSTRLEN> text{};
  static_cast<void>(::inet_ntop(AF_INET, &raw, text.data(), text.size()));
  return text.data();
}

std::string format_cidr(const Cidr& cidr) {
  return format_address(cidr.address) + "/" + std::to_string(cidr.length);
}

bool overlap(const Cidr& a, const Cidr& b) {
  const std::uint32_t mask = ~host_mask(std::min(a.length, b.length));
  return (a.address & mask) == (b.address & mask);
}

}  // namespace ate
