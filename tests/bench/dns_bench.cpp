// Answers per second of the DNS relay, in network namespaces of its own: an actor's namespace asks
// with a window of open questions, a resolver on loopback answers. Beside it the same asker and the
// same resolver without the relay between. Needs root.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "ate/net/netns.hpp"
#include "net/dns_relay.hpp"
#include "net/links.hpp"
#include "support/run_coro.hpp"
#include "support/temp_dir.hpp"

namespace {

using namespace ate;
using Clock = std::chrono::steady_clock;

constexpr int kWindow = 32;
constexpr std::chrono::seconds kTime(2);

sockaddr_in address_of(const char* text) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(53);
  static_cast<void>(::inet_pton(AF_INET, text, &out.sin_addr));
  return out;
}

UniqueFd udp_socket() {
  UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const timeval limit{0, 200'000};
  static_cast<void>(::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  return fd;
}

/// Answers each question with one address.
void resolve(const UniqueFd& fd, const std::atomic<bool>& stop) {
  std::array<char, 512> buffer;
  while (!stop) {
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t got =
        ::recvfrom(fd.get(), buffer.data(), 400, 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 12) {
      continue;
    }
    buffer[2] = static_cast<char>(0x81);
    buffer[3] = static_cast<char>(0x80);
    buffer[7] = 1;
    static constexpr std::array<unsigned char, 16> kRecord{0xc0, 0x0c, 0, 1, 0,   1, 0, 0,
                                                           0,    60,   0, 4, 192, 0, 2, 1};
    std::memcpy(buffer.data() + got, kRecord.data(), kRecord.size());
    static_cast<void>(::sendto(fd.get(), buffer.data(), static_cast<std::size_t>(got) + 16, 0,
                               reinterpret_cast<const sockaddr*>(&from), size));
  }
}

/// Answers per second that an asker with `kWindow` open questions gets.
double ask(const UniqueFd& fd, const char* server) {
  const sockaddr_in to = address_of(server);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    return 0;
  }
  std::string query("\0\0\1\0\0\1\0\0\0\0\0\0\1a\7example\0\0\1\0\1", 27);
  std::uint16_t id = 0;
  const auto send_one = [&] {
    ++id;
    query[0] = static_cast<char>(id >> 8U);
    query[1] = static_cast<char>(id & 0xffU);
    static_cast<void>(::send(fd.get(), query.data(), query.size(), 0));
  };
  for (int i = 0; i < kWindow; ++i) {
    send_one();
  }
  std::uint64_t answers = 0;
  std::array<char, 512> buffer;
  const auto begin = Clock::now();
  while (Clock::now() - begin < kTime) {
    if (::recv(fd.get(), buffer.data(), buffer.size(), 0) > 0) {
      ++answers;
    }
    send_one();  // after a loss as well
  }
  return static_cast<double>(answers) / std::chrono::duration<double>(Clock::now() - begin).count();
}

async::Task<double> through_relay(async::Context& context, std::string directory) {
  net::NetnsFactory factory(context, directory + "/netns", 0);
  std::ofstream(directory + "/resolv.conf") << "nameserver 127.0.0.1\n";
  net::DnsRelay::Options options;
  options.resolv_conf = directory + "/resolv.conf";
  options.rate = 1e9;
  net::DnsRelay relay(context, options);
  double rate = 0;
  if (factory.prepare()) {
    const Result<net::NetnsPair> pair = co_await factory.acquire();
    if (pair && relay.attach(*pair)) {
      async::TaskScope scope(context, nullptr);
      scope.spawn("dns", relay.serve());
      scope.spawn("dns time", relay.keep_time());
      UniqueFd fd;
      std::thread opener([&] {
        const UniqueFd netns(::open(pair->sandbox_path.c_str(), O_RDONLY | O_CLOEXEC));
        if (::setns(netns.get(), CLONE_NEWNET) == 0) {
          fd = udp_socket();
        }
      });
      opener.join();
      auto asking = [&fd]() { return ask(fd, net::kGatewayAddress); };
      rate = co_await async::run_blocking(context, asking);
      co_await scope.close();
      relay.detach(pair->id);
      const Status gone = co_await factory.destroy(*pair);
      static_cast<void>(gone);
    }
  }
  co_await factory.drain();
  co_return rate;
}

}  // namespace

int main() {
  if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    std::puts("SKIPPED: needs root");
    return 77;
  }
  {
    const Result<UniqueFd> netlink = net::open_rtnetlink();
    net::NetlinkBatch batch;
    net::set_up(batch, net::kLoopbackIndex, "lo");
    if (!netlink || !net::transact(*netlink, batch)) {
      std::puts("SKIPPED: no loopback");
      return 77;
    }
  }
  const UniqueFd server = udp_socket();
  const sockaddr_in here = address_of("127.0.0.1");
  if (::bind(server.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0) {
    std::puts("SKIPPED: port 53 of a namespace of our own is taken");
    return 77;
  }
  std::atomic<bool> stop = false;
  std::thread resolver([&] { resolve(server, stop); });
  const double plain = ask(udp_socket(), "127.0.0.1");
  double relayed = 0;
  test::TempDir directory;
  test::run_coro([&](async::Context& context) -> async::Task<void> {
    relayed = co_await through_relay(context, directory.path());
  });
  stop = true;
  resolver.join();
  std::printf("dns: %.0f answers/s through the relay, %.0f without, ratio %.2f\n", relayed, plain,
              relayed / plain);
  return 0;
}
