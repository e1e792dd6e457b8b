#include "net/pair.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "ate/os/fs.hpp"
#include "ate/os/mount.hpp"
#include "net/rtnetlink.hpp"

namespace ate::net {

namespace {

constexpr const char* kSandboxLink = "eth0";
constexpr const char* kRouterLink = "r0";
// Fixed, so that all requests of a namespace go in one batch; beyond the numbers that tunnel
// modules give to the devices they put into every new namespace.
// Two numbers, not one: the kernel handles "link is up" of a device at once when its number differs
// from its peer's, else up to a second later (seen on 6.1).
constexpr int kRouterIndex = 100;
constexpr int kSandboxIndex = 101;
constexpr int kLoopbackIndex = 1;
using Mac = std::array<unsigned char, 6>;
// Locally administered, the last four bytes are the address.
constexpr Mac kSandboxMac{0x02, 0x00, 169, 254, 17, 2};
constexpr Mac kRouterMac{0x02, 0x00, 169, 254, 17, 1};
// A name of a dead process may be covered several times.
constexpr int kUnmountTries = 16;

in_addr to_address(const char* text) {
  in_addr address{};
  static_cast<void>(::inet_pton(AF_INET, text, &address));
  return address;
}

/// Runs `work` on a thread of its own, which may change its network namespace and ends there.
template <class T>
Result<T> on_own_thread(std::function<Result<T>()> work) {
  Result<T> result = fail(Errc::Internal, "not run");
  try {
    std::thread thread([&] { result = work(); });
    thread.join();
  } catch (const std::system_error& error) {
    return fail(Error::from_errno("start a thread", error.code().value()));
  }
  return result;
}

/// One of the two namespaces while it is being made.
struct Half {
  UniqueFd netns;
  UniqueFd netlink;
};

/// Nothing in the pair speaks IPv6: no duplicate address detection to wait for, nothing to scrape.
Status disable_ipv6() {
  constexpr std::array<std::pair<const char*, const char*>, 3> kSettings{{
      {"/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"},
      {"/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"},
      {"/proc/sys/net/ipv6/conf/default/accept_ra", "0"},
  }};
  for (const auto& [path, value] : kSettings) {
    const Status status = os::write_control_file(path, value);
    if (!status && status.error().code() != Errc::NotFound) {  // a kernel without IPv6
      return status;
    }
  }
  return {};
}

/// Moves this thread into a new namespace and gives it the name `path`, which must be free.
Result<Half> enter_new(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400));
  if (!file) {
    return fail(Error::from_errno("create " + path, errno,
                                  errno == EEXIST ? Errc::AlreadyExists : Errc::Internal));
  }
  if (::unshare(CLONE_NEWNET) != 0) {
    return fail(Error::from_errno("make a network namespace", errno));
  }
  Half half;
  half.netns = UniqueFd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!half.netns) {
    return fail(Error::from_errno("open the network namespace", errno));
  }
  ATE_TRY(disable_ipv6());
  ATE_ASSIGN(half.netlink, open_rtnetlink());
  if (::mount("/proc/thread-self/ns/net", path.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return fail(Error::from_errno("name the network namespace " + path, errno));
  }
  return half;
}

enum class LinkState : std::uint8_t { Down, Up };

ifinfomsg link_header(int index, LinkState state) {
  ifinfomsg header{};
  header.ifi_family = AF_UNSPEC;
  header.ifi_index = index;
  header.ifi_flags = state == LinkState::Up ? IFF_UP : 0;
  header.ifi_change = IFF_UP;
  return header;
}

void put_link(NetlinkBatch& batch, const char* name, const Mac& mac) {
  batch.attribute(IFLA_IFNAME, std::string_view(name));
  batch.attribute(IFLA_ADDRESS, mac.data(), mac.size());
  // veth would make a queue per possible CPU, which costs memory and time.
  batch.attribute(IFLA_NUM_TX_QUEUES, std::uint32_t{1});
  batch.attribute(IFLA_NUM_RX_QUEUES, std::uint32_t{1});
}

/// veth r0 here, its peer eth0 directly in the sandbox's namespace: moving one later costs 14 to
/// 33 ms.
void add_veth(NetlinkBatch& batch, int sandbox_netns) {
  batch.begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, "make the veth pair");
  batch.put(link_header(kRouterIndex, LinkState::Up));
  put_link(batch, kRouterLink, kRouterMac);
  const std::size_t info = batch.begin_nested(IFLA_LINKINFO);
  batch.attribute(IFLA_INFO_KIND, std::string_view("veth"));
  const std::size_t data = batch.begin_nested(IFLA_INFO_DATA);
  const std::size_t peer = batch.begin_nested(VETH_INFO_PEER);
  // Down: the kernel opens the peer before it knows its other end (ENOTCONN).
  batch.put(link_header(kSandboxIndex, LinkState::Down));
  put_link(batch, kSandboxLink, kSandboxMac);
  batch.attribute(IFLA_NET_NS_FD, static_cast<std::uint32_t>(sandbox_netns));
  batch.end_nested(peer);
  batch.end_nested(data);
  batch.end_nested(info);
}

void set_up(NetlinkBatch& batch, int index, const char* name) {
  batch.begin(RTM_NEWLINK, 0, std::string("set up ") + name);
  batch.put(link_header(index, LinkState::Up));
}

void add_address(NetlinkBatch& batch, int index, const char* text) {
  const in_addr address = to_address(text);
  batch.begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, std::string("set address ") + text);
  ifaddrmsg header{};
  header.ifa_family = AF_INET;
  header.ifa_prefixlen = kPrefixLength;
  header.ifa_index = static_cast<unsigned>(index);
  batch.put(header);
  batch.attribute(IFA_LOCAL, &address, sizeof address);
  batch.attribute(IFA_ADDRESS, &address, sizeof address);
}

