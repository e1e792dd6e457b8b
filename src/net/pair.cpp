#include "net/pair.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
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

#include "ate/os/fs.hpp"
#include "ate/os/mount.hpp"
#include "net/links.hpp"

namespace ate::net {

namespace {

constexpr const char* kSandboxLink = "eth0";
// Fixed, so that all requests of a namespace go in one batch; beyond the numbers that tunnel
// modules give to the devices they put into every new namespace.
// Two numbers, not one: the kernel handles "link is up" of a device at once when its number differs
// from its peer's, else up to a second later (seen on 6.1).
constexpr int kRouterIndex = 100;
constexpr int kSandboxIndex = 101;
using Mac = std::array<unsigned char, 6>;
// Locally administered, the last four bytes are the address.
constexpr Mac kSandboxMac{0x02, 0x00, 169, 254, 17, 2};
constexpr Mac kRouterMac{0x02, 0x00, 169, 254, 17, 1};
// A name of a dead process may be covered several times.
constexpr int kUnmountTries = 16;

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
  put_link(batch, kRouterLinkName, kRouterMac);
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

Result<NetnsPair> make_pair_here(const std::string& directory, const std::string& id) {
  NetnsPair pair;
  pair.id = id;
  pair.sandbox_path = sandbox_name(directory, id);
  pair.router_path = router_name(directory, id);
  ATE_ASSIGN(const Half sandbox, enter_new(pair.sandbox_path));
  ATE_ASSIGN(Half router, enter_new(pair.router_path));

  NetlinkBatch router_batch;
  add_veth(router_batch, sandbox.netns.get());
  add_address(router_batch, kRouterIndex, to_address(kGatewayAddress), kPrefixLength);
  add_neighbour(router_batch, kRouterIndex, kActorAddress, kSandboxMac);
  set_up(router_batch, kLoopbackIndex, "lo");
  ATE_TRY(transact(router.netlink, router_batch));

  NetlinkBatch sandbox_batch;
  set_up(sandbox_batch, kLoopbackIndex, "lo");
  set_up(sandbox_batch, kSandboxIndex, kSandboxLink);
  add_address(sandbox_batch, kSandboxIndex, to_address(kActorAddress), kPrefixLength);
  add_neighbour(sandbox_batch, kSandboxIndex, kGatewayAddress, kRouterMac);
  add_default_route(sandbox_batch, kSandboxIndex, to_address(kGatewayAddress));
  ATE_TRY(transact(sandbox.netlink, sandbox_batch));
  ATE_TRY(settle_link(sandbox.netlink, kSandboxLink));
  ATE_TRY(settle_link(router.netlink, kRouterLinkName));

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

Result<UniqueFd> make_socket_in(int netns_fd, int type) {
  const UniqueFd own(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!own) {
    return fail(Error::from_errno("open our own network namespace", errno));
  }
  if (::setns(netns_fd, CLONE_NEWNET) != 0) {
    return fail(Error::from_errno("enter the router's network namespace", errno));
  }
  UniqueFd socket(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int err = errno;
  go_back(own);
  if (!socket) {
    return fail(Error::from_errno("open a socket in the actor's network", err));
  }
  if (type == SOCK_STREAM) {
    const int on = 1;
    static_cast<void>(::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  }
  return socket;
}

}  // namespace ate::net
