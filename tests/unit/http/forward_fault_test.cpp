// Forwarding when something breaks or is large: early replies, deaths, stalls, 64 MiB both ways.
#include <sys/socket.h>

#include "forward_rig.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;
using std::chrono::milliseconds;

namespace {

constexpr const char* kGet = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::size_t kLarge = 64UL << 20;
constexpr std::size_t kBlock = 65536;

/// Sends `kLarge` bytes of the pattern, chunked or plain; false when the peer stopped it.
bool send_large(Client& to, bool chunked) {
  for (std::size_t at = 0; at < kLarge; at += kBlock) {
    std::string block = pattern(at, kBlock);
    if (chunked) {
      block = "10000\r\n" + block + "\r\n";
    }
    if (to.send(block) != block.size()) {
      return false;
    }
  }
  return !chunked || to.send("0\r\n\r\n") == 5;
}

http::Exchange::Upstream times(milliseconds head, milliseconds stall) {
  http::Exchange::Upstream settings;
  settings.head_timeout = head;
  settings.stall_timeout = stall;
  return settings;
}

/// Reads a body of `kLarge` bytes of the pattern that is framed by nothing.
bool read_large(Client& from, std::string held) {
  std::size_t at = 0;
  while (at < kLarge) {
    if (held.empty()) {
      held = from.read_some();
    }
    if (held.empty() || held != pattern(at, held.size())) {
      return false;
    }
    at += held.size();
    held.clear();
  }
  return at == kLarge;
}

/// The same, chunked.
bool read_large_chunked(Client& from) {
  std::size_t at = 0;
  for (;;) {
    const std::size_t size = std::stoul("0" + from.read_until("\r\n"), nullptr, 16);
    std::string data;
    while (data.size() < size + 2) {
      const std::string piece = from.read_until("\r\n");
      if (piece.empty()) {
        return false;
      }
      data += piece;
    }
    if (size == 0) {
      return at == kLarge;
    }
    if (data.size() != size + 2 || data.substr(0, size) != pattern(at, size)) {
      return false;
    }
    at += size;
  }
}

}  // namespace

