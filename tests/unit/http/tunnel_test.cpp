// What passes after a 101: tunnels and WebSocket.
#include "forward_rig.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;

namespace {

constexpr const char* kTunnel =
    "GET /t HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
constexpr const char* kWebSocket =
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: "
    "WebSocket, h2c\r\nSec-WebSocket-Key: k\r\n\r\n";
constexpr const char* kAgreed =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: a\r\n\r\n";

}  // namespace

TEST_CASE("tunnel: 101, bytes both ways, each half ends by itself") {
  std::string seen;
  ForwardRig rig([&](Client& upstream) {
    upstream.send("hello ");
    seen = upstream.read_all();  // until the client's half has ended
    upstream.send("bye");
  });
  rig.tunnel = true;
  Client client = rig.connect();
  client.send(std::string(kTunnel) + "early ");
  const std::string head = client.read_until("\r\n\r\n");
  CHECK(head == "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
  client.send("late");
  client.shut_down_sending();
  CHECK(client.read_all() == "hello bye");
  REQUIRE(eventually([&] { return rig.ended == 1; }));
  CHECK(seen == "early late");
  CHECK(rig.activity > 0);
  CHECK(rig.switched == 1);
}

TEST_CASE("tunnel: the actor's half may end first") {
  std::string seen;
  ForwardRig rig([&](Client& upstream) {
    upstream.send("only this");
    upstream.shut_down_sending();
    seen = upstream.read_all();
  });
  rig.tunnel = true;
  Client client = rig.connect();
  client.send(kTunnel);
  client.read_until("\r\n\r\n");
  CHECK(client.read_all() == "only this");
  client.send("still heard");
  client.close();
  REQUIRE(eventually([&] { return rig.ended == 1; }));
  CHECK(seen == "still heard");
}

TEST_CASE("tunnel: what a client sent before it left still arrives") {
  std::string seen;
  const std::string load = pattern(0, 4UL << 20);
  ForwardRig rig([&](Client& upstream) { seen = upstream.read_all(); });
  rig.tunnel = true;
  Client client = rig.connect();
  client.send(kTunnel);
  client.read_until("\r\n\r\n");
  CHECK(client.send(load) == load.size());
  client.close();
  REQUIRE(eventually([&] { return rig.ended == 1; }));
  CHECK(seen == load);
}

TEST_CASE("tunnel: large amounts both ways at once, in flat memory") {
  constexpr std::size_t kLoad = 64UL << 20;
  constexpr std::size_t kPiece = 256UL << 10;
  std::size_t up = 0;
  ForwardRig rig([&](Client& upstream) {
    std::thread reader([&] {
      for (std::string piece = upstream.read_some(); !piece.empty(); piece = upstream.read_some()) {
        up += piece.size();
      }
    });
    for (std::size_t at = 0; at < kLoad; at += kPiece) {
      upstream.send(pattern(at, kPiece));
    }
    upstream.shut_down_sending();
    reader.join();
  });
  rig.tunnel = true;
  Client client = rig.connect();
  client.send(kTunnel);
  client.read_until("\r\n\r\n");
  const std::size_t before = resident_bytes();
  std::thread sender([&] {
    for (std::size_t at = 0; at < kLoad; at += kPiece) {
      client.send(pattern(at, kPiece));
    }
    client.shut_down_sending();
  });
  std::size_t at = 0;
  bool same = true;
  for (std::string piece = client.read_some(); !piece.empty(); piece = client.read_some()) {
    same = same && piece == pattern(at, piece.size());
    at += piece.size();
  }
  sender.join();
  CHECK(same);
  CHECK(at == kLoad);
  REQUIRE(eventually([&] { return rig.ended == 1; }));
  CHECK(up == kLoad);
  CHECK(resident_bytes() < before + (16UL << 20));
}

TEST_CASE("tunnel: the end of the sandbox ends it, with everything read that came") {
  ForwardRig rig([&](Client& upstream) {
    upstream.send("last words");
    rig.end_upstream();
    upstream.read_all();
  });
  rig.tunnel = true;
  Client client = rig.connect();
  client.send(kTunnel);
  client.read_until("\r\n\r\n");
  CHECK(client.read_all() == "last words");
  CHECK(client.closed());
}

TEST_CASE("tunnel: a server that stops cuts it at once") {
  ForwardRig rig([](Client& upstream) { upstream.read_all(); });
  rig.tunnel = true;
  Client client = rig.connect();
  client.send(kTunnel);
  client.read_until("\r\n\r\n");
  REQUIRE(eventually([&] { return rig.switched == 1; }));
  rig.server().stop(std::chrono::milliseconds(60000)).wait();
  CHECK(client.closed());
}

TEST_CASE("websocket: the offer and the answer pass, then frames") {
  std::string seen;
  ForwardRig rig([&](Client& upstream) {
    seen = upstream.read_until("\r\n\r\n");
    upstream.send(std::string(kAgreed) + "first");
    CHECK(upstream.read_until("ping") == "ping");
    upstream.send("pong");
  });
  Client client = rig.connect();
  client.send(kWebSocket);
  const std::string head = client.read_until("\r\n\r\n");
  CHECK(head ==
        "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: a\r\nConnection: "
        "Upgrade\r\nUpgrade: websocket\r\n\r\n");
  CHECK(client.read_until("first") == "first");
  client.send("ping");
  CHECK(client.read_until("pong") == "pong");
  client.close();
  REQUIRE(eventually([&] { return rig.ended == 1; }));
  CHECK(seen ==
        "GET /ws HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Key: k\r\nConnection: "
        "Upgrade\r\nUpgrade: websocket\r\n\r\n");
  CHECK(rig.switched == 1);
}

TEST_CASE("websocket: an actor that does not agree answers as ever") {
  ForwardRig rig([](Client& upstream) {
    upstream.read_until("\r\n\r\n");
    upstream.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
  });
  Client client = rig.connect();
  for (int i = 0; i < 2; ++i) {
    client.send(kWebSocket);
    const Reply reply = client.reply();
    CHECK(reply.status == 403);
    CHECK(reply.body == "no");
  }
  CHECK(rig.switched == 0);
}

TEST_CASE("websocket: another protocol than the one offered is 502") {
  ForwardRig rig([](Client& upstream) {
    upstream.read_until("\r\n\r\n");
    upstream.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n");
  });
  Client client = rig.connect();
  client.send(kWebSocket);
  CHECK(client.reply().status == 502);
}

TEST_CASE("forward: the end of the sandbox ends a request at once") {
  ForwardRig silent([&](Client& upstream) {
    upstream.read_until("\r\n\r\n");
    silent.end_upstream();
    upstream.read_all();
  });
  Client client = silent.connect();
  client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(client.reply().status == 502);

  // Nobody reads the upload any more: its buffers are full.
  ForwardRig deaf([&](Client& upstream) {
    upstream.read_until("\r\n\r\n");
    eventually([&] { return deaf.activity > 100'000; });
    deaf.end_upstream();
    eventually([&] { return deaf.ended_requests > 0; });
  });
  client = deaf.connect();
  client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
  std::thread sender([&] { client.send(pattern(0, 100'000'000)); });
  CHECK(client.reply().status == 502);
  client.close();
  sender.join();

  // A reply whose end is the connection's end is cut, not taken for whole.
  ForwardRig half([&](Client& upstream) {
    upstream.read_until("\r\n\r\n");
    upstream.send("HTTP/1.1 200 OK\r\n\r\nhalf");
    half.end_upstream();
    upstream.read_all();
  });
  client = half.connect();
  client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK_FALSE(client.reply().complete);
}
