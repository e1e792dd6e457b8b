#include <chrono>
#include <random>

#include "ate/codec/codec.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "cpu_time.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::codec;

namespace {

/// One deterministic change: overwrite, insert, delete, duplicate a piece, or splice an indicator.
std::string mutate(std::string text, std::mt19937& random) {
  static const std::vector<std::string> kPieces{
      ",",    "[",       "]",      "{",  "}",    ":",    ": ",       "- ",    "? ",
      "&a ",  "*a",      "!!str ", "|",  ">",    "\"",   "'",        "#",     " #",
      "%",    "---\n",   "...\n",  "\n", "\t",   " ",    "  ",       "\r",    "\r\n",
      "\\",   "\\u0000", "null",   "~",  "\xff", "\xc3", "\xc2\x85", "1e999", "9223372036854775808",
      "<<: ", "[:",      "{:",     "@",  "`"};
  const auto below = [&random](std::size_t bound) {
    return bound == 0 ? std::size_t{0} : static_cast<std::size_t>(random()) % bound;
  };
  const std::size_t changes = 1 + below(3);
  for (std::size_t i = 0; i < changes; ++i) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = std::min(below(12), text.size() - at);
    switch (below(6)) {
      case 0:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(below(text.size() + 1), text.substr(at, length * 5));
        break;
      case 3:
        text.replace(at, std::min<std::size_t>(1, text.size() - at),
                     kPieces[below(kPieces.size())]);
        break;
      case 4:
        if (at < text.size()) {
          text[at] = static_cast<char>(random());
        }
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("yaml: mutations never crash, hang or pass as something else than what they say") {
  std::mt19937 random(4711);
  std::chrono::nanoseconds slowest{};
  std::size_t accepted = 0;
  for (const std::string& seed : {test::kNodeYaml, test::kGvisorYaml, test::kKataYaml}) {
    for (int round = 0; round < 1500; ++round) {
      const std::string text = mutate(seed, random);
      const test::CpuTime timer;
      const std::vector<Document> documents = parse_yaml(text, "f.yaml");
      slowest = std::max(slowest, timer.spent());
      for (const Document& document : documents) {
        INFO(text);
        REQUIRE((document.message != nullptr || !document.problems.empty()));
        if (!document.problems.empty()) {
          continue;
        }
        // What was accepted means the same in JSON.
        ++accepted;
        const std::unique_ptr<google::protobuf::Message> again(document.message->New());
        REQUIRE(from_json(to_json(*document.message, document.kind), document.kind, *again));
        REQUIRE(canonical_bytes(*again) == canonical_bytes(*document.message));
      }
    }
  }
  REQUIRE(slowest < std::chrono::milliseconds(100));
  REQUIRE(accepted > 1000);
}

TEST_CASE("json: mutations never crash, hang or pass as something else than what they say") {
  std::mt19937 random(815);
  std::chrono::nanoseconds slowest{};
  for (const std::string& yaml : {test::kNodeYaml, test::kGvisorYaml, test::kKataYaml}) {
    for (const Document& document : parse_yaml(yaml, "f.yaml")) {
      const std::string seed = to_json(*document.message, document.kind);
      for (int round = 0; round < 1000; ++round) {
        const std::string text = mutate(seed, random);
        const std::unique_ptr<google::protobuf::Message> message(document.message->New());
        const test::CpuTime timer;
        const Status status = from_json(text, document.kind, *message);
        slowest = std::max(slowest, timer.spent());
        INFO(text);
        if (!status) {
          REQUIRE_FALSE(status.error().problems().empty());
          continue;
        }
        const std::unique_ptr<google::protobuf::Message> again(message->New());
        REQUIRE(from_json(to_json(*message, document.kind), document.kind, *again));
        REQUIRE(canonical_bytes(*again) == canonical_bytes(*message));
      }
    }
  }
  REQUIRE(slowest < std::chrono::milliseconds(100));
}
