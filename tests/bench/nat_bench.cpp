// Throughput of egress nat against the same path without us: an actor's two namespaces, a host, the
// world; plain routing in one round, the daemon's own rules in the next. Everything in namespaces
// of this program. Needs root, ip and nft.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "ate/net/netns.hpp"
#include "net/nft_rules.hpp"
#include "net/pair.hpp"
#include "net/uplink.hpp"
#include "support/temp_dir.hpp"

namespace {

using namespace ate;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;
constexpr std::chrono::milliseconds kTime(1000);
constexpr std::uint16_t kPort = 7777;

bool sh(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;  // NOLINT: a benchmark's shell
}

std::string path_of(const UniqueFd& fd) {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd.get());
}

/// Runs `work` in that namespace, on a thread of its own.
template <class F>
void in_netns(int netns, F work) {
  std::thread thread([&] {
    if (::setns(netns, CLONE_NEWNET) == 0) {
      work();
    }
  });
  thread.join();
}

UniqueFd new_netns() {
  UniqueFd fd;
  std::thread thread([&] {
    if (::unshare(CLONE_NEWNET) == 0) {
      fd = UniqueFd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    }
  });
  thread.join();
  return fd;
}

sockaddr_in to(const char* text) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(kPort);
  static_cast<void>(::inet_pton(AF_INET, text, &out.sin_addr));
  return out;
}

/// Bytes per second of one TCP connection from the actor's namespace to the world.
double transfer(int sandbox, const UniqueFd& listener) {
  UniqueFd sender;
  in_netns(sandbox, [&] {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in world = to("10.77.0.2");
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&world), sizeof world) == 0) {
      sender = std::move(fd);
    }
  });
  if (!sender) {
    return 0;
  }
  const UniqueFd receiver(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::uint64_t total = 0;
  const auto begin = Clock::now();
  std::thread sink([&] {
    std::vector<char> buffer(1U << 20U);
    for (ssize_t got = 1; got > 0; total += static_cast<std::uint64_t>(std::max<ssize_t>(got, 0))) {
      got = ::recv(receiver.get(), buffer.data(), buffer.size(), 0);
    }
  });
  const std::vector<char> payload(1U << 20U);
  while (Clock::now() - begin < kTime &&
         ::send(sender.get(), payload.data(), payload.size(), MSG_NOSIGNAL) > 0) {
  }
  sender.reset();
  sink.join();
  return static_cast<double>(total) / std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Plain routing one round, our rules the next.
int measure(const net::NetnsPair& pair, const UniqueFd& world, const std::string& directory) {
  const net::NatPlan plan{
      .prefix = "ate0000", .uplinks = *parse_cidr("198.19.0.0/16"), .blocked = {}};
  const net::Uplink uplink{.name = plan.prefix + pair.id, .host_address = plan.uplinks.address};
  if (!net::make_uplink(uplink, pair.router->get())) {
    return 77;
  }
  sh("ip route add 169.254.17.2/32 via 198.19.0.1");  // the way back without NAT
  std::ofstream(directory + "/host") << net::host_rules(plan);
  std::ofstream(directory + "/router") << net::router_rules(plan);
  const std::string router = "nsenter --net=" + path_of(*pair.router) + " ";
  UniqueFd listener;
  in_netns(world.get(), [&] {
    listener = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in here = to("0.0.0.0");
    static_cast<void>(
        ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here));
    static_cast<void>(::listen(listener.get(), 1));
  });
  const UniqueFd sandbox(::open(pair.sandbox_path.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<double> plain;
  std::vector<double> ours;
  for (int round = 0; round < kRounds; ++round) {
    if (!sh("nft flush ruleset") || !sh(router + "nft flush ruleset")) {
      std::puts("SKIPPED: no nft");
      return 77;
    }
    plain.push_back(transfer(sandbox.get(), listener));
    if (!sh("nft -f " + directory + "/host") || !sh(router + "nft -f " + directory + "/router")) {
      std::puts("the rules are refused");
      return 1;
    }
    ours.push_back(transfer(sandbox.get(), listener));
  }
  std::printf("nat: %.2f GB/s with our rules, %.2f plain, ratio %.2f\n", median(ours) / 1e9,
              median(plain) / 1e9, median(ours) / median(plain));
  return 0;
}

}  // namespace

int main() {
  if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    std::puts("SKIPPED: needs root");
    return 77;
  }
  const UniqueFd world = new_netns();
  const std::string inside = "nsenter --net=" + path_of(world) + " ";
  // The world knows the way back without NAT too.
  const bool laid = sh("ip link set lo up") &&
                    sh("ip link add w0 type veth peer name h0 netns " + path_of(world)) &&
                    sh("ip addr add 10.77.0.1/24 dev w0 && ip link set w0 up") &&
                    sh(inside + "ip addr add 10.77.0.2/24 dev h0") &&
                    sh(inside + "ip link set h0 up") &&
                    sh(inside + "ip route add 169.254.17.2/32 via 10.77.0.1") &&
                    sh("sysctl -qw net.ipv4.ip_forward=1");
  if (!laid) {
    std::puts("SKIPPED: no ip to lay the path with");
    return 77;
  }
  const test::TempDir directory;
  const Result<net::NetnsPair> pair = net::make_pair(directory.path(), "0123abcd");
  const int code = pair ? measure(*pair, world, directory.path()) : 77;
  const Status gone = net::remove_pair(directory.path(), "0123abcd");
  return gone ? code : 1;
}
