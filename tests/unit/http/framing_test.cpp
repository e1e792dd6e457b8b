#include "http/framing.hpp"

#include <random>

#include "http/head_scan.hpp"
#include "http/headers.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::http;

namespace {

/// Decodes `wire` in pieces of `step` bytes: data, or "!" with the message of the error.
std::string decode(const std::string& wire, std::size_t step, bool& done) {
  BodyDecoder decoder(Framing{BodyKind::Chunked, 0, false, true});
  std::string data;
  std::string held;
  std::size_t at = 0;
  while (!decoder.done()) {
    Result<BodyDecoder::Piece> piece = decoder.next(held);
    if (!piece) {
      return "!" + piece.error().message();
    }
    const BodyDecoder::Step found = piece->step;
    data.append(piece->data);
    held.erase(0, piece->consumed);
    if (found == BodyDecoder::Step::Data) {
      REQUIRE_FALSE(data.empty());
    } else if (found == BodyDecoder::Step::NeedMore) {
      REQUIRE(held.empty());
      if (at >= wire.size()) {
        done = false;
        return data;
      }
      held.append(wire, at, step);
      at += step;
    }
  }
  done = true;
  return data;
}

}  // namespace

TEST_CASE("chunked bodies are decoded however they are cut into pieces") {
  const std::string wire =
      "5\r\nhello\r\n1;name=value;other=\"x y\"\r\n \r\n0005 \r\nworld\r\n0\r\nTrailer: a\r\nB: "
      "c\r\n\r\n";
  for (const std::size_t step : {1UL, 2UL, 3UL, 5UL, 7UL, 1000UL}) {
    bool done = false;
    CHECK(decode(wire, step, done) == "hello world");
    CHECK(done);
  }
}

TEST_CASE("an empty chunked body, byte by byte") {
  bool done = false;
  CHECK(decode("0\r\n\r\n", 1, done).empty());
  CHECK(done);
}

TEST_CASE("a chunked body that is cut off is not complete") {
  bool done = true;
  CHECK(decode("5\r\nhello\r\n0\r\n", 1, done) == "hello");
  CHECK_FALSE(done);
}

