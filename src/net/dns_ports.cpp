// Where actors ask: a UDP and a TCP port in the router namespace of each.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "net/dns_relay_state.hpp"
#include "net/dns_stream.hpp"
#include "net/pair.hpp"

namespace ate::net {

namespace {

constexpr int kDatagramsAtOnce = 32;
constexpr std::uint16_t kDnsPort = 53;
constexpr int kBacklog = 16;

bool is_actor(const sockaddr_in& from) {
  in_addr actor{};
  static_cast<void>(::inet_pton(AF_INET, kActorAddress, &actor));
  return from.sin_family == AF_INET && from.sin_addr.s_addr == actor.s_addr;
}

class UdpPort final : public DnsPort {
 public:
  UdpPort(UniqueFd descriptor, DnsActorPtr owner, DnsRelay::State& state)
      : DnsPort(std::move(descriptor), std::move(owner)), state_(state) {}

  void ready(std::uint32_t /*events*/) override {
    for (int i = 0; i < kDatagramsAtOnce; ++i) {
      if (!state_.admit(*actor)) {
        actor->paused = true;
        state_.watch(*this, 0);
        state_.timed.set();
        return;
      }
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const ssize_t got = ::recvfrom(fd.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT,
                                     reinterpret_cast<sockaddr*>(&from), &size);
      if (got < 0) {
        actor->tokens += 1;
        return;
      }
      // An answer to another address would leave the namespace.
      if (is_actor(from)) {
        serve({buffer_.data(), static_cast<std::size_t>(got)}, from);
      }
    }
  }

 private:
  void serve(std::string_view message, const sockaddr_in& from) {
    dns::Verdict verdict = dns::judge_query(message);
    if (verdict.kind == dns::Verdict::Kind::Reply) {
      send(verdict.reply, from);
    } else if (verdict.kind == dns::Verdict::Kind::Forward) {
      DnsRelay::State& state = state_;
      auto done = [&state, port = key, from, query = verdict.query](std::string reply) {
        const auto found = state.ports.find(port);
        if (found != state.ports.end()) {
          static_cast<const UdpPort&>(*found->second)
              .send(dns::fit_datagram(std::move(reply), query), from);
        }
      };
      state_.ask(actor, std::move(verdict.query), false, std::move(done));
    }
  }

  void send(const std::string& reply, const sockaddr_in& to) const {
    // IGNORED: an answer that does not arrive is asked for again.
    static_cast<void>(::sendto(fd.get(), reply.data(), reply.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                               reinterpret_cast<const sockaddr*>(&to), sizeof to));
  }

  DnsRelay::State& state_;
  std::array<char, dns::kMaxUdpQuery + 1> buffer_{};
};

class TcpClient final : public DnsPort {
 public:
  TcpClient(UniqueFd descriptor, DnsActorPtr owner, DnsRelay::State& state)
      : DnsPort(std::move(descriptor), std::move(owner)), state_(state) {
    ++actor->connections;
    put_off();
  }

  ~TcpClient() override { --actor->connections; }

  TcpClient(const TcpClient&) = delete;
  TcpClient& operator=(const TcpClient&) = delete;
  TcpClient(TcpClient&&) = delete;
  TcpClient& operator=(TcpClient&&) = delete;

  void expired() override { state_.drop(key); }

  void ready(std::uint32_t events) override {
    if (asking_) {
      if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
        state_.drop(key);
      }
      return;
    }
    const DnsStream::Got got = stream_.work(fd.get(), dns::kMaxUdpQuery);
    if (got == DnsStream::Got::End || (got == DnsStream::Got::Message && !serve())) {
      state_.drop(key);
      return;
    }
    if (!asking_) {
      state_.watch(*this, stream_.flushed() ? EPOLLIN : EPOLLOUT);
    }
  }

 private:
  void put_off() { deadline = state_.now + state_.options.connection_time; }

  /// False: enough of it.
  bool serve() {
    dns::Verdict verdict = dns::judge_query(stream_.message());
    if (verdict.kind == dns::Verdict::Kind::Drop || !state_.admit(*actor)) {
      return false;
    }
    put_off();
    stream_.next();
    if (verdict.kind == dns::Verdict::Kind::Reply) {
      stream_.put(verdict.reply);
      return true;
    }
    asking_ = true;
    state_.watch(*this, 0);
    DnsRelay::State& state = state_;
    state_.ask(actor, std::move(verdict.query), true, [&state, port = key](std::string reply) {
      const auto found = state.ports.find(port);
      if (found != state.ports.end()) {
        static_cast<TcpClient&>(*found->second).answer(reply);
      }
    });
    return true;
  }

  void answer(const std::string& reply) {
    asking_ = false;
    put_off();
    stream_.put(reply);
    state_.watch(*this, EPOLLOUT | EPOLLIN);
  }

  DnsRelay::State& state_;
  DnsStream stream_;
  bool asking_ = false;
};

class TcpPort final : public DnsPort {
 public:
  TcpPort(UniqueFd descriptor, DnsActorPtr owner, DnsRelay::State& state)
      : DnsPort(std::move(descriptor), std::move(owner)), state_(state) {}

  void ready(std::uint32_t /*events*/) override {
    for (int i = 0; i < kDatagramsAtOnce; ++i) {
      sockaddr_in from{};
      socklen_t size = sizeof from;
      UniqueFd client(::accept4(fd.get(), reinterpret_cast<sockaddr*>(&from), &size,
                                SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!client) {
        return;
      }
      if (is_actor(from) && actor->connections < state_.options.connections_per_actor) {
        // IGNORED: what epoll does not take is closed.
        static_cast<void>(
            state_.add(std::make_unique<TcpClient>(std::move(client), actor, state_), EPOLLIN));
      }
    }
  }

 private:
  DnsRelay::State& state_;
};

Status bind_port(const UniqueFd& socket) {
  const std::string device = kRouterLinkName;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kDnsPort);
  static_cast<void>(::inet_pton(AF_INET, kGatewayAddress, &address.sin_addr));
  const int on = 1;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_BINDTODEVICE, device.c_str(),
                   static_cast<socklen_t>(device.size())) != 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail(Error::from_errno("open the actor's DNS port", errno));
  }
  return {};
}

}  // namespace

Status open_dns_ports(DnsRelay::State& state, const DnsActorPtr& actor, const NetnsPair& pair) {
  ATE_ASSIGN(UniqueFd udp, make_socket_in(pair.router->get(), SOCK_DGRAM));
  ATE_ASSIGN(UniqueFd tcp, make_socket_in(pair.router->get(), SOCK_STREAM));
  ATE_TRY(bind_port(udp));
  ATE_TRY(bind_port(tcp));
  if (::listen(tcp.get(), kBacklog) != 0) {
    return fail(Error::from_errno("listen at the actor's DNS port", errno));
  }
  auto udp_port = std::make_unique<UdpPort>(std::move(udp), actor, state);
  const UdpPort& kept = *udp_port;
  if (!state.add(std::move(udp_port), EPOLLIN) ||
      !state.add(std::make_unique<TcpPort>(std::move(tcp), actor, state), EPOLLIN)) {
    return fail(Errc::Unavailable, "no room for the actor's DNS ports");
  }
  actor->udp_key = kept.key;
  return {};
}

}  // namespace ate::net
