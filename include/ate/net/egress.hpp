#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ate/async/reaper.hpp"
#include "ate/async/task.hpp"
#include "ate/net/netns.hpp"
#include "ate/util/cidr.hpp"

namespace ate::net {

struct EgressOptions {
  std::string nft = "/usr/sbin/nft";
  std::string prefix = "ate0000";  // of our links on the host, 7 bytes; nobody else's begin with it
  Cidr uplinks{.address = 0xc6130000, .length = 16};  // 198.19.0.0/16, each link takes a /31 of it
  std::vector<Cidr> blocked;                          // beside what is always blocked
  std::string resolv_conf = "/etc/resolv.conf";
};

/// Prefix of the links of the daemon that lives in `run_dir`.
[[nodiscard]] std::string uplink_prefix(const std::string& run_dir);

/// The way out for actors with `egress: nat`: a link to the host with an address of its own,
/// masquerading, rules that keep them off the host and each other, and the DNS relay. Nothing on
/// the host is touched before the first actor needs it, and nothing but our own links and our own
/// table ever.
class Egress {
 public:
  /// `on_notice`: something that the operator should know.
  Egress(async::Context& context, async::Reaper& reaper, EgressOptions options,
         std::function<void(const std::string&)> on_notice);
  ~Egress();
  Egress(const Egress&) = delete;
  Egress& operator=(const Egress&) = delete;
  Egress(Egress&&) = delete;
  Egress& operator=(Egress&&) = delete;

  /// Connects a pair. Unavailable with the reason when this host can't. On failure nothing stays.
  [[nodiscard]] async::Task<Status> attach(NetnsPair pair);
  /// Takes its way out away; nothing when it has none.
  [[nodiscard]] async::Task<Status> detach(std::string id);
  /// Ids of the pairs that have a link on the host which this process did not make.
  [[nodiscard]] Result<std::vector<std::string>> leftovers() const;
  /// Removes such a link.
  [[nodiscard]] async::Task<Status> purge(std::string id);

  /// Looks at the host once: what would hinder. For /readyz.
  [[nodiscard]] async::Task<void> inspect();
  [[nodiscard]] std::string detail() const;

  /// Serves DNS, until cancelled.
  [[nodiscard]] async::Task<void> serve_dns();
  [[nodiscard]] async::Task<void> time_dns();
  /// Puts our table back when somebody changed or flushed it, until cancelled.
  [[nodiscard]] async::Task<void> guard();
  /// Takes the table away unless actors still run with it.
  [[nodiscard]] async::Task<void> shutdown();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ate::net
