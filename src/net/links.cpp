#include "net/links.hpp"

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ate::net {

namespace {

std::string text_of(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  static_cast<void>(::inet_ntop(AF_INET, &address, text.data(), text.size()));
  return text.data();
}

}  // namespace

in_addr to_address(const char* text) {
  in_addr address{};
  static_cast<void>(::inet_pton(AF_INET, text, &address));
  return address;
}

ifinfomsg link_header(int index, LinkState state) {
  ifinfomsg header{};
  header.ifi_family = AF_UNSPEC;
  header.ifi_index = index;
  header.ifi_flags = state == LinkState::Up ? IFF_UP : 0;
  header.ifi_change = IFF_UP;
  return header;
}

void set_up(NetlinkBatch& batch, int index, const char* name) {
  batch.begin(RTM_NEWLINK, 0, std::string("set up ") + name);
  batch.put(link_header(index, LinkState::Up));
}

void add_address(NetlinkBatch& batch, int index, const in_addr& address, int prefix_length) {
  batch.begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, "set address " + text_of(address));
  ifaddrmsg header{};
  header.ifa_family = AF_INET;
  header.ifa_prefixlen = static_cast<std::uint8_t>(prefix_length);
  header.ifa_index = static_cast<unsigned>(index);
  batch.put(header);
  batch.attribute(IFA_LOCAL, &address, sizeof address);
  batch.attribute(IFA_ADDRESS, &address, sizeof address);
}

void add_default_route(NetlinkBatch& batch, int index, const in_addr& gateway) {
  batch.begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, "set the default route");
  rtmsg header{};
  header.rtm_family = AF_INET;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_scope = RT_SCOPE_UNIVERSE;
  header.rtm_type = RTN_UNICAST;
  batch.put(header);
  batch.attribute(RTA_GATEWAY, &gateway, sizeof gateway);
  batch.attribute(RTA_OIF, static_cast<std::uint32_t>(index));
}

Status settle_link(const UniqueFd& socket, const char* name) {
  constexpr int kTries = 4000;  // 2 s: a loaded host
  constexpr timespec kPause{0, 500'000};
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  ethtool_value link{ETHTOOL_GLINK, 0};
  request.ifr_data = reinterpret_cast<char*>(&link);
  // IGNORED: only to make the kernel hurry.
  static_cast<void>(::ioctl(socket.get(), SIOCETHTOOL, &request));
  for (int tries = 0; tries < kTries; ++tries) {
    if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) {
      return fail(Error::from_errno(std::string("look at ") + name, errno));
    }
    if ((static_cast<unsigned>(request.ifr_flags) & IFF_RUNNING) != 0) {
      return {};
    }
    static_cast<void>(
        ::nanosleep(&kPause, nullptr));  // lint: bounded: the kernel tells no event for this
  }
  return fail(Errc::Unavailable, std::string("the link ") + name + " does not come up");
}

}  // namespace ate::net
