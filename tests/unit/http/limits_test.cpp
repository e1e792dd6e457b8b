// Times and counts. case T57: others are served while some are slow, idle or too many.
#include <fcntl.h>
#include <poll.h>

#include <list>

#include "fixture.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;
using std::chrono::milliseconds;

namespace {

constexpr const char* kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Blocks requests for /wait until the test opens the gate.
struct Gate {
  std::atomic<bool> open = false;
  std::atomic<int> waiting = 0;
  std::atomic<int> gone = 0;
};

async::Task<void> wait_for_gate(std::shared_ptr<Gate> gate) {
  ++gate->waiting;
  while (!gate->open) {
    co_await async::sleep_for(milliseconds(1));
  }
}

async::Task<Status> follow(http::Exchange& exchange, std::shared_ptr<Gate> gate) {
  ATE_CO_TRY(co_await exchange.start_stream(http::Response()));
  ATE_CO_TRY(co_await exchange.write("begin"));
  ++gate->waiting;
  co_await exchange.peer_gone();
  ++gate->gone;
  co_return fail(Errc::Cancelled, "the client is gone");
}

async::Task<Status> fill(http::Exchange& exchange, std::shared_ptr<Gate> gate) {
  ATE_CO_TRY(co_await exchange.start_stream(http::Response()));
  Status written;
  while (written) {
    written = co_await exchange.write(std::string(65536, 'x'));
  }
  ++gate->gone;
  co_return written;
}

async::Task<Status> serve(http::Exchange& exchange, std::shared_ptr<Gate> gate) {
  const std::string path = exchange.request().path;
  if (path == "/wait") {
    co_await wait_for_gate(gate);
  } else if (path == "/body") {
    ATE_CO_TRY(co_await exchange.read_body());
  } else if (path == "/follow") {
    co_return co_await follow(exchange, gate);
  } else if (path == "/fill") {
    co_return co_await fill(exchange, gate);
  }
  http::Response response;
  response.body = "{}";
  co_return co_await exchange.respond(std::move(response));
}

http::Handler handler(std::shared_ptr<Gate> gate) {
  return [gate](http::Exchange& exchange) { return serve(exchange, gate); };
}

milliseconds serve_time(TestServer& server) {
  const auto begin = std::chrono::steady_clock::now();
  Client client = server.connect();
  client.send(kGet);
  REQUIRE(client.reply().status == 200);
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
}

}  // namespace

TEST_CASE("a slow head is answered with 408, counted from its first byte") {
  http::Limits limits;
  limits.header_timeout = milliseconds(100);
  TestServer server(limits, handler(std::make_shared<Gate>()));
  Client client = server.connect();
  client.send("GET / HT");
  const Reply reply = client.reply();
  CHECK(reply.status == 408);
  CHECK(client.closed());
}

TEST_CASE("a head that keeps coming byte by byte does not move its deadline") {
  http::Limits limits;
  limits.header_timeout = milliseconds(150);
  TestServer server(limits, handler(std::make_shared<Gate>()));
  Client client = server.connect();
  const auto begin = std::chrono::steady_clock::now();
  client.send("GET / HTTP/1.1\r\nX: ");
  ::fcntl(client.fd(), F_SETFL, O_NONBLOCK);
  std::string reply;
  while (std::chrono::steady_clock::now() - begin < milliseconds(4000)) {
    client.send("a");
    const std::string piece = client.read_some();
    reply += piece;
    if (reply.find("408") != std::string::npos) {
      break;
    }
    pollfd entry{client.fd(), POLLIN, 0};
    static_cast<void>(::poll(&entry, 1, 2));
  }
  CHECK(reply.find("408") != std::string::npos);
}

TEST_CASE("a slow body is answered with 408") {
  http::Limits limits;
  limits.body_timeout = milliseconds(100);
  TestServer server(limits, handler(std::make_shared<Gate>()));
  Client client = server.connect();
  client.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  CHECK(client.reply().status == 408);
  CHECK(client.closed());
}

TEST_CASE("idle connections are closed without a word") {
  http::Limits limits;
  limits.idle_timeout = milliseconds(100);
  TestServer server(limits, handler(std::make_shared<Gate>()));
  Client fresh = server.connect();
  Client used = server.connect();
  used.send(kGet);
  CHECK(used.reply().status == 200);
  CHECK(used.closed());
  CHECK(fresh.closed());
  CHECK(eventually([&] { return server.connections() == 0; }));
}

