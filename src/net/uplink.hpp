#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::net {

/// Of the router namespace: its end of the link to the host.
inline constexpr const char* kUplinkName = "up0";

/// A link between the host and a router namespace: /31, the host has the even address.
struct Uplink {
  std::string name;  // on the host
  std::uint32_t host_address = 0;
};

/// Makes the link with addresses, routes and forwarding; both ends up. Nothing stays behind on
/// failure. Blocking: for the pool.
[[nodiscard]] Status make_uplink(const Uplink& uplink, int router_netns);
/// Missing is ok.
[[nodiscard]] Status remove_uplink(const std::string& name);
/// Names of links of the host that begin with `prefix`.
[[nodiscard]] Result<std::vector<std::string>> list_uplinks(const std::string& prefix);

/// Whether the host reaches `address` by something else than its default route: it is taken.
[[nodiscard]] Result<bool> is_routed(std::uint32_t address);

/// Ok when this host would pass packets on between its uplink and ours; else says what to set.
[[nodiscard]] Status check_forwarding();

}  // namespace ate::net
