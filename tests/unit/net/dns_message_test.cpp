// What the relay does with messages, well-formed and not. The bytes of actors and resolvers are
// hostile.
#include "net/dns_message.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "dns_wire.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::net;
using namespace ate::test;
using Kind = dns::Verdict::Kind;

namespace {

constexpr unsigned kA = 1;
constexpr unsigned kAaaa = 28;

dns::Query good_query(std::string_view name, unsigned type) {
  const dns::Verdict verdict = dns::judge_query(dns_query(name, type, 0x1234));
  REQUIRE(verdict.kind == Kind::Forward);
  return verdict.query;
}

unsigned flags_of(const std::string& message) {
  const unsigned high = static_cast<unsigned char>(message.at(2));
  const unsigned low = static_cast<unsigned char>(message.at(3));
  return high << 8U | low;
}

}  // namespace

TEST_CASE("dns: queries, what is done about each") {
  struct Row {
    const char* name;
    std::string message;
    Kind kind;
    int rcode;  // of a reply
  };

  const std::string tail = dns_question("a.example", kA);
  const std::string label63(63, 'x');
  const std::vector<Row> rows = {
      {"plain", dns_query("a.example", kA, 1), Kind::Forward, 0},
      {"root", dns_query("", 2, 1), Kind::Forward, 0},
      {"with EDNS", dns_header(1, 0x0100, 1, 0, 0, 1) + tail + dns_opt(4096, 0x8000), Kind::Forward,
       0},
      {"AAAA", dns_query("a.example", kAaaa, 1), Kind::Reply, 0},
      {"longest label", dns_query(label63 + ".example", kA, 1), Kind::Forward, 0},
      {"longest name",
       dns_query(label63 + "." + label63 + "." + label63 + "." + std::string(61, 'y'), kA, 1),
       Kind::Forward, 0},
      {"name too long",
       dns_query(label63 + "." + label63 + "." + label63 + "." + std::string(62, 'y'), kA, 1),
       Kind::Reply, 1},
      {"empty", "", Kind::Drop, 0},
      {"eleven bytes", dns_query("a.example", kA, 1).substr(0, 11), Kind::Drop, 0},
      {"an answer", dns_header(1, 0x8180, 1, 0, 0, 0) + tail, Kind::Drop, 0},
      {"too large", dns_query("a.example", kA, 1) + std::string(5000, 'x'), Kind::Drop, 0},
      {"header only", dns_header(1, 0x0100, 1, 0, 0, 0), Kind::Reply, 1},
      {"no question", dns_header(1, 0x0100, 0, 0, 0, 0), Kind::Reply, 1},
      {"two questions", dns_header(1, 0x0100, 2, 0, 0, 0) + tail + tail, Kind::Reply, 1},
      {"65535 questions", dns_header(1, 0x0100, 65535, 0, 0, 0) + tail, Kind::Reply, 1},
      {"with an answer", dns_header(1, 0x0100, 1, 1, 0, 0) + tail + dns_record(kA, "abcd"),
       Kind::Reply, 1},
      {"with an authority", dns_header(1, 0x0100, 1, 0, 1, 0) + tail + dns_record(kA, "abcd"),
       Kind::Reply, 1},
      {"two additionals",
       dns_header(1, 0x0100, 1, 0, 0, 2) + tail + dns_opt(512, 0) + dns_opt(512, 0), Kind::Reply,
       1},
      {"an additional that is no OPT",
       dns_header(1, 0x0100, 1, 0, 0, 1) + tail + dns_record(kA, "abcd"), Kind::Reply, 1},
      {"OPT cut off", dns_header(1, 0x0100, 1, 0, 0, 1) + tail + dns_opt(512, 0).substr(0, 8),
       Kind::Reply, 1},
      {"OPT longer than the message",
       dns_header(1, 0x0100, 1, 0, 0, 1) + tail + dns_opt(512, 0).substr(0, 9) + u16(400),
       Kind::Reply, 1},
      {"OPT missing", dns_header(1, 0x0100, 1, 0, 0, 1) + tail, Kind::Reply, 1},
      {"truncated", dns_header(1, 0x0300, 1, 0, 0, 0) + tail, Kind::Reply, 1},
      {"bytes after it", dns_query("a.example", kA, 1) + "x", Kind::Reply, 1},
      {"a pointer as name", dns_header(1, 0x0100, 1, 0, 0, 0) + u16(0xc00c) + u16(kA) + u16(1),
       Kind::Reply, 1},
      {"label of 64",
       dns_header(1, 0x0100, 1, 0, 0, 0) + "\x40" + std::string(64, 'x') + std::string(1, '\0') +
           u16(kA) + u16(1),
       Kind::Reply, 1},
      {"name without end",
       dns_header(1, 0x0100, 1, 0, 0, 0) + "\x09"
                                           "a.exam",
       Kind::Reply, 1},
      {"type missing", dns_header(1, 0x0100, 1, 0, 0, 0) + dns_name("a.example"), Kind::Reply, 1},
      {"type 0", dns_query("a.example", 0, 1), Kind::Reply, 1},
      {"type OPT", dns_query("a.example", 41, 1), Kind::Reply, 1},
      {"ANY", dns_query("a.example", 255, 1), Kind::Reply, 4},
      {"AXFR", dns_query("a.example", 252, 1), Kind::Reply, 5},
      {"IXFR", dns_query("a.example", 251, 1), Kind::Reply, 5},
      {"TKEY", dns_query("a.example", 249, 1), Kind::Reply, 5},
      {"class CHAOS",
       dns_header(1, 0x0100, 1, 0, 0, 0) + dns_name("version.bind") + u16(16) + u16(3), Kind::Reply,
       5},
      {"STATUS", dns_header(1, 0x1000, 0, 0, 0, 0), Kind::Reply, 4},
      {"UPDATE", dns_header(1, 0x2800, 1, 0, 1, 0) + tail, Kind::Reply, 4},
      {"NOTIFY", dns_header(1, 0x2000, 1, 0, 0, 0) + tail, Kind::Reply, 4},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const dns::Verdict verdict = dns::judge_query(row.message);
    CHECK(verdict.kind == row.kind);
    if (verdict.kind == Kind::Reply && row.kind == Kind::Reply) {
      REQUIRE(verdict.reply.size() >= 12);
      CHECK(verdict.reply.substr(0, 2) == row.message.substr(0, 2));
      CHECK((flags_of(verdict.reply) & 0x8000U) != 0);
      CHECK(dns::rcode_of(verdict.reply) == row.rcode);
      CHECK(verdict.reply.size() <= row.message.size() + 11);  // nothing to amplify with
    }
  }
}

