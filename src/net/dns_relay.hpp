#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "ate/async/task.hpp"
#include "ate/net/netns.hpp"

namespace ate::net {

/// Answers the DNS queries of actors at 169.254.17.1:53, UDP and TCP, inside their router
/// namespaces, by asking the resolvers of the host from the host's namespace. Everything it holds
/// is bounded, each actor has a rate and a number of open queries of its own.
class DnsRelay {
 public:
  struct Options {
    std::string resolv_conf = "/etc/resolv.conf";
    double rate = 1000;  // queries a second and actor, also the burst
    std::size_t open_per_actor = 64;
    std::size_t open_total = 1024;
    std::size_t connections_per_actor = 8;
    std::chrono::milliseconds try_time{1500};  // one resolver
    std::chrono::milliseconds total_time{5000};
    std::chrono::milliseconds connection_time{10000};  // silence on a TCP connection
  };

  DnsRelay(async::Context& context, Options options);
  ~DnsRelay();
  DnsRelay(const DnsRelay&) = delete;
  DnsRelay& operator=(const DnsRelay&) = delete;
  DnsRelay(DnsRelay&&) = delete;
  DnsRelay& operator=(DnsRelay&&) = delete;

  [[nodiscard]] Status attach(const NetnsPair& pair);
  /// Drops everything of that pair; nothing when it has none.
  void detach(const std::string& id);
  /// Serves until cancelled.
  [[nodiscard]] async::Task<void> serve();
  /// Its deadlines, until cancelled; beside serve().
  [[nodiscard]] async::Task<void> keep_time();

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace ate::net