TEST_CASE("a client that does not read its stream is cut") {
  http::Limits limits;
  limits.write_timeout = milliseconds(100);
  auto gate = std::make_shared<Gate>();
  TestServer server(limits, handler(gate));
  Client client = server.connect();
  client.send("GET /fill HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(eventually([&] { return gate->gone == 1; }));
  CHECK(eventually([&] { return server.connections() == 0; }));
}

TEST_CASE("200 idle keep-alives and 200 slow heads: others are served in 50 ms") {
  // case T57
  TestServer server(http::Limits(), handler(std::make_shared<Gate>()));
  std::list<Client> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(server.connect());
    idle.back().send(kGet);
    REQUIRE(idle.back().reply().status == 200);
  }
  const std::size_t before = resident_bytes();
  for (int i = 0; i < 200; ++i) {
    idle.push_back(server.connect());
    idle.back().send("GET / HTTP/1.1\r\nHo");
  }
  REQUIRE(eventually([&] { return server.connections() == 400; }));
  milliseconds worst{0};
  for (int i = 0; i < 100; ++i) {
    worst = std::max(worst, serve_time(server));
  }
  CHECK(worst < milliseconds(50));
  // Small buffers, no timers of their own: far below 16 KiB each.
  CHECK(resident_bytes() < before + 200UL * 16 * 1024);
  std::size_t kept = 0;
  for (Client& client : idle) {
    kept += client.send(kGet) > 0 ? 1 : 0;
  }
  CHECK(kept == 400);
}

TEST_CASE("memory is given back after large heads and bodies") {
  // case T57: RSS flat
  TestServer server(http::Limits(), handler(std::make_shared<Gate>()));
  std::list<Client> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(server.connect());
    clients.back().send(kGet);
    REQUIRE(clients.back().reply().status == 200);
  }
  const std::size_t before = resident_bytes();
  const std::string large = "POST /body HTTP/1.1\r\nHost: a\r\nX: " + std::string(60000, 'x') +
                            "\r\nContent-Length: 1000000\r\n\r\n" + std::string(1000000, 'b');
  for (Client& client : clients) {
    client.send(large);
    REQUIRE(client.reply().status == 200);
  }
  // One connection's worth may stay in the allocator, not a hundred.
  CHECK(resident_bytes() < before + (24UL << 20));
}

TEST_CASE("when full, the connection that is idle for longest makes room") {
  http::Limits limits;
  limits.connections = 4;
  limits.root_reserve = 0;
  TestServer server(limits, handler(std::make_shared<Gate>()));
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(server.connect());
    clients.back().send(kGet);
    REQUIRE(clients.back().reply().status == 200);
  }
  // The first is used again, so the second is the oldest.
  clients[0].send(kGet);
  REQUIRE(clients[0].reply().status == 200);
  Client fifth = server.connect();
  fifth.send(kGet);
  CHECK(fifth.reply().status == 200);
  CHECK(clients[1].closed());
  clients[0].send(kGet);
  CHECK(clients[0].reply().status == 200);
}