TEST_CASE("dns: an AAAA question has no answer, without being asked on") {
  const dns::Verdict verdict = dns::judge_query(dns_query("a.example", kAaaa, 0x1234));
  CHECK(verdict.reply == dns_header(0x1234, 0x8180, 1, 0, 0, 0) + dns_question("a.example", kAaaa));
}

TEST_CASE("dns: a version of EDNS that does not exist is told so") {
  const std::string opt = std::string(1, '\0') + u16(41) + u16(512) + u16(0x0001) + u16(0) + u16(0);
  const dns::Verdict verdict =
      dns::judge_query(dns_header(1, 0x0100, 1, 0, 0, 1) + dns_question("a", kA) + opt);
  REQUIRE(verdict.kind == Kind::Reply);
  const std::string tail = verdict.reply.substr(verdict.reply.size() - 11);
  CHECK(tail == std::string(1, '\0') + u16(41) + u16(1232) + u16(0x0100) + u16(0) + u16(0));
}

TEST_CASE("dns: what goes to a resolver is written anew") {
  const dns::Query query = good_query("a.example", kA);
  CHECK(dns::forwarded(query, 0xabcd) ==
        dns_header(0xabcd, 0x0100, 1, 0, 0, 0) + dns_question("a.example", kA));
  // Cookies and client subnets of the actor do not leave with it.
  const std::string option = u16(10) + u16(8) + "cookie!!";
  const std::string opt =
      dns_opt(4096, 0x8000).substr(0, 9) + u16(static_cast<unsigned>(option.size())) + option;
  const dns::Verdict verdict =
      dns::judge_query(dns_header(7, 0x0010, 1, 0, 0, 1) + dns_question("a.example", kA) + opt);
  REQUIRE(verdict.kind == Kind::Forward);
  CHECK(dns::forwarded(verdict.query, 0xabcd) == dns_header(0xabcd, 0x0110, 1, 0, 0, 1) +
                                                     dns_question("a.example", kA) +
                                                     dns_opt(1232, 0x8000));
}