/// A permanent neighbour: the first packet does not wait for ARP.
void add_neighbour(NetlinkBatch& batch, int index, const char* text, const Mac& mac) {
  const in_addr address = to_address(text);
  batch.begin(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, std::string("set neighbour ") + text);
  ndmsg header{};
  header.ndm_family = AF_INET;
  header.ndm_ifindex = index;
  header.ndm_state = NUD_PERMANENT;
  batch.put(header);
  batch.attribute(NDA_DST, &address, sizeof address);
  batch.attribute(NDA_LLADDR, mac.data(), mac.size());
}

void add_default_route(NetlinkBatch& batch, const char* gateway_text) {
  const in_addr gateway = to_address(gateway_text);
  batch.begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, "set the default route");
  rtmsg header{};
  header.rtm_family = AF_INET;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_scope = RT_SCOPE_UNIVERSE;
  header.rtm_type = RTN_UNICAST;
  batch.put(header);
  batch.attribute(RTA_GATEWAY, &gateway, sizeof gateway);
  batch.attribute(RTA_OIF, static_cast<std::uint32_t>(kSandboxIndex));
}

/// Until the kernel's link watch has run, a veth whose other end has just come up drops what is
/// sent, and a lost SYN costs a second. ETHTOOL_GLINK makes it run on newer kernels; elsewhere it
/// is a matter of microseconds.
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

Result<NetnsPair> make_pair_here(const std::string& directory, const std::string& id) {
  NetnsPair pair;
  pair.id = id;
  pair.sandbox_path = sandbox_name(directory, id);
  pair.router_path = router_name(directory, id);
  ATE_ASSIGN(const Half sandbox, enter_new(pair.sandbox_path));
  ATE_ASSIGN(Half router, enter_new(pair.router_path));

  NetlinkBatch router_batch;
  add_veth(router_batch, sandbox.netns.get());
  add_address(router_batch, kRouterIndex, kGatewayAddress);
  add_neighbour(router_batch, kRouterIndex, kActorAddress, kSandboxMac);
  set_up(router_batch, kLoopbackIndex, "lo");
  ATE_TRY(transact(router.netlink, router_batch));

  NetlinkBatch sandbox_batch;
  set_up(sandbox_batch, kLoopbackIndex, "lo");
  set_up(sandbox_batch, kSandboxIndex, kSandboxLink);
  add_address(sandbox_batch, kSandboxIndex, kActorAddress);
  add_neighbour(sandbox_batch, kSandboxIndex, kGatewayAddress, kRouterMac);
  add_default_route(sandbox_batch, kGatewayAddress);
  ATE_TRY(transact(sandbox.netlink, sandbox_batch));
  ATE_TRY(settle_link(sandbox.netlink, kSandboxLink));
  ATE_TRY(settle_link(router.netlink, kRouterLink));

  pair.router = std::make_shared<UniqueFd>(std::move(router.netns));
  return pair;
}

Status remove_name(const std::string& path) {
  int err = EBUSY;
  for (int tries = 0; tries < kUnmountTries && err == EBUSY; ++tries) {
    ATE_TRY(os::unmount_detach(path));
    // Where another mount namespace still has a copy of the mount, unlink takes that away too.
    err = ::unlink(path.c_str()) == 0 ? 0 : errno;
  }
  if (err != 0 && err != ENOENT) {
    return fail(Error::from_errno("remove " + path, err));
  }
  return {};
}

/// SAFETY: a thread that stayed in an actor's network would open every later socket there, so a
/// process that can't go back ends. Only a lack of memory for a few hundred bytes can be the cause.
void go_back(const UniqueFd& own) {
  constexpr int kTries = 100;
  constexpr timespec kPause{0, 1'000'000};
  for (int tries = 0; ::setns(own.get(), CLONE_NEWNET) != 0; ++tries) {
    if (tries == kTries) {
      std::fprintf(stderr, "ate: can't return to our own network namespace: %s\n",
                   std::strerror(errno));
      std::abort();
    }
    static_cast<void>(
        ::nanosleep(&kPause, nullptr));  // lint: bounded: the kernel tells no event for this
  }
}

}  // namespace

bool is_pair_id(const std::string& text) {
  return text.size() == 8 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string sandbox_name(const std::string& directory, const std::string& id) {
  return directory + "/" + id + ".s";
}

std::string router_name(const std::string& directory, const std::string& id) {
  return directory + "/" + id + ".r";
}

Result<NetnsPair> make_pair(const std::string& directory, const std::string& id) {
  Result<NetnsPair> pair =
      on_own_thread<NetnsPair>([&directory, &id] { return make_pair_here(directory, id); });
  if (!pair && pair.error().code() != Errc::AlreadyExists) {
    // IGNORED: the error that brought us here is the one to tell; the next start purges the rest.
    static_cast<void>(remove_pair(directory, id));
  }
  return pair;
}

Status remove_pair(const std::string& directory, const std::string& id) {
  const Status sandbox = remove_name(sandbox_name(directory, id));
  const Status router = remove_name(router_name(directory, id));
  return sandbox ? router : sandbox;
}

Result<UniqueFd> make_socket_in(int netns_fd) {
  const UniqueFd own(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!own) {
    return fail(Error::from_errno("open our own network namespace", errno));
  }
  if (::setns(netns_fd, CLONE_NEWNET) != 0) {
    return fail(Error::from_errno("enter the router's network namespace", errno));
  }
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int err = errno;
  go_back(own);
  if (!socket) {
    return fail(Error::from_errno("open a socket in the actor's network", err));
  }
  const int on = 1;
  static_cast<void>(::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  return socket;
}

}  // namespace ate::net