TEST_CASE("forward: 64 MiB both ways at the same time, byte for byte, in flat memory") {
  for (const bool chunked : {false, true}) {
    INFO(chunked);
    // The upstream sends back what it reads, as it reads it.
    ForwardRig rig([&](Client& upstream) {
      upstream.read_until("\r\n\r\n");
      upstream.send(chunked ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                            : "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
      std::size_t total = 0;
      std::string tail;
      while (chunked ? !tail.ends_with("\r\n0\r\n\r\n") : total < kLarge) {
        const std::string piece = upstream.read_some();
        if (piece.empty() || upstream.send(piece) != piece.size()) {
          return;
        }
        total += piece.size();
        tail = (tail + piece)
                   .substr(tail.size() + piece.size() > 16 ? tail.size() + piece.size() - 16 : 0);
      }
    });
    Client client = rig.connect();
    client.send(kGet);  // first use: whatever is allocated once is allocated now
    client = rig.connect();
    const std::size_t before = resident_bytes();
    client.send(
        std::string("POST /x HTTP/1.1\r\nHost: a\r\n") +
        (chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: 67108864\r\n\r\n"));
    bool sent = false;
    std::thread sender([&] { sent = send_large(client, chunked); });
    Client reader(UniqueFd(::dup(client.fd())));
    const std::string head = reader.read_until("\r\n\r\n");
    CHECK(head.starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK((chunked ? read_large_chunked(reader) : read_large(reader, reader.read_some())));
    sender.join();
    CHECK(sent);
    CHECK(resident_bytes() < before + (8UL << 20));
    CHECK(rig.activity >= 2 * kLarge);
  }
}

TEST_CASE("forward: an early reply reaches a client that is still sending") {
  // The upstream answers 413 and closes without reading the body.
  ForwardRig rig([](Client& upstream) {
    upstream.read_until("\r\n\r\n");
    upstream.send("HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlong");
  });
  Client client = rig.connect();
  client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n");
  std::thread sender([&] { send_large(client, false); });
  Client reader(UniqueFd(::dup(client.fd())));
  const Reply reply = reader.reply();
  CHECK(reply.status == 413);
  CHECK(reply.body == "long");
  CHECK(reply.complete);
  sender.join();
  CHECK(reader.closed());
}

TEST_CASE("forward: an upstream that dies within its reply is a visible cut") {
  const std::vector<std::string> replies = {
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nha",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nnonsense",
  };
  for (const std::string& text : replies) {
    INFO(text);
    ForwardRig rig([&](Client& upstream) {
      upstream.read_until("\r\n\r\n");
      upstream.send(text);
    });
    Client client = rig.connect();
    client.send(kGet);
    const Reply reply = client.reply();
    CHECK(reply.status == 200);
    CHECK_FALSE(reply.complete);
    CHECK(client.closed());
  }
}

TEST_CASE("forward: a client that goes ends its upstream at once") {
  struct Row {
    const char* name;
    std::string request;
    std::string reply;
  };

  const std::vector<Row> rows = {
      {"waiting for the head", kGet, ""},
      {"within the reply", kGet, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"},
      {"within the request", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf", ""},
      {"with the next request sent", std::string(kGet) + kGet, ""},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    std::atomic<bool> began = false;
    std::atomic<bool> ended = false;
    ForwardRig rig([&](Client& upstream) {
      upstream.read_until("\r\n\r\n");
      upstream.send(row.reply);
      began = true;
      upstream.read_all();
      ended = true;
    });
    Client client = rig.connect();
    client.send(row.request);
    REQUIRE(eventually([&] { return began.load(); }));
    client.close();
    CHECK(eventually([&] { return ended.load(); }));
    CHECK(eventually([&] { return rig.server().connections() == 0; }));
  }
}

TEST_CASE("forward: a client that goes ends an upstream that does not read") {
  std::atomic<bool> began = false;
  std::atomic<bool> go_on = false;
  bool refused = false;
  ForwardRig rig([&](Client& upstream) {
    upstream.read_until("\r\n\r\n");
    began = true;
    static_cast<void>(eventually([&] { return go_on.load(); }));
    refused = upstream.send("HTTP/1.1 200 OK\r\n\r\n") == 0;
  });
  Client client = rig.connect();
  client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n");
  REQUIRE(eventually([&] { return began.load(); }));
  // Until nothing more goes in: everything in between is full.
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
  const std::string block(kBlock, 'x');
  int full = 0;
  while (full < 100) {
    full = ::send(client.fd(), block.data(), block.size(), flags) < 0 ? full + 1 : 0;
    std::this_thread::yield();
  }
  client.close();
  CHECK(eventually([&] { return rig.server().connections() == 0; }));
  go_on = true;
  CHECK(eventually([&] { return rig.ended == 1; }));
  CHECK(refused);
}

TEST_CASE("forward: an upstream that stays silent becomes 502 after the head's timeout") {
  ForwardRig rig([](Client& upstream) { upstream.read_all(); },
                 times(milliseconds(100), milliseconds(5000)));
  Client client = rig.connect();
  client.send(kGet);
  const Reply reply = client.reply();
  CHECK(reply.status == 502);
  CHECK(reply.body.find("in time") != std::string::npos);
  client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
  CHECK(client.reply().status == 502);
}

TEST_CASE("forward: a stall within the reply or the request ends it") {
  ForwardRig rig(
      [](Client& upstream) {
        const std::string head = upstream.read_until("\r\n\r\n");
        if (head.starts_with("GET")) {
          upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        }
        upstream.read_all();
      },
      times(milliseconds(5000), milliseconds(100)));
  Client reply_stalls = rig.connect();
  reply_stalls.send(kGet);
  const Reply half = reply_stalls.reply();
  CHECK(half.body == "half");
  CHECK_FALSE(half.complete);
  Client request_stalls = rig.connect();
  request_stalls.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
  const Reply reply = request_stalls.reply();
  CHECK(reply.status == 502);
  CHECK(request_stalls.closed());
}

TEST_CASE("forward: a client that does not take the reply is cut") {
  ForwardRig rig(
      [](Client& upstream) {
        upstream.read_until("\r\n\r\n");
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
        send_large(upstream, false);
      },
      times(milliseconds(5000), milliseconds(100)));
  Client client = rig.connect();
  client.send(kGet);
  CHECK(eventually([&] { return rig.ended == 1; }));
  CHECK(eventually([&] { return rig.server().connections() == 0; }));
}

TEST_CASE("forward: a broken chunk of the request becomes 400") {
  ForwardRig rig([](Client& upstream) { upstream.read_all(); });
  Client client = rig.connect();
  client.send(
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n");
  CHECK(client.reply().status == 400);
  CHECK(client.closed());
  CHECK(eventually([&] { return rig.ended == 1; }));
}

TEST_CASE("forward: stop lets a reply end within the grace") {
  std::atomic<bool> began = false;
  std::atomic<bool> go_on = false;
  ForwardRig rig([&](Client& upstream) {
    upstream.read_until("\r\n\r\n");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha");
    began = true;
    static_cast<void>(eventually([&] { return go_on.load(); }));
    upstream.send("lf");
  });
  Client client = rig.connect();
  client.send(kGet);
  REQUIRE(eventually([&] { return began.load(); }));
  std::future<void> stopped = rig.server().stop(milliseconds(5000));
  go_on = true;
  const Reply reply = client.reply();
  CHECK(reply.complete);
  CHECK(reply.body == "half");
  CHECK(client.closed());
  stopped.wait();
}

TEST_CASE("forward: stop cuts what does not end within the grace") {
  std::atomic<bool> began = false;
  ForwardRig rig([&](Client& upstream) {
    upstream.read_until("\r\n\r\n");
    began = true;
    upstream.read_all();
  });
  Client waiting = rig.connect();
  waiting.send(kGet);
  REQUIRE(eventually([&] { return began.load(); }));
  const auto begin = std::chrono::steady_clock::now();
  rig.server().stop(milliseconds(50)).wait();
  CHECK(std::chrono::steady_clock::now() - begin < milliseconds(1000));
  CHECK(waiting.closed());
  CHECK(eventually([&] { return rig.ended == 1; }));
}
