#include "net/resolvers.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <cstring>

#include "ate/os/fs.hpp"

namespace ate::net {

namespace {

constexpr std::size_t kMostResolvers = 3;
constexpr std::size_t kMaxFile = 64UL * 1024;
constexpr std::chrono::seconds kLookAgain(1);
constexpr std::uint16_t kDnsPort = 53;

bool to_resolver(std::string text, Resolver& out) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(kDnsPort);
  if (::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    std::memcpy(&out.address, &four, sizeof four);
    out.length = sizeof four;
    return true;
  }
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(kDnsPort);
  if (const std::size_t percent = text.find('%'); percent != std::string::npos) {
    six.sin6_scope_id = ::if_nametoindex(text.c_str() + percent + 1);
    text.resize(percent);
  }
  if (::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
    std::memcpy(&out.address, &six, sizeof six);
    out.length = sizeof six;
    return true;
  }
  return false;
}

std::string stamp_of(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return "missing";
  }
  return std::to_string(info.st_dev) + "/" + std::to_string(info.st_ino) + "/" +
         std::to_string(info.st_size) + "/" + std::to_string(info.st_ctim.tv_sec) + "." +
         std::to_string(info.st_ctim.tv_nsec);
}

}  // namespace

std::vector<Resolver> parse_resolv_conf(std::string_view text) {
  constexpr std::string_view kWord = "nameserver";
  constexpr std::string_view kBlank = " \t\r";
  std::vector<Resolver> out;
  while (!text.empty() && out.size() < kMostResolvers) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(kWord)) {
      continue;
    }
    line.remove_prefix(kWord.size());
    const std::size_t begin = line.find_first_not_of(kBlank);
    if (begin == 0 || begin == std::string_view::npos) {
      continue;
    }
    line.remove_prefix(begin);
    Resolver resolver;
    if (to_resolver(std::string(line.substr(0, line.find_first_of(kBlank))), resolver)) {
      out.push_back(resolver);
    }
  }
  return out;
}

const std::vector<Resolver>& Resolvers::current(SteadyTime now) {
  if (now < next_look_) {
    return list_;
  }
  next_look_ = now + kLookAgain;
  std::string stamp = stamp_of(path_);
  if (stamp != stamp_) {
    stamp_ = std::move(stamp);
    const Result<std::string> text = os::read_file(path_, kMaxFile);
    list_ = text ? parse_resolv_conf(*text) : std::vector<Resolver>{};
  }
  return list_;
}

}  // namespace ate::net
