#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// DNS messages as far as a relay needs them: what an actor may ask, what goes to a resolver in its
/// place, what of the answer comes back. No I/O. Nothing of a message is passed on that was not
/// looked at.
namespace ate::net::dns {

inline constexpr std::size_t kMaxUdpQuery = 4096;
inline constexpr std::size_t kMaxMessage = 65535;

enum class Rcode : std::uint8_t {
  NoError = 0,
  FormErr = 1,
  ServFail = 2,
  NotImp = 4,
  Refused = 5,
};

/// One well-formed question of an actor.
struct Query {
  std::uint16_t id = 0;
  std::uint16_t flags = 0;  // RD, AD and CD as asked
  std::string question;     // name, type and class in wire form
  std::uint16_t type = 0;
  bool edns = false;
  bool dnssec_ok = false;
  std::uint16_t udp_size = 512;  // what the asker takes in a datagram

  bool operator==(const Query&) const = default;
};

/// What is done about a message from an actor.
struct Verdict {
  enum class Kind : std::uint8_t { Drop, Reply, Forward };
  Kind kind = Kind::Drop;
  std::string reply;  // of Reply
  Query query;        // of Forward
};

[[nodiscard]] Verdict judge_query(std::string_view message);

/// The query as it is sent to a resolver: written anew, with an id of ours.
[[nodiscard]] std::string forwarded(const Query& query, std::uint16_t id);

/// The answer of a resolver to `forwarded(query, id)` as it goes to the asker; nothing when it is
/// not an answer to that, or broken, or holds an IPv6 address (actors have no IPv6). The additional
/// section is left out.
[[nodiscard]] std::optional<std::string> relayed(std::string_view answer, const Query& query,
                                                 std::uint16_t id);
/// RCODE of a relayed answer.
[[nodiscard]] std::uint8_t rcode_of(std::string_view reply);

/// The asker's answer when there is none.
[[nodiscard]] std::string failure(const Query& query, Rcode rcode);

/// `reply`, or when it does not fit into the asker's datagram the request to come by TCP.
[[nodiscard]] std::string fit_datagram(std::string reply, const Query& query);

}  // namespace ate::net::dns
