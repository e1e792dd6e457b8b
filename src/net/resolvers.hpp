#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "ate/util/clock.hpp"

namespace ate::net {

/// Address of a resolver, port 53.
struct Resolver {
  sockaddr_storage address{};
  socklen_t length = 0;
};

/// The nameserver lines of a resolv.conf, the first three, as the resolver library reads them.
/// Lines that name no address are left out.
[[nodiscard]] std::vector<Resolver> parse_resolv_conf(std::string_view text);

/// The resolvers of this host, read again when the file changed: looked at once a second at most,
/// and only when somebody asks. A loopback resolver is as good as any: it is we who ask it.
class Resolvers {
 public:
  explicit Resolvers(std::string path) : path_(std::move(path)) {}

  /// Empty when the file names none, or can't be read.
  [[nodiscard]] const std::vector<Resolver>& current(SteadyTime now);

 private:
  std::string path_;
  std::string stamp_;  // of the file that was read
  SteadyTime next_look_;
  std::vector<Resolver> list_;
};

}  // namespace ate::net
