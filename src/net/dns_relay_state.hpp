#pragma once

#include <netinet/in.h>
#include <sys/epoll.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "ate/util/clock.hpp"
#include "net/dns_message.hpp"
#include "net/dns_relay.hpp"
#include "net/resolvers.hpp"

namespace ate::net {

/// An actor's share.
struct DnsActor {
  std::string id;
  double tokens = 0;
  SteadyTime filled;
  std::size_t open = 0;  // queries under way
  std::size_t connections = 0;
  bool paused = false;  // used up: its datagrams wait in the kernel, which drops what is too much
  std::uint64_t udp_key = 0;
  std::set<std::uint64_t> keys;  // its ports
};

using DnsActorPtr = std::shared_ptr<DnsActor>;
using DnsDone = std::function<void(std::string reply)>;

/// A descriptor of the relay and what happens with it. Known by a number that is never used again,
/// so that an event for one that has just gone can't reach another.
class DnsPort {
 public:
  DnsPort(UniqueFd descriptor, DnsActorPtr owner)
      : fd(std::move(descriptor)), actor(std::move(owner)) {}

  virtual ~DnsPort() = default;
  DnsPort(const DnsPort&) = delete;
  DnsPort& operator=(const DnsPort&) = delete;
  DnsPort(DnsPort&&) = delete;
  DnsPort& operator=(DnsPort&&) = delete;
  virtual void ready(std::uint32_t events) = 0;

  /// `deadline` has passed.
  virtual void expired() {}

  UniqueFd fd;
  DnsActorPtr actor;
  std::uint64_t key = 0;
  SteadyTime deadline = SteadyTime::max();
};

struct DnsRelay::State {
  State(async::Context& c, Options o);

  /// Takes the port in; false when epoll refuses.
  [[nodiscard]] bool add(std::unique_ptr<DnsPort> port, std::uint32_t events);
  void watch(const DnsPort& port, std::uint32_t events);
  /// Not under the feet of the port that is being served: it goes at the end of the round.
  void drop(std::uint64_t key);

  [[nodiscard]] bool dropped(std::uint64_t key) const { return !ports.contains(key); }

  /// One query more, if the actor's rate allows it.
  [[nodiscard]] bool admit(DnsActor& actor);
  /// Asks the host's resolvers, one after the other; `done` is called once, unless the actor goes.
  void ask(const DnsActorPtr& actor, dns::Query query, bool tcp, DnsDone done);
  void serve_round();
  void tick();

  async::Context context;
  const Options options;
  Resolvers resolvers;
  UniqueFd epoll;
  std::unordered_map<std::uint64_t, std::unique_ptr<DnsPort>> ports;
  std::vector<std::unique_ptr<DnsPort>> gone;
  std::map<std::string, DnsActorPtr> actors;
  std::uint64_t last_key = 0;
  std::size_t open = 0;
  SteadyTime now;
  async::Event timed;  // there is something to watch the time for
};

/// Opens the ports that `actor` asks at (dns_ports.cpp).
[[nodiscard]] Status open_dns_ports(DnsRelay::State& state, const DnsActorPtr& actor,
                                    const NetnsPair& pair);

}  // namespace ate::net
