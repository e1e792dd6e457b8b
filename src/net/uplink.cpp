#include "net/uplink.hpp"

#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "ate/os/fs.hpp"
#include "ate/util/cidr.hpp"
#include "net/links.hpp"

namespace ate::net {

namespace {

constexpr int kPointToPoint = 31;

in_addr raw(std::uint32_t address) {
  return in_addr{htonl(address)};
}

void add_link(NetlinkBatch& batch, const Uplink& uplink, int router_netns) {
  batch.begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, "make the link " + uplink.name);
  batch.put(link_header(0, LinkState::Down));
  batch.attribute(IFLA_IFNAME, uplink.name);
  const std::size_t info = batch.begin_nested(IFLA_LINKINFO);
  batch.attribute(IFLA_INFO_KIND, std::string_view("veth"));
  const std::size_t data = batch.begin_nested(IFLA_INFO_DATA);
  const std::size_t peer = batch.begin_nested(VETH_INFO_PEER);
  batch.put(link_header(0, LinkState::Down));
  batch.attribute(IFLA_IFNAME, std::string_view(kUplinkName));
  batch.attribute(IFLA_NET_NS_FD, static_cast<std::uint32_t>(router_netns));
  batch.end_nested(peer);
  batch.end_nested(data);
  batch.end_nested(info);
}

/// Of our link alone: what the host does with its other links is its own affair.
Status configure(const std::string& link) {
  ATE_TRY(os::write_control_file("/proc/sys/net/ipv4/conf/" + link + "/forwarding", "1"));
  ATE_TRY(os::write_control_file("/proc/sys/net/ipv4/conf/" + link + "/send_redirects", "0"));
  const Status off =
      os::write_control_file("/proc/sys/net/ipv6/conf/" + link + "/disable_ipv6", "1");
  return off || off.error().code() == Errc::NotFound ? Status() : off;  // a kernel without IPv6
}

Result<int> index_of(const std::string& name) {
  const unsigned index = ::if_nametoindex(name.c_str());
  if (index == 0) {
    return fail(Error::from_errno("look at " + name, errno));
  }
  return static_cast<int>(index);
}

Status make_host_end(const Uplink& uplink, int router_netns, const UniqueFd& netlink) {
  NetlinkBatch making;
  add_link(making, uplink, router_netns);
  ATE_TRY(transact(netlink, making));
  ATE_TRY(configure(uplink.name));
  ATE_ASSIGN(const int index, index_of(uplink.name));
  NetlinkBatch up;
  add_address(up, index, raw(uplink.host_address), kPointToPoint);
  set_up(up, index, uplink.name.c_str());
  return transact(netlink, up);
}

/// Moves this thread into the router namespace.
Status make_router_end(const Uplink& uplink, int router_netns) {
  if (::setns(router_netns, CLONE_NEWNET) != 0) {
    return fail(Error::from_errno("enter the router's network namespace", errno));
  }
  ATE_TRY(os::write_control_file("/proc/sys/net/ipv4/ip_forward", "1"));
  ATE_ASSIGN(const UniqueFd netlink, open_rtnetlink());
  ATE_ASSIGN(const int index, index_of(kUplinkName));
  NetlinkBatch batch;
  add_address(batch, index, raw(uplink.host_address + 1), kPointToPoint);
  set_up(batch, index, kUplinkName);
  add_default_route(batch, index, raw(uplink.host_address));
  ATE_TRY(transact(netlink, batch));
  return settle_link(netlink, kUplinkName);
}

/// The answer to a look-up: what it goes by.
struct Route {
  bool found = false;
  bool is_default = false;
  std::uint32_t link = 0;
};

Result<Route> look_up(std::uint32_t address) {
  ATE_ASSIGN(const UniqueFd socket, open_rtnetlink());
  const in_addr to = raw(address);
  NetlinkBatch batch;
  batch.begin(RTM_GETROUTE, 0, "look up a route");
  rtmsg header{};
  header.rtm_family = AF_INET;
  header.rtm_dst_len = 32;
  header.rtm_flags = RTM_F_FIB_MATCH;
  batch.put(header);
  batch.attribute(RTA_DST, &to, sizeof to);
  std::string answer;
  const Status asked = query(socket, batch, answer);
  if (!asked && (asked.error().sys_errno() == ENETUNREACH || asked.error().sys_errno() == ESRCH)) {
    return Route{};
  }
  ATE_TRY(asked);
  Route route;
  rtmsg found{};
  if (answer.size() < sizeof found) {
    return fail(Errc::Internal, "look up a route: a short answer");
  }
  std::memcpy(&found, answer.data(), sizeof found);
  route.found = true;
  route.is_default = found.rtm_dst_len == 0;
  for (std::size_t at = sizeof found; at + sizeof(rtattr) <= answer.size();) {
    rtattr attribute{};
    std::memcpy(&attribute, answer.data() + at, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > answer.size()) {
      break;
    }
    if (attribute.rta_type == RTA_OIF &&
        attribute.rta_len == sizeof attribute + sizeof route.link) {
      std::memcpy(&route.link, answer.data() + at + sizeof attribute, sizeof route.link);
    }
    at += (attribute.rta_len + 3UL) / 4 * 4;
  }
  return route;
}

bool is_on(const std::string& path) {
  const Result<std::string> text = os::read_file(path, 16);
  return text && text->starts_with("1");
}

}  // namespace