TEST_CASE("when full of requests in flight, one more is told so") {
  http::Limits limits;
  limits.connections = 2;
  limits.root_reserve = 0;
  auto gate = std::make_shared<Gate>();
  TestServer server(limits, handler(gate));
  std::vector<Client> busy;
  for (int i = 0; i < 2; ++i) {
    busy.push_back(server.connect());
    busy.back().send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  REQUIRE(eventually([&] { return gate->waiting == 2; }));
  Client third = server.connect();
  third.send(kGet);
  const Reply refused = third.reply();
  CHECK(refused.status == 503);
  CHECK(third.closed());
  // Far too many: no memory is spent on them.
  std::list<Client> flood;
  for (int i = 0; i < 100; ++i) {
    flood.push_back(server.connect());
  }
  REQUIRE(eventually([&] { return server.connections() <= 2 + 32; }));
  gate->open = true;
  for (Client& client : busy) {
    CHECK(client.reply().status == 200);
  }
}

TEST_CASE("places are kept for root") {
  http::Limits limits;
  limits.connections = 3;
  limits.root_reserve = 2;
  auto gate = std::make_shared<Gate>();
  TestServer server(limits, handler(gate));
  Client first = server.connect();
  first.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  REQUIRE(eventually([&] { return gate->waiting == 1; }));
  Client second = server.connect();
  second.send(kGet);
  CHECK(second.reply().status == (::geteuid() == 0 ? 200 : 503));
  gate->open = true;
}

TEST_CASE("streams are limited and give their place back") {
  http::Limits limits;
  limits.streams = 1;
  auto gate = std::make_shared<Gate>();
  TestServer server(limits, handler(gate));
  const std::string request = "GET /follow HTTP/1.1\r\nHost: a\r\n\r\n";
  Client first = server.connect();
  first.send(request);
  CHECK(first.read_until("begin").ends_with("begin"));
  Client second = server.connect();
  second.send(request);
  CHECK(second.reply().status == 503);
  first.close();
  CHECK(eventually([&] { return gate->gone == 1; }));
  REQUIRE(eventually([&] { return server.connections() == 1; }));
  second.send(request);
  CHECK(second.read_until("begin").ends_with("begin"));
}

TEST_CASE("a follower whose client only ended its sending goes on") {
  auto gate = std::make_shared<Gate>();
  TestServer server(http::Limits(), handler(gate));
  Client client = server.connect();
  client.send("GET /follow HTTP/1.1\r\nHost: a\r\n\r\n");
  client.shut_down_sending();
  CHECK(client.read_until("begin").ends_with("begin"));
  CHECK(serve_time(server) < milliseconds(1000));
  CHECK(gate->gone == 0);
  client.close();
  CHECK(eventually([&] { return gate->gone == 1; }));
}

TEST_CASE("descriptors used up: a 503, no spinning, and back to work") {
  auto gate = std::make_shared<Gate>();
  TestServer server(http::Limits(), handler(gate));
  CHECK(serve_time(server) < milliseconds(1000));
  REQUIRE(eventually([&] { return server.connections() == 0; }));
  std::string reply;
  {
    const DescriptorShortage shortage;
    Client refused = server.connect();
    reply = refused.read_until("\r\n");
  }
  CHECK(reply == "HTTP/1.1 503 Service Unavailable\r\n");
  CHECK(server.troubles().size() == 1);
  CHECK(serve_time(server) < milliseconds(1000));
}

TEST_CASE("descriptors used up: an idle connection makes room") {
  TestServer server(http::Limits(), handler(std::make_shared<Gate>()));
  Client idle = server.connect();
  idle.send(kGet);
  REQUIRE(idle.reply().status == 200);
  const DescriptorShortage shortage;
  Client next = server.connect();
  next.send(kGet);
  CHECK(next.reply().status == 200);
  CHECK(idle.closed());
  // Each client takes the descriptor of the one before: told once, not for each of them.
  for (int i = 0; i < 5; ++i) {
    idle.close();  // the client's own end
    Client last = server.connect();
    last.send(kGet);
    CHECK(last.reply().status == 200);
    CHECK(next.closed());
    idle = std::move(next);
    next = std::move(last);
  }
  CHECK(server.troubles().size() == 1);
}

TEST_CASE("stop: idle at once, in flight to the end, followers at once, nothing new") {
  auto gate = std::make_shared<Gate>();
  TestServer server(http::Limits(), handler(gate));
  Client idle = server.connect();
  idle.send(kGet);
  REQUIRE(idle.reply().status == 200);
  Client busy = server.connect();
  busy.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  Client follower = server.connect();
  follower.send("GET /follow HTTP/1.1\r\nHost: a\r\n\r\n");
  REQUIRE(follower.read_until("begin").ends_with("begin"));
  REQUIRE(eventually([&] { return gate->waiting == 2; }));
  std::future<void> stopped = server.stop(milliseconds(5000));
  CHECK(idle.closed());
  CHECK_FALSE(follower.reply().complete);
  CHECK(eventually([&] { return gate->gone == 1; }));
  gate->open = true;
  const Reply reply = busy.reply();
  CHECK(reply.status == 200);
  CHECK(reply.header("connection") == "close");
  stopped.wait();
}

TEST_CASE("stop: half a head and leftovers of a request are not waited for") {
  TestServer server(http::Limits(), handler(std::make_shared<Gate>()));
  Client half = server.connect();
  half.send("GET / HT");
  Client leftover = server.connect();
  leftover.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc");
  REQUIRE(leftover.reply().status == 200);
  Client draining = server.connect();
  draining.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
  REQUIRE(draining.reply().status == 200);
  REQUIRE(eventually([&] { return server.connections() == 3; }));
  const auto begin = std::chrono::steady_clock::now();
  server.stop(milliseconds(5000)).wait();
  CHECK(std::chrono::steady_clock::now() - begin < milliseconds(1000));
}

TEST_CASE("stop: what does not end within the grace is cut") {
  auto gate = std::make_shared<Gate>();
  TestServer server(http::Limits(), handler(gate));
  Client busy = server.connect();
  busy.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  Client body = server.connect();
  body.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
  REQUIRE(eventually([&] { return gate->waiting == 1 && server.connections() == 2; }));
  const auto begin = std::chrono::steady_clock::now();
  server.stop(milliseconds(50)).wait();
  CHECK(std::chrono::steady_clock::now() - begin < milliseconds(1000));
  CHECK(busy.closed());
  CHECK(body.closed());
}
