// What passes between a client and a forwarded upstream: heads, framing, keep-alive.
#include "forward_rig.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;

namespace {

/// Reads a request's head and answers with `reply`.
ForwardRig::Script answer(std::string reply) {
  return [reply = std::move(reply)](Client& upstream) {
    upstream.read_until("\r\n\r\n");
    upstream.send(reply);
  };
}

constexpr const char* kGet = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";

}  // namespace

TEST_CASE("forward: the request passes with its own target, Host and headers") {
  std::string seen;
  ForwardRig rig([&](Client& upstream) {
    seen = upstream.read_until("\r\n\r\n");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  Client client = rig.connect();
  client.send(
      "GET /a/%2F%2e%2e//b?x=%00+1&;y HTTP/1.1\r\nHost: actor.example:80\r\nX-One: 1\r\n"
      "Ate-Atespace: secret\r\nConnection: keep-alive, X-Private, Host\r\nX-Private: p\r\n"
      "Keep-Alive: timeout=5\r\nTE: trailers\r\nProxy-Connection: keep-alive\r\n"
      "Trailer: X\r\nx-ONE: 2\r\n\r\n");
  CHECK(client.reply().body == "ok");
  CHECK(seen ==
        "GET /a/%2F%2e%2e//b?x=%00+1&;y HTTP/1.1\r\nHost: actor.example:80\r\nX-One: 1\r\n"
        "x-ONE: 2\r\nConnection: close\r\n\r\n");
  CHECK(rig.activity > 0);
}

TEST_CASE("forward: the reply passes, hop-by-hop headers do not; the client is kept") {
  ForwardRig rig(
      answer("HTTP/1.1 201 Made Here\r\nX-A: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
             "Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
             "Content-Length: 3\r\n\r\nabc"));
  Client client = rig.connect();
  for (int i = 0; i < 3; ++i) {
    client.send(kGet);
    const Reply reply = client.reply();
    CHECK(reply.head ==
          "HTTP/1.1 201 Made Here\r\nX-A: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
          "Content-Length: 3\r\n\r\n");
    CHECK(reply.body == "abc");
  }
}

TEST_CASE("forward: replies by every framing") {
  struct Row {
    const char* name;
    std::string reply;
    std::string body;
    bool chunked;
  };

  const std::vector<Row> rows = {
      {"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", false},
      {"length zero", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", false},
      {"chunked",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x\r\nllo\r\n0\r\nT: "
       "1\r\n\r\n",
       "hello", true},
      {"chunked, empty", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "",
       true},
      {"until close", "HTTP/1.1 200 OK\r\n\r\nhello", "hello", true},
      {"until close, empty", "HTTP/1.1 200 OK\r\n\r\n", "", true},
      {"1.0 until close", "HTTP/1.0 200 OK\r\nX: y\r\n\r\nhello", "hello", true},
      {"no reason", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", "ok", false},
      {"103 before",
       "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"
       "Content-Length: 2\r\n\r\nok",
       "ok", false},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    ForwardRig rig(answer(row.reply));
    Client client = rig.connect();
    for (int i = 0; i < 2; ++i) {
      client.send(kGet);
      const Reply reply = client.reply();
      CHECK(reply.status == 200);
      CHECK(reply.complete);
      CHECK(reply.body == row.body);
      CHECK(reply.has("transfer-encoding") == row.chunked);
      CHECK(reply.has("content-length") != row.chunked);
    }
    Client old = rig.connect();
    old.send("GET /x HTTP/1.0\r\n\r\n");
    const Reply reply = old.reply();
    CHECK(reply.body == row.body);
    CHECK_FALSE(reply.has("transfer-encoding"));
    CHECK(reply.header("connection") == "close");
    CHECK(old.closed());
  }
}

TEST_CASE("forward: replies without a body keep their length and the connection") {
  ForwardRig head(answer("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"));
  Client client = head.connect();
  for (int i = 0; i < 2; ++i) {
    client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
    const Reply reply = client.reply(true);
    CHECK(reply.header("content-length") == "12345");
  }
  ForwardRig unchanged(answer("HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 5\r\n\r\n"));
  client = unchanged.connect();
  for (int i = 0; i < 2; ++i) {
    client.send(kGet);
    const Reply reply = client.reply();
    CHECK(reply.status == 304);
    CHECK(reply.header("content-length") == "5");
  }
  ForwardRig none(answer("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"));
  client = none.connect();
  for (int i = 0; i < 2; ++i) {
    client.send(kGet);
    const Reply reply = client.reply();
    CHECK(reply.status == 204);
    CHECK_FALSE(reply.has("content-length"));
  }
}

TEST_CASE("forward: request bodies by length, chunked, none") {
  struct Row {
    const char* name;
    std::string request;
    std::string seen;  // after the head's end
  };

  const std::vector<Row> rows = {
      {"length", "Content-Length: 5\r\n\r\nhello",
       "Content-Length: 5\r\nConnection: close\r\n\r\nhello"},
      {"length zero", "Content-Length: 0\r\n\r\n",
       "Content-Length: 0\r\nConnection: close\r\n\r\n"},
      {"chunked", "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: 1\r\n\r\n",
       "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
      {"chunked, empty", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"},
      {"none", "\r\n", "Connection: close\r\n\r\n"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    std::string seen;
    ForwardRig rig([&](Client& upstream) {
      seen = upstream.read_until(row.seen);
      upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    Client client = rig.connect();
    for (int i = 0; i < 2; ++i) {
      client.send("POST /x HTTP/1.1\r\nHost: a\r\n" + row.request);
      CHECK(client.reply().status == 200);
      CHECK(seen == "POST /x HTTP/1.1\r\nHost: a\r\n" + row.seen);
    }
  }
}

TEST_CASE("forward: 100-continue is the upstream's to say") {
  ForwardRig willing([](Client& upstream) {
    upstream.read_until("\r\n\r\n");
    upstream.send("HTTP/1.1 100 Continue\r\n\r\n");
    upstream.read_until("hello");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  const std::string head =
      "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
  Client client = willing.connect();
  client.send(head);
  CHECK(client.read_until("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hello");
  CHECK(client.reply().status == 200);

  ForwardRig unwilling(answer("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n"));
  Client refused = unwilling.connect();
  refused.send(head);
  CHECK(refused.read_until("\r\n") == "HTTP/1.1 417 No\r\n");
  CHECK(refused.read_all().find("100") == std::string::npos);
}

TEST_CASE("forward: what is not HTTP becomes 502") {
  struct Row {
    const char* name;
    std::string reply;
  };

  const std::vector<Row> rows = {
      {"nothing", ""},
      {"half a head", "HTTP/1.1 200 OK\r\nContent-Le"},
      {"garbage", "SSH-2.0-OpenSSH\r\n"},
      {"garbage with an end", "hello\r\n\r\n"},
      {"binary", std::string("\x16\x03\x01\x00\x05hello", 10)},
      {"bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
      {"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"},
      {"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
      {"bad length", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab"},
      {"gzip coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nab"},
      {"length and chunked",
       "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"unasked switch", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"},
      {"large head", "HTTP/1.1 200 OK\r\nX: " + std::string(70000, 'x') + "\r\n\r\n"},
      {"many headers",
       [] {
         std::string head = "HTTP/1.1 200 OK\r\n";
         for (int i = 0; i < 300; ++i) {
           head += "X: 1\r\n";
         }
         return head + "\r\n";
       }()},
      {"endless 1xx",
       [] {
         std::string heads;
         for (int i = 0; i < 100; ++i) {
           heads += "HTTP/1.1 102 Processing\r\n\r\n";
         }
         return heads;
       }()},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    ForwardRig rig(answer(row.reply));
    Client client = rig.connect();
    client.send(kGet);
    const Reply reply = client.reply();
    CHECK(reply.status == 502);
    CHECK(reply.complete);
    // The client's own connection is none the worse.
    client.send(kGet);
    CHECK(client.reply().status == 502);
  }
}

TEST_CASE("forward: an offer other than WebSocket is let fall and the request answered") {
  const std::vector<std::string> offers = {
      "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n",
      "Connection: Upgrade\r\nUpgrade: websocketish\r\n", "Upgrade: websocket\r\n",
      "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n"};
  for (const std::string& offer : offers) {
    INFO(offer);
    std::string seen;
    ForwardRig rig([&](Client& upstream) {
      seen = upstream.read_until("\r\n\r\n");
      upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    Client client = rig.connect();
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\n" + offer + "\r\n" +
                (offer.ends_with("1\r\n") ? "x" : ""));
    CHECK(client.reply().body == "ok");
    CHECK(seen.find("pgrade") == std::string::npos);
    CHECK(seen.find("HTTP2") == std::string::npos);
    CHECK(seen.find("Connection: close\r\n") != std::string::npos);
  }
}
