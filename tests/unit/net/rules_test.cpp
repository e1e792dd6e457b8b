// The packet filter's text, networks, resolv.conf.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "ate/net/egress.hpp"
#include "net/nft_rules.hpp"
#include "net/resolvers.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace ate;
using namespace ate::net;

namespace {

std::string text_of(const Resolver& resolver) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (resolver.address.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &resolver.address, sizeof four);
    ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
  } else {
    sockaddr_in6 six{};
    std::memcpy(&six, &resolver.address, sizeof six);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
  }
  return text.data();
}

std::vector<std::string> texts_of(const std::vector<Resolver>& resolvers) {
  std::vector<std::string> out;
  for (const Resolver& resolver : resolvers) {
    out.push_back(text_of(resolver));
  }
  return out;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("cidr: networks and what is none") {
  CHECK(parse_cidr("10.0.0.0/8") == Cidr{0x0a000000, 8});
  CHECK(parse_cidr("0.0.0.0/0") == Cidr{0, 0});
  CHECK(parse_cidr("192.0.2.1/32") == Cidr{0xc0000201, 32});
  CHECK(format_cidr(*parse_cidr("198.19.0.0/16")) == "198.19.0.0/16");
  for (const char* bad :
       {"", "/", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.1/8", "10.0.0/8", "10.0.0.0/08x",
        "10.0.0.0/-1", "::/0", "10.0.0.0/008", "x/8", " 10.0.0.0/8"}) {
    INFO(bad);
    CHECK_FALSE(parse_cidr(bad));
  }
  CHECK(overlap(*parse_cidr("10.0.0.0/8"), *parse_cidr("10.1.0.0/16")));
  CHECK(overlap(*parse_cidr("10.1.0.0/16"), *parse_cidr("0.0.0.0/0")));
  CHECK_FALSE(overlap(*parse_cidr("10.1.0.0/16"), *parse_cidr("10.2.0.0/16")));
}

TEST_CASE("uplinks: names fit the kernel and differ from daemon to daemon") {
  const std::string prefix = uplink_prefix("/run/ate");
  CHECK(prefix.size() == 7);
  CHECK(prefix.starts_with("ate"));
  CHECK(prefix != uplink_prefix("/run/other"));
}

TEST_CASE("rules: one transaction, ours alone, every actor by the same words") {
  const NatPlan plan{.prefix = "ate1a2b",
                     .uplinks = *parse_cidr("198.19.0.0/16"),
                     .blocked = {*parse_cidr("10.0.0.0/8")}};
  const std::string host = host_rules(plan);
  CHECK(
      host.starts_with("add table ip ate-noded-ate1a2b\ndelete table ip ate-noded-ate1a2b\n"
                       "table ip ate-noded-ate1a2b {\n"));
  CHECK(host.find("flush") == std::string::npos);
  CHECK(host.find("169.254.0.0/16") != std::string::npos);
  CHECK(host.find("198.19.0.0/16, 10.0.0.0/8 }") != std::string::npos);
  CHECK(host.find("iifname \"ate1a2b*\" drop") != std::string::npos);
  CHECK(remove_host_rules(plan) ==
        "add table ip ate-noded-ate1a2b\ndelete table ip ate-noded-ate1a2b\n");
  const std::string router = router_rules(plan);
  CHECK(router.find("ip saddr 169.254.17.2") != std::string::npos);
  CHECK(router.find("oifname \"up0\" masquerade") != std::string::npos);
}

TEST_CASE("rules: chains of others that drop what is forwarded are found") {
  const char* listing =
      "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy "
      "drop;\n\t}\n"
      "\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n}\n"
      "table inet firewalld {\n\tchain filter_FORWARD {\n"
      "\t\ttype filter hook forward priority filter + 10; policy accept;\n\t}\n}\n"
      "table ip6 filter {\n\tchain FORWARD {\n\t\ttype filter hook forward priority 0; policy "
      "drop;\n\t}\n}\n"
      "table ip ate-noded-x {\n\tchain f {\n\t\ttype filter hook forward priority 0; policy "
      "drop;\n\t}\n}\n";
  CHECK(dropping_forward_chains(listing, "ate-noded-x") == Texts{"ip filter FORWARD"});
  CHECK(dropping_forward_chains("", "x").empty());
}

TEST_CASE("resolv.conf: as the resolver library reads it") {
  CHECK(texts_of(parse_resolv_conf("# x\nnameserver 127.0.0.53\noptions edns0\nsearch a\n")) ==
        Texts{"127.0.0.53"});
  CHECK(texts_of(
            parse_resolv_conf("nameserver\t192.0.2.1 # x\nnameserver 2001:db8::1\r\n"
                              "nameserver nonsense\nnameserver\nnameservers 1.1.1.1\n"
                              " nameserver 8.8.8.8\nnameserver fe80::1%lo\nnameserver 9.9.9.9")) ==
        Texts{"192.0.2.1", "2001:db8::1", "fe80::1"});
  CHECK(parse_resolv_conf("").empty());
}

TEST_CASE("resolv.conf: read again when it changes, however that is done") {
  const test::TempDir directory;
  const std::string path = directory.path() + "/resolv.conf";
  const auto write = [](const std::string& to, const std::string& text) {
    std::ofstream(to) << text;
  };
  Resolvers resolvers(path);
  SteadyTime now = std::chrono::steady_clock::now();
  CHECK(resolvers.current(now).empty());
  write(path, "nameserver 192.0.2.1\n");
  CHECK(resolvers.current(now).empty());  // once a second
  now += std::chrono::seconds(1);
  CHECK(texts_of(resolvers.current(now)) == Texts{"192.0.2.1"});
  write(path + ".new", "nameserver 192.0.2.2\n");
  std::filesystem::rename(path + ".new", path);
  now += std::chrono::seconds(1);
  CHECK(texts_of(resolvers.current(now)) == Texts{"192.0.2.2"});
  std::filesystem::remove(path);
  std::filesystem::create_symlink("elsewhere", path);
  now += std::chrono::seconds(1);
  CHECK(resolvers.current(now).empty());
  write(directory.path() + "/elsewhere", "nameserver 192.0.2.3\n");
  now += std::chrono::seconds(1);
  CHECK(texts_of(resolvers.current(now)) == Texts{"192.0.2.3"});
}
