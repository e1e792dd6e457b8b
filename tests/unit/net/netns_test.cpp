// Real namespaces and links, in a mount namespace of the test's own.
#include "ate/net/netns.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ate/os/fs.hpp"
#include "ate/os/mount.hpp"
#include "ate/os/process.hpp"
#include "support/catch.hpp"
#include "support/run_coro.hpp"
#include "support/temp_dir.hpp"

using namespace ate;
using namespace ate::async;
using namespace std::chrono_literals;

namespace {

constexpr auto kTimeout = 5s;

/// What a shell command prints inside a network namespace.
std::string in_netns(const std::string& path, const std::string& script) {
  const UniqueFd netns(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(netns);
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd read_end(std::move(ends[0]));
  UniqueFd write_end(std::move(ends[1]));
  os::SpawnPlan plan;
  plan.executable = "/bin/sh";
  plan.argv = {"sh", "-c", script};
  plan.env = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  plan.fds = {{write_end.get(), 1}};
  plan.netns_fd = netns.get();
  const Result<os::Process> process = os::spawn(plan);
  REQUIRE(process);
  write_end.reset();
  std::string out = os::read_descriptor(read_end.get(), 1 << 20, "pipe").value();
  siginfo_t info{};
  REQUIRE(::waitid(P_PIDFD, static_cast<id_t>(process->pidfd.get()), &info, WEXITED) == 0);
  return out;
}

template <class T>
std::string why(const Result<T>& result) {
  return result ? std::string("fine") : result.error().message();
}

struct Listener {
  UniqueFd socket;
  std::uint16_t port = 0;
};

/// A listening socket on the actor's address inside a sandbox namespace.
Listener listen_in(const std::string& sandbox_path) {
  Listener listener;
  std::thread maker([&] {
    const UniqueFd netns(::open(sandbox_path.c_str(), O_RDONLY | O_CLOEXEC));
    if (::setns(netns.get(), CLONE_NEWNET) != 0) {
      return;
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, net::kActorAddress, &address.sin_addr);
    socklen_t size = sizeof address;
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
        ::listen(socket.get(), 8) == 0 &&
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0) {
      listener.port = ntohs(address.sin_port);
      listener.socket = std::move(socket);
    }
  });
  maker.join();
  REQUIRE(listener.socket);
  return listener;
}

/// What a leak would change: links here, mounts below, names in the directory, our descriptors.
struct Seen {
  std::vector<std::string> links;
  std::vector<std::string> names;
  std::size_t mounts = 0;
  std::size_t fds = 0;
};

Seen look(const std::string& directory) {
  Seen seen;
  seen.links = os::list_dir("/sys/class/net").value();
  seen.names = os::list_dir(directory).value();
  seen.mounts = os::list_mounts("/proc", "/").value().size();
  seen.fds = os::list_dir("/proc/self/fd").value().size();
  return seen;
}

}  // namespace

TEST_CASE("netns: the pair is as the actor expects it") {
  const test::TempDir dir;
  auto body = [&](Context& context) -> Task<void> {
    net::NetnsFactory factory(context, dir.file("netns"), 0);
    REQUIRE(factory.prepare());
    Result<net::NetnsPair> pair = co_await factory.acquire();
    INFO(why(pair));
    REQUIRE(pair);
    const std::string sandbox =
        in_netns(pair->sandbox_path,
                 "ip -br addr; ip -br link; ip route; ip neigh; ip -6 addr; ip -6 route");
    const std::string router = in_netns(pair->router_path, "ip -br addr; ip -br link; ip neigh");
    for (const char* part : {"eth0", "169.254.17.2/30", "02:00:a9:fe:11:02", "127.0.0.1/8",
                             "default via 169.254.17.1 dev eth0", "PERMANENT"}) {
      INFO(part << " in\n" << sandbox);
      REQUIRE(sandbox.find(part) != std::string::npos);
    }
    REQUIRE(sandbox.find("fe80") == std::string::npos);
    for (const char* part :
         {"r0", "169.254.17.1/30", "02:00:a9:fe:11:01", "127.0.0.1/8", "PERMANENT"}) {
      INFO(part << " in\n" << router);
      REQUIRE(router.find(part) != std::string::npos);
    }
    REQUIRE(in_netns(pair->sandbox_path, "cat /proc/sys/net/ipv6/conf/eth0/disable_ipv6") == "1\n");
    const Status gone = co_await factory.destroy(*pair);
    REQUIRE(gone);
    co_await factory.drain();
  };
  test::run_coro(body);
}