TEST_CASE("wrong chunk framing is refused") {
  struct Row {
    const char* name;
    std::string wire;
  };

  const std::vector<Row> rows = {
      {"no size", "\r\nhello\r\n"},
      {"not a number", "xyz\r\nhello"},
      {"a sign", "+5\r\nhello\r\n0\r\n\r\n"},
      {"a prefix", "0x5\r\nhello\r\n0\r\n\r\n"},
      {"out of range", "fffffffffffffffff\r\n"},
      {"bare LF after the size", "5\nhello\r\n0\r\n\r\n"},
      {"longer than its size", "5\r\nhello!\r\n0\r\n\r\n"},
      {"bare CR", "5\rxhello"},
      {"LF in an extension", "5;a\nb\r\nhello\r\n0\r\n\r\n"},
      {"long extension", "5;" + std::string(2000, 'a') + "\r\nhello\r\n0\r\n\r\n"},
      {"long trailer", "0\r\nA: " + std::string(9000, 'a') + "\r\n\r\n"},
      {"NUL in the trailer", std::string("0\r\nA: \0\r\n\r\n", 10)},
      {"many zeros", std::string(2000, '0') + "\r\n\r\n"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    for (const std::size_t step : {1UL, 64UL, 100000UL}) {
      bool done = false;
      const std::string result = decode(row.wire, step, done);
      CHECK(result.substr(0, 1) == "!");
    }
  }
}

TEST_CASE("the end of a head is found once, in any pieces") {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
  for (std::size_t step = 1; step < head.size(); ++step) {
    HeadScan scan(1024, 10);
    HeadScan::State state = HeadScan::State::NeedMore;
    for (std::size_t end = step; state == HeadScan::State::NeedMore; end += step) {
      state = scan.feed(std::string_view(head).substr(0, end));
    }
    CHECK(state == HeadScan::State::Complete);
    CHECK(scan.length() == head.size() - 4);
  }
}

TEST_CASE("replies: how their body ends") {
  const auto framing = [](int status, Headers headers, std::string_view method, int version) {
    Head head;
    head.status = status;
    head.version = version;
    head.headers = std::move(headers);
    return check_reply(head, method);
  };
  CHECK(framing(200, {}, "GET", 11)->kind == BodyKind::UntilClose);
  CHECK(framing(200, {{"Content-Length", "5"}}, "GET", 11)->kind == BodyKind::Length);
  CHECK(framing(200, {{"Content-Length", "0"}}, "GET", 11)->kind == BodyKind::None);
  CHECK(framing(200, {{"Content-Length", "5"}}, "HEAD", 11)->kind == BodyKind::None);
  CHECK(framing(200, {{"Content-Length", "5"}}, "HEAD", 11)->length == 5);
  CHECK(framing(204, {}, "GET", 11)->kind == BodyKind::None);
  CHECK(framing(304, {{"Content-Length", "5"}}, "GET", 11)->kind == BodyKind::None);
  CHECK(framing(200, {{"Transfer-Encoding", "chunked"}}, "GET", 11)->kind == BodyKind::Chunked);
  CHECK_FALSE(framing(200, {{"Transfer-Encoding", "gzip"}}, "GET", 11));
  CHECK_FALSE(framing(200, {{"Transfer-Encoding", "chunked"}}, "GET", 10));
  CHECK_FALSE(framing(200, {{"Content-Length", "5"}, {"Content-Length", "5"}}, "GET", 11));
}

TEST_CASE("headers of one connection are told from those of the message") {
  const Headers headers = {{"Connection", "keep-alive, X-Private,host, te"}, {"X-Private", "1"}};
  CHECK(is_hop_by_hop(headers, "x-private"));
  CHECK(is_hop_by_hop(headers, "Keep-Alive"));
  CHECK(is_hop_by_hop(headers, "TE"));
  CHECK(is_hop_by_hop(headers, "Upgrade"));
  CHECK_FALSE(is_hop_by_hop(headers, "Host"));
  CHECK_FALSE(is_hop_by_hop(headers, "X-Other"));
}

TEST_CASE("a header's value can't add a line") {
  std::string out;
  append_header(out, "Location", "/a\r\nX-Evil: 1");
  CHECK(out == "Location: /a  X-Evil: 1\r\n");
}

TEST_CASE("mutated heads and bodies never get past the checks half-read") {
  const std::string seed =
      "POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
      "Connection: close, te\r\nExpect: 100-continue\r\n\r\n";
  const std::string body = "5;a=b\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nT: x\r\n\r\n";
  std::mt19937 random(20261130);
  const auto mutate = [&](std::string text) {
    constexpr char kBytes[] = "\r\n\t :;,0123456789abcdefGPT/\0\x7f\xff";
    const std::string alphabet(kBytes, sizeof kBytes - 1);
    for (std::size_t i = random() % 4 + 1; i > 0; --i) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, random() % 8 + 1);
          break;
        default:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
      }
    }
    return text;
  };
  int passed = 0;
  int half_read = 0;
  for (int i = 0; i < 20000; ++i) {
    // Every second head is one that is right before it is changed.
    const std::string text = mutate(i % 2 == 0 ? seed : "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    HeadScan scan(1024, 20);
    if (scan.feed(text) == HeadScan::State::Complete) {
      Head head;
      const std::string exact = text.substr(0, scan.length());
      if (parse_request_head(exact, head) && check_request(head)) {
        ++passed;
        half_read += find_header(head.headers, "transfer-encoding").has_value() &&
                             find_header(head.headers, "content-length").has_value()
                         ? 1
                         : 0;
      }
      static_cast<void>(parse_reply_head(exact, head));
    }
    const std::string wire = mutate(body);
    bool done_at_once = false;
    bool done_by_bytes = false;
    const std::string at_once = decode(wire, wire.size(), done_at_once);
    const std::string by_bytes = decode(wire, 1, done_by_bytes);
    half_read += at_once == by_bytes && done_at_once == done_by_bytes ? 0 : 1;
  }
  CHECK(passed > 100);
  CHECK(half_read == 0);
}