Status make_uplink(const Uplink& uplink, int router_netns) {
  const Result<bool> made = on_own_thread<bool>([&uplink, router_netns]() -> Result<bool> {
    ATE_ASSIGN(const UniqueFd netlink, open_rtnetlink());
    ATE_TRY(make_host_end(uplink, router_netns, netlink));
    ATE_TRY(make_router_end(uplink, router_netns));
    ATE_TRY(settle_link(netlink, uplink.name.c_str()));
    return true;
  });
  if (!made) {
    // IGNORED: the error that brought us here is the one to tell; the next start finds the rest.
    static_cast<void>(remove_uplink(uplink.name));
    return fail(made.error());
  }
  return {};
}

Status remove_uplink(const std::string& name) {
  ATE_ASSIGN(const UniqueFd netlink, open_rtnetlink());
  NetlinkBatch batch;
  batch.begin(RTM_DELLINK, 0, "remove the link " + name);
  batch.put(ifinfomsg{});
  batch.attribute(IFLA_IFNAME, name);
  const Status removed = transact(netlink, batch);
  return removed || removed.error().sys_errno() == ENODEV ? Status() : removed;
}

Result<std::vector<std::string>> list_uplinks(const std::string& prefix) {
  struct if_nameindex* all = ::if_nameindex();
  if (all == nullptr) {
    return fail(Error::from_errno("list the links of the host", errno));
  }
  std::vector<std::string> names;
  for (const struct if_nameindex* one = all; one->if_name != nullptr; ++one) {
    if (std::string_view(one->if_name).starts_with(prefix)) {
      names.emplace_back(one->if_name);
    }
  }
  ::if_freenameindex(all);
  return names;
}

Result<bool> is_routed(std::uint32_t address) {
  ATE_ASSIGN(const Route route, look_up(address));
  return route.found && !route.is_default;
}

Status check_forwarding() {
  if (is_on("/proc/sys/net/ipv4/ip_forward")) {
    return {};
  }
  // An address of documentation: what goes to nobody takes the default route.
  constexpr std::uint32_t kNobody = 0xc0000201;  // 192.0.2.1
  ATE_ASSIGN(const Route route, look_up(kNobody));
  std::array<char, IF_NAMESIZE> name{};
  if (route.found && ::if_indextoname(route.link, name.data()) != nullptr &&
      is_on(std::string("/proc/sys/net/ipv4/conf/") + name.data() + "/forwarding")) {
    return {};
  }
  const std::string link = name[0] == '\0' ? "<uplink>" : name.data();
  return fail(Errc::Unavailable,
              "egress nat needs the host to forward IPv4: set net.ipv4.ip_forward=1, or "
              "net.ipv4.conf." +
                  link + ".forwarding=1 (ate-noded changes no setting of the host)");
}

}  // namespace ate::net