// case T36: nothing of an actor's name is in a name of the kernel's, and all fit.
TEST_CASE("netns: link names are fixed and fit; ids are random and unique") {
  const test::TempDir dir;
  auto body = [&](Context& context) -> Task<void> {
    net::NetnsFactory factory(context, dir.file("netns"), 0);
    REQUIRE(factory.prepare());
    std::set<std::string> ids;
    std::vector<net::NetnsPair> pairs;
    for (int i = 0; i < 5; ++i) {
      Result<net::NetnsPair> pair = co_await factory.acquire();
      INFO(why(pair));
      REQUIRE(pair);
      REQUIRE(pair->id.size() == 8);
      ids.insert(pair->id);
      const std::string links = in_netns(pair->sandbox_path,
                                         "ls /sys/class/net 2>/dev/null; "
                                         "ip -o link | cut -d: -f2");
      REQUIRE(links.find("eth0") != std::string::npos);
      pairs.push_back(std::move(*pair));
    }
    REQUIRE(ids.size() == 5);
    REQUIRE(std::string("eth0").size() < IFNAMSIZ);
    const std::vector<std::string> listed = factory.list().value();
    REQUIRE(std::set<std::string>(listed.begin(), listed.end()) == ids);
    for (const net::NetnsPair& pair : pairs) {
      const Status gone = co_await factory.destroy(pair);
      REQUIRE(gone);
    }
    co_await factory.drain();
  };
  test::run_coro(body);
}

