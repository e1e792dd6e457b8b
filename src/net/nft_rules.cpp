#include "net/nft_rules.hpp"

#include <algorithm>

#include "ate/net/netns.hpp"
#include "net/pair.hpp"
#include "net/uplink.hpp"

namespace ate::net {

namespace {

/// This network, loopback, link-local (metadata services), multicast and what is reserved.
constexpr std::string_view kAlwaysBlocked =
    "0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0-255.255.255.255";

std::string blocked_set(const NatPlan& plan) {
  std::string elements(kAlwaysBlocked);
  elements += ", " + format_cidr(plan.uplinks);
  for (const Cidr& cidr : plan.blocked) {
    elements += ", " + format_cidr(cidr);
  }
  return "  set blocked {\n    type ipv4_addr\n    flags interval\n    auto-merge\n    elements = "
         "{ " +
         elements + " }\n  }\n";
}

/// Adding it first makes the delete hold whether it was there or not.
std::string fresh_table(const std::string& name) {
  return "add table ip " + name + "\ndelete table ip " + name + "\n";
}

}  // namespace

std::string host_table(const NatPlan& plan) {
  return "ate-noded-" + plan.prefix;
}

std::string host_rules(const NatPlan& plan) {
  const std::string ours = "\"" + plan.prefix + "*\"";
  const std::string range = format_cidr(plan.uplinks);
  return fresh_table(host_table(plan)) + "table ip " + host_table(plan) + " {\n" +
         blocked_set(plan) +
         "  chain forward {\n"
         "    type filter hook forward priority filter - 5; policy accept;\n"
         "    iifname " +
         ours +
         " jump from_actors\n"
         "    oifname " +
         ours +
         " ct state established,related accept\n"
         "    oifname " +
         ours +
         " drop\n"
         "  }\n"
         "  chain from_actors {\n"
         "    oifname " +
         ours +
         " drop\n"
         "    ip saddr != " +
         range +
         " drop\n"
         "    ip daddr @blocked drop\n"
         "  }\n"
         "  chain input {\n"
         "    type filter hook input priority filter - 5; policy accept;\n"
         "    iifname " +
         ours +
         " drop\n"
         "  }\n"
         "  chain postrouting {\n"
         "    type nat hook postrouting priority srcnat; policy accept;\n"
         "    ip saddr " +
         range + " oifname != " + ours +
         " masquerade\n"
         "  }\n"
         "}\n";
}

std::string remove_host_rules(const NatPlan& plan) {
  return fresh_table(host_table(plan));
}

std::string router_rules(const NatPlan& plan) {
  const std::string inside = "iifname \"" + std::string(kRouterLinkName) + "\" ";
  const std::string from_actor = inside + "ip saddr " + kActorAddress + " ";
  const std::string up(kUplinkName);
  return fresh_table("ate") + "table ip ate {\n" + blocked_set(plan) +
         "  chain forward {\n"
         "    type filter hook forward priority filter; policy drop;\n"
         "    iifname \"" +
         up +
         "\" ct state established,related accept\n"
         "    " +
         from_actor + "oifname \"" + up +
         "\" ip daddr != @blocked accept\n"
         "  }\n"
         "  chain input {\n"
         "    type filter hook input priority filter; policy drop;\n"
         "    iifname \"lo\" accept\n"
         "    ct state established,related accept\n"
         "    " +
         from_actor + "ip daddr " + kGatewayAddress +
         " udp dport 53 accept\n"
         "    " +
         from_actor + "ip daddr " + kGatewayAddress +
         " tcp dport 53 accept\n"
         "    " +
         from_actor +
         "icmp type echo-request accept\n"
         "  }\n"
         "  chain postrouting {\n"
         "    type nat hook postrouting priority srcnat; policy accept;\n"
         "    oifname \"" +
         up +
         "\" masquerade\n"
         "  }\n"
         "}\n";
}

std::vector<std::string> dropping_forward_chains(std::string_view listing,
                                                 std::string_view own_table) {
  std::vector<std::string> out;
  std::string table;
  std::string chain;
  while (!listing.empty()) {
    const std::size_t end = std::min(listing.find('\n'), listing.size());
    std::string_view line = listing.substr(0, end);
    listing.remove_prefix(std::min(end + 1, listing.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const bool opens = line.ends_with(" {");
    if (opens && line.starts_with("table ")) {
      table = std::string(line.substr(6, line.size() - 8));
    } else if (opens && line.starts_with("chain ")) {
      chain = std::string(line.substr(6, line.size() - 8));
    } else if (line.find(" hook forward ") != std::string_view::npos &&
               line.find("policy drop;") != std::string_view::npos &&
               table != "ip " + std::string(own_table) &&
               (table.starts_with("ip ") || table.starts_with("inet "))) {
      out.push_back(table + " " + chain);
    }
  }
  return out;
}

}  // namespace ate::net
