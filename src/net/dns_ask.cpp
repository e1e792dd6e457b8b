// One question of an actor on its way through the host's resolvers.
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>

#include "ate/util/ids.hpp"
#include "net/dns_relay_state.hpp"
#include "net/dns_stream.hpp"

namespace ate::net {

namespace {

constexpr std::size_t kMostTries = 4;
constexpr int kDatagramsAtOnce = 16;
// No answer over UDP that we ask for is larger.
constexpr std::size_t kMostDatagram = 4096;

/// What the tries of one question share. Counted in as long as it lives.
struct Asking {
  Asking(DnsRelay::State& s, DnsActorPtr a, dns::Query q, bool by_tcp, DnsDone d)
      : state(s),
        actor(std::move(a)),
        query(std::move(q)),
        tcp(by_tcp),
        done(std::move(d)),
        resolvers(s.resolvers.current(s.now)),
        until(s.now + s.options.total_time) {
    ++state.open;
    ++actor->open;
  }

  ~Asking() {
    --state.open;
    --actor->open;
  }

  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  Asking(Asking&&) = delete;
  Asking& operator=(Asking&&) = delete;

  DnsRelay::State& state;
  DnsActorPtr actor;
  dns::Query query;
  bool tcp;
  DnsDone done;
  std::vector<Resolver> resolvers;
  SteadyTime until;
  std::size_t tries = 0;
  std::optional<std::string> last;  // a failure that a resolver told
};

using AskingPtr = std::shared_ptr<Asking>;

void try_next(const AskingPtr& asking);

std::uint16_t random_id() {
  std::array<unsigned char, 2> bytes{};
  random_bytes(bytes.data(), bytes.size());
  return static_cast<std::uint16_t>(bytes[0] << 8U | bytes[1]);
}

/// One try. Each has a socket of its own: a source port that nobody can know, and a kernel that
/// takes datagrams of that resolver only.
class Try : public DnsPort {
 public:
  Try(UniqueFd descriptor, AskingPtr asking)
      : DnsPort(std::move(descriptor), asking->actor),
        asking_(std::move(asking)),
        id_(random_id()) {
    deadline = std::min(asking_->state.now + asking_->state.options.try_time, asking_->until);
  }

  void expired() override { give_up(); }

 protected:
  [[nodiscard]] std::string message() const { return dns::forwarded(asking_->query, id_); }

  void wait_for_input() { asking_->state.watch(*this, EPOLLIN); }

  void give_up() {
    const AskingPtr asking = asking_;
    asking->state.drop(key);
    try_next(asking);
  }

  /// False when it is no answer to our question.
  bool take(std::string_view message) {
    std::optional<std::string> reply = dns::relayed(message, asking_->query, id_);
    if (!reply) {
      return false;
    }
    const auto rcode = static_cast<dns::Rcode>(dns::rcode_of(*reply));
    if (rcode == dns::Rcode::ServFail || rcode == dns::Rcode::Refused ||
        rcode == dns::Rcode::NotImp) {
      asking_->last = std::move(*reply);
      give_up();
      return true;
    }
    const AskingPtr asking = asking_;
    asking->state.drop(key);
    asking->done(std::move(*reply));
    return true;
  }

 private:
  AskingPtr asking_;
  std::uint16_t id_;
};

class UdpTry final : public Try {
 public:
  using Try::Try;

  [[nodiscard]] bool send() const {
    const std::string text = message();
    return ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }

  void ready(std::uint32_t /*events*/) override {
    std::array<char, kMostDatagram> buffer;
    for (int i = 0; i < kDatagramsAtOnce; ++i) {
      const ssize_t got = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
      }
      if (got < 0) {
        give_up();  // nobody listens there
        return;
      }
      if (take({buffer.data(), static_cast<std::size_t>(got)})) {
        return;
      }
    }
  }
};

class TcpTry final : public Try {
 public:
  TcpTry(UniqueFd descriptor, AskingPtr asking) : Try(std::move(descriptor), std::move(asking)) {
    stream_.put(message());
  }

  void ready(std::uint32_t /*events*/) override {
    const DnsStream::Got got = stream_.work(fd.get(), dns::kMaxMessage);
    if (got == DnsStream::Got::End ||
        (got == DnsStream::Got::Message && !take(stream_.message()))) {
      give_up();
    } else if (got == DnsStream::Got::Nothing && stream_.flushed()) {
      wait_for_input();
    }
  }

 private:
  DnsStream stream_;
};

bool start_try(const AskingPtr& asking, const Resolver& resolver) {
  DnsRelay::State& state = asking->state;
  const int kind = asking->tcp ? SOCK_STREAM : SOCK_DGRAM;
  UniqueFd fd(::socket(resolver.address.ss_family, kind | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* address = reinterpret_cast<const sockaddr*>(&resolver.address);
  if (!fd || (::connect(fd.get(), address, resolver.length) != 0 && errno != EINPROGRESS)) {
    return false;
  }
  if (asking->tcp) {
    return state.add(std::make_unique<TcpTry>(std::move(fd), asking), EPOLLIN | EPOLLOUT);
  }
  auto attempt = std::make_unique<UdpTry>(std::move(fd), asking);
  return attempt->send() && state.add(std::move(attempt), EPOLLIN);
}

void try_next(const AskingPtr& asking) {
  const std::size_t most = std::min(2 * asking->resolvers.size(), kMostTries);
  while (asking->tries < most && asking->state.now < asking->until) {
    const Resolver& resolver = asking->resolvers[asking->tries % asking->resolvers.size()];
    ++asking->tries;
    if (start_try(asking, resolver)) {
      return;
    }
  }
  asking->done(asking->last ? std::move(*asking->last)
                            : dns::failure(asking->query, dns::Rcode::ServFail));
}

}  // namespace

void DnsRelay::State::ask(const DnsActorPtr& actor, dns::Query query, bool tcp, DnsDone done) {
  if (actor->open >= options.open_per_actor || open >= options.open_total) {
    done(dns::failure(query, dns::Rcode::ServFail));
    return;
  }
  try_next(std::make_shared<Asking>(*this, actor, std::move(query), tcp, std::move(done)));
}

}  // namespace ate::net