// case T40: every actor has the same address, and each is reached through its own router only.
TEST_CASE("netns: two pairs with the same address at once never see each other") {
  const test::TempDir dir;
  auto body = [&](Context& context) -> Task<void> {
    net::NetnsFactory factory(context, dir.file("netns"), 0);
    REQUIRE(factory.prepare());
    Result<net::NetnsPair> a = co_await factory.acquire();
    Result<net::NetnsPair> b = co_await factory.acquire();
    REQUIRE(a);
    REQUIRE(b);
    const Listener in_a = listen_in(a->sandbox_path);
    Result<UniqueFd> to_a = co_await net::dial(context, *a, in_a.port, kTimeout);
    REQUIRE(to_a);
    const UniqueFd accepted(::accept4(in_a.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(::write(accepted.get(), "a", 1) == 1);
    const Status readable = co_await wait_readable(to_a->get());
    REQUIRE(readable);
    char byte = 0;
    REQUIRE(::read(to_a->get(), &byte, 1) == 1);
    REQUIRE(byte == 'a');
    Result<UniqueFd> to_b = co_await net::dial(context, *b, in_a.port, kTimeout);
    REQUIRE(to_b.error().code() == Errc::UpstreamFailed);
    REQUIRE(to_b.error().sys_errno() == ECONNREFUSED);
    const Status gone_a = co_await factory.destroy(*a);
    const Status gone_b = co_await factory.destroy(*b);
    REQUIRE(gone_a);
    REQUIRE(gone_b);
    co_await factory.drain();
  };
  test::run_coro(body);
}

TEST_CASE("dial: an address that nobody answers for ends at the deadline, the socket is ours") {
  const test::TempDir dir;
  auto body = [&](Context& context) -> Task<void> {
    net::NetnsFactory factory(context, dir.file("netns"), 0);
    REQUIRE(factory.prepare());
    Result<net::NetnsPair> pair = co_await factory.acquire();
    INFO(why(pair));
    REQUIRE(pair);
    // As runsc does on create: the address is taken away from the link.
    in_netns(pair->sandbox_path, "ip addr flush dev eth0");
    Result<UniqueFd> silent = co_await net::dial(context, *pair, 80, 30ms);
    REQUIRE(silent.error().code() == Errc::DeadlineExceeded);
    net::NetnsPair none;
    Result<UniqueFd> nowhere = co_await net::dial(context, none, 80, 30ms);
    REQUIRE(nowhere.error().code() == Errc::UpstreamFailed);
    const Status gone = co_await factory.destroy(*pair);
    REQUIRE(gone);
    co_await factory.drain();
  };
  test::run_coro(body);
}

TEST_CASE("netns: fifty made, dialled and destroyed leave nothing") {
  const test::TempDir dir;
  auto body = [&](Context& context) -> Task<void> {
    net::NetnsFactory factory(context, dir.file("netns"), 2);
    REQUIRE(factory.prepare());
    Result<net::NetnsPair> warm_up = co_await factory.acquire();
    // The loop opens its own descriptors with the first wait.
    Result<UniqueFd> first = co_await net::dial(context, *warm_up, 1, kTimeout);
    REQUIRE_FALSE(first);
    const Status warmed = co_await factory.destroy(std::move(*warm_up));
    REQUIRE(warmed);
    const Status filled = co_await factory.refill();
    REQUIRE(filled);
    const Seen before = look(dir.file("netns"));
    for (int i = 0; i < 50; ++i) {
      Result<net::NetnsPair> pair = co_await factory.acquire();
      INFO(why(pair));
      REQUIRE(pair);
      Result<UniqueFd> refused = co_await net::dial(context, *pair, 1, kTimeout);
      REQUIRE(refused.error().sys_errno() == ECONNREFUSED);
      const Status gone = co_await factory.destroy(std::move(*pair));
      REQUIRE(gone);
    }
    co_await factory.drain();
    const Seen after = look(dir.file("netns"));
    // The stock of two was there before and went with drain, and so did the directory's own mount.
    REQUIRE(after.mounts == before.mounts - 5);
    REQUIRE(after.links == before.links);
    REQUIRE(before.names.size() == 4);
    REQUIRE(after.names.empty());
    REQUIRE(after.fds == before.fds - 2);
  };
  test::run_coro(body);
}

TEST_CASE("netns: stock is made ahead, not listed as left over, and goes with drain") {
  const test::TempDir dir;
  auto body = [&](Context& context) -> Task<void> {
    net::NetnsFactory factory(context, dir.file("netns"), 3);
    REQUIRE(factory.prepare());
    const Status filled = co_await factory.refill();
    REQUIRE(filled);
    REQUIRE(os::list_dir(dir.file("netns")).value().size() == 6);
    REQUIRE(factory.list().value().empty());
    Result<net::NetnsPair> pair = co_await factory.acquire();
    INFO(why(pair));
    REQUIRE(pair);
    REQUIRE(factory.list().value() == std::vector<std::string>{pair->id});
    co_await factory.drain();
    REQUIRE(os::list_dir(dir.file("netns")).value().size() == 2);
    const Result<net::NetnsPair> opened = factory.open(pair->id);
    REQUIRE(opened);
    const Status gone = co_await factory.purge(pair->id);
    REQUIRE(gone);
    REQUIRE(factory.open(pair->id).error().code() == Errc::NotFound);
    co_await factory.drain();
    REQUIRE(os::list_mounts("/proc", dir.path()).value().empty());
  };
  test::run_coro(body);
}

TEST_CASE("netns: halves, stale files and covered names of a dead process are purged") {
  const test::TempDir dir;
  auto body = [&](Context& context) -> Task<void> {
    net::NetnsFactory factory(context, dir.file("netns"), 0);
    REQUIRE(factory.prepare());
    REQUIRE(factory.prepare());  // as the next start does
    test::write_file(dir.file("netns/00000001.s"), "");
    test::write_file(dir.file("netns/00000002.r"), "");
    test::write_file(dir.file("netns/unrelated"), "");
    test::write_file(dir.file("netns/00000003.s.x"), "");
    test::write_file(dir.file("netns/00000004.s"), "");
    for (int i = 0; i < 3; ++i) {
      REQUIRE(os::bind_mount("/proc/self/ns/net", dir.file("netns/00000004.s")));
    }
    Result<net::NetnsPair> pair = co_await factory.acquire();
    INFO(why(pair));
    REQUIRE(pair);
    const Status gone = co_await factory.destroy(*pair);
    REQUIRE(gone);
    REQUIRE(factory.list().value() == std::vector<std::string>{"00000001", "00000002", "00000004"});
    REQUIRE_FALSE(factory.open("00000001"));
    for (const char* id : {"00000001", "00000002", "00000004", "0000000f"}) {
      const Status purged = co_await factory.purge(id);
      REQUIRE(purged);
    }
    REQUIRE(factory.list().value().empty());
    REQUIRE(os::list_dir(dir.file("netns")).value() ==
            std::vector<std::string>{"00000003.s.x", "unrelated"});
    for (const char* bad : {"", "../../etc", "0000000G", "000000011"}) {
      const Status refused = co_await factory.purge(bad);
      REQUIRE_FALSE(refused);
    }
    co_await factory.drain();
    REQUIRE(os::unmount_below("/proc", dir.path()));
  };
  test::run_coro(body);
}

TEST_CASE("netns: a name copied into another mount namespace goes away all the same") {
  const test::TempDir dir;
  auto body = [&](Context& context) -> Task<void> {
    net::NetnsFactory factory(context, dir.file("netns"), 0);
    REQUIRE(factory.prepare());
    Result<net::NetnsPair> pair = co_await factory.acquire();
    INFO(why(pair));
    REQUIRE(pair);
    // A sandbox's mount namespace begins as a copy of ours.
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const UniqueFd read_end(std::move(ends[0]));
    UniqueFd write_end(std::move(ends[1]));
    os::SpawnPlan plan;
    plan.executable = "/usr/bin/unshare";
    plan.argv = {"unshare", "-m", "sh", "-c", "echo; read line"};
    plan.env = {"PATH=/usr/bin:/bin"};
    std::array<int, 2> hold{};
    REQUIRE(::pipe2(hold.data(), O_CLOEXEC) == 0);
    const UniqueFd hold_read(std::move(hold[0]));
    UniqueFd hold_write(std::move(hold[1]));
    plan.fds = {{hold_read.get(), 0}, {write_end.get(), 1}};
    const Result<os::Process> process = os::spawn(plan);
    REQUIRE(process);
    char byte = 0;
    REQUIRE(::read(read_end.get(), &byte, 1) == 1);
    const Status gone = co_await factory.destroy(*pair);
    REQUIRE(gone);
    REQUIRE(os::list_dir(dir.file("netns")).value().empty());
    hold_write.reset();
    siginfo_t info{};
    REQUIRE(::waitid(P_PIDFD, static_cast<id_t>(process->pidfd.get()), &info, WEXITED) == 0);
    co_await factory.drain();
  };
  test::run_coro(body);
}

TEST_CASE("netns: sixteen at once from many coroutines") {
  const test::TempDir dir;
  int made = 0;
  auto cycle = [](net::NetnsFactory& factory, int& count) -> Task<void> {
    Result<net::NetnsPair> pair = co_await factory.acquire();
    if (!pair) {
      co_return;
    }
    const Status gone = co_await factory.destroy(std::move(*pair));
    count += gone.has_value() ? 1 : 0;
  };
  auto body = [&](Context& context) -> Task<void> {
    net::NetnsFactory factory(context, dir.file("netns"), 4);
    REQUIRE(factory.prepare());
    TaskScope scope(context, [](const std::string&, const std::string& what) { FAIL(what); });
    for (int i = 0; i < 16; ++i) {
      scope.spawn("cycle", cycle(factory, made));
    }
    const bool drained = co_await scope.drain(1h);
    REQUIRE(drained);
    co_await factory.drain();
    REQUIRE(os::list_dir(dir.file("netns")).value().empty());
  };
  test::run_coro(body);
  REQUIRE(made == 16);
}

TEST_CASE("netns: an unusable directory is an error, not a crash") {
  const test::TempDir dir;
  test::write_file(dir.file("file"), "");
  auto body = [&](Context& context) -> Task<void> {
    net::NetnsFactory factory(context, dir.file("file"), 0);
    REQUIRE_FALSE(factory.prepare());
    net::NetnsFactory missing(context, dir.file("missing"), 0);
    Result<net::NetnsPair> pair = co_await missing.acquire();
    REQUIRE_FALSE(pair);
    co_await missing.drain();
    co_await factory.drain();
  };
  test::run_coro(body);
}

TEST_CASE("netns: how long it takes", "[.][measure]") {
  const test::TempDir dir;
  auto body = [&](Context& context) -> Task<void> {
    net::NetnsFactory factory(context, dir.file("netns"), 0);
    REQUIRE(factory.prepare());
    std::array<std::vector<double>, 3> took;
    for (int i = 0; i < 100; ++i) {
      const auto t0 = std::chrono::steady_clock::now();
      Result<net::NetnsPair> pair = co_await factory.acquire();
      const auto t1 = std::chrono::steady_clock::now();
      Result<UniqueFd> refused = co_await net::dial(context, *pair, 1, kTimeout);
      const auto t2 = std::chrono::steady_clock::now();
      const Status gone = co_await factory.destroy(std::move(*pair));
      const auto t3 = std::chrono::steady_clock::now();
      took[0].push_back(std::chrono::duration<double, std::milli>(t1 - t0).count());
      took[1].push_back(std::chrono::duration<double, std::milli>(t2 - t1).count());
      took[2].push_back(std::chrono::duration<double, std::milli>(t3 - t2).count());
    }
    constexpr std::array<const char*, 3> kNames{"create", "dial", "destroy"};
    for (std::size_t i = 0; i < took.size(); ++i) {
      std::sort(took[i].begin(), took[i].end());
      std::printf("%-8s p50 %.2f ms, p90 %.2f ms, p99 %.2f ms\n", kNames[i], took[i][50],
                  took[i][90], took[i][99]);
    }
    co_await factory.drain();
  };
  test::run_coro(body);
}
