#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ate/util/cidr.hpp"

/// Text for `nft -f -`, and what its answers mean. No I/O.
namespace ate::net {

/// What the rules are made of; the same for every actor.
struct NatPlan {
  std::string prefix;         // of our links on the host; "<prefix>*" matches them and nothing else
  Cidr uplinks;               // addresses of the links between host and router namespaces
  std::vector<Cidr> blocked;  // beside what is always blocked
};

/// Name of our table on the host (family ip).
[[nodiscard]] std::string host_table(const NatPlan& plan);
/// One transaction that puts the table there, in place of what there is of it. What comes from our
/// links goes to the world and nowhere else: not to the host, not to another actor.
[[nodiscard]] std::string host_rules(const NatPlan& plan);
[[nodiscard]] std::string remove_host_rules(const NatPlan& plan);
/// The rules in an actor's router namespace. They hold whatever becomes of the host's tables.
[[nodiscard]] std::string router_rules(const NatPlan& plan);

/// Base chains of `nft list chains` at the forward hook that drop by default, those of our table
/// left out: "ip filter FORWARD".
[[nodiscard]] std::vector<std::string> dropping_forward_chains(std::string_view listing,
                                                               std::string_view own_table);

}  // namespace ate::net