TEST_CASE("dns: answers, which come through and how") {
  const dns::Query query = good_query("a.example", kA);
  const std::string question = dns_question("a.example", kA);
  const std::string record = dns_record(kA, "\x01\x02\x03\x04");
  const std::string soa = dns_record(6, std::string(30, 's'));
  const auto answer = [&](unsigned flags, const std::string& rest, unsigned answers,
                          unsigned authorities, unsigned additionals) {
    return dns_header(0xabcd, flags, 1, answers, authorities, additionals) + rest;
  };
  const auto relayed = [&](const std::string& message) {
    return dns::relayed(message, query, 0xabcd);
  };
  CHECK(relayed(answer(0x8180, question + record, 1, 0, 0)) ==
        dns_header(0x1234, 0x8180, 1, 1, 0, 0) + question + record);
  CHECK(relayed(answer(0x8583, question + soa, 0, 1, 0)) ==
        dns_header(0x1234, 0x8583, 1, 0, 1, 0) + question + soa);
  // What is additional (an IPv6 address of a name server, say) is left out, read or not.
  CHECK(relayed(answer(0x8180, question + record + dns_record(kAaaa, std::string(16, '6')), 1, 0,
                       1)) == dns_header(0x1234, 0x8180, 1, 1, 0, 0) + question + record);
  // The letters of the name are the asker's own.
  CHECK(relayed(answer(0x8180, dns_question("A.eXample", kA) + record, 1, 0, 0)) ==
        dns_header(0x1234, 0x8180, 1, 1, 0, 0) + question + record);
  // Cut off by the resolver: the asker comes again by TCP.
  CHECK(relayed(answer(0x8380, question + record.substr(0, 5), 1, 0, 0)) ==
        dns_header(0x1234, 0x8380, 1, 0, 0, 0) + question);

  const std::vector<std::pair<const char*, std::string>> bad = {
      {"empty", ""},
      {"short", answer(0x8180, "", 0, 0, 0).substr(0, 11)},
      {"another id", dns_header(0xabce, 0x8180, 1, 1, 0, 0) + question + record},
      {"a query", answer(0x0100, question, 0, 0, 0)},
      {"another opcode", answer(0xa980, question, 0, 0, 0)},
      {"no question", dns_header(0xabcd, 0x8181, 0, 0, 0, 0)},
      {"another name", answer(0x8180, dns_question("b.example", kA) + record, 1, 0, 0)},
      {"another type", answer(0x8180, dns_question("a.example", 2) + record, 1, 0, 0)},
      {"question cut off", answer(0x8180, question.substr(0, 8), 0, 0, 0)},
      {"record missing", answer(0x8180, question + record, 2, 0, 0)},
      {"record cut off", answer(0x8180, question + record.substr(0, record.size() - 1), 1, 0, 0)},
      {"data longer than the message",
       answer(0x8180, question + record.substr(0, record.size() - 6) + u16(0xffff) + "abcd", 1, 0,
              0)},
      {"pointer to itself",
       answer(0x8180,
              question + u16(0xc000U + 12U + static_cast<unsigned>(question.size())) +
                  record.substr(2),
              1, 0, 0)},
      {"pointer forwards", answer(0x8180, question + u16(0xc0ff) + record.substr(2), 1, 0, 0)},
      {"pointer into the header",
       answer(0x8180, question + u16(0xc000) + record.substr(2), 1, 0, 0)},
      {"reserved label", answer(0x8180, question + "\x80" + record.substr(1), 1, 0, 0)},
      {"an IPv6 address",
       answer(0x8180, question + dns_record(kAaaa, std::string(16, '6')), 1, 0, 0)},
      {"65535 answers", answer(0x8180, question + record, 65535, 65535, 0)},
  };
  for (const auto& [name, message] : bad) {
    INFO(name);
    CHECK_FALSE(relayed(message));
  }
}

TEST_CASE("dns: what does not fit into the asker's datagram is to come by TCP") {
  dns::Query query = good_query("a.example", kA);
  const std::string small(512, 'x');
  CHECK(dns::fit_datagram(small, query) == small);
  CHECK(dns::fit_datagram(small + "x", query) ==
        dns_header(0x1234, 0x8380, 1, 0, 0, 0).substr(0, 3) + "\x88" +
            dns_header(0x1234, 0x8380, 1, 0, 0, 0).substr(4) + dns_question("a.example", kA));
  query.udp_size = 1232;
  CHECK(dns::fit_datagram(small + "x", query) == small + "x");
}

TEST_CASE("dns: any bytes at all are survived, and nothing grows") {
  std::mt19937 random(4);  // NOLINT: the same bytes each time
  const dns::Query query = good_query("a.example", kA);
  const std::string question = dns_question("a.example", kA);
  const std::string good = dns_header(0xabcd, 0x8180, 1, 2, 1, 0) + question +
                           dns_record(kA, "abcd") + dns_record(5, dns_name("b.example")) +
                           dns_record(6, std::string(40, 's'));
  REQUIRE(dns::relayed(good, query, 0xabcd));
  for (int round = 0; round < 200'000; ++round) {
    std::string message = round % 2 == 0 ? good : dns_query("a.example", kA, 0xabcd);
    const unsigned changes = random() % 4;
    for (unsigned i = 0; i <= changes; ++i) {
      message[random() % message.size()] = static_cast<char>(random());
    }
    message.resize(random() % 3 == 0 ? random() % (message.size() + 1) : message.size());
    const dns::Verdict verdict = dns::judge_query(message);
    const std::size_t most = message.size() + 11;
    const std::optional<std::string> reply = dns::relayed(message, query, 0xabcd);
    const bool bounded = verdict.reply.size() <= most && verdict.query.question.size() <= most &&
                         (!reply || reply->size() <= most);
    if (!bounded) {
      FAIL("round " << round);
    }
  }
}
