// What a handler can do with a request, seen from the client.
#include "fixture.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;

namespace {

http::Response text(int status, std::string body) {
  http::Response response;
  response.status = status;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

async::Task<Status> stream(http::Exchange& exchange) {
  ATE_CO_TRY(co_await exchange.start_stream(text(200, "first,")));
  ATE_CO_TRY(co_await exchange.write("second,"));
  ATE_CO_TRY(co_await exchange.write(std::string()));
  ATE_CO_TRY(co_await exchange.write("third"));
  co_return Status();
}

async::Task<Status> handle(http::Exchange& exchange) {
  const std::string path = exchange.request().path;
  if (path == "/body") {
    ATE_CO_TRY(co_await exchange.read_body());
    co_return co_await exchange.respond(text(200, exchange.request().body));
  }
  if (path == "/ignore") {
    co_return co_await exchange.respond(text(200, "ignored"));
  }
  if (path == "/none") {
    co_return co_await exchange.respond(text(204, ""));
  }
  if (path == "/error") {
    co_return fail(Errc::NotFound, "no such thing");
  }
  if (path == "/throw") {
    throw std::runtime_error("thrown by the handler");
  }
  if (path == "/silent") {
    co_return Status();
  }
  if (path == "/twice") {
    ATE_CO_TRY(co_await exchange.respond(text(200, "once")));
    co_return co_await exchange.respond(text(200, "twice"));
  }
  if (path == "/stream") {
    co_return co_await stream(exchange);
  }
  if (path == "/stream-error") {
    ATE_CO_TRY(co_await exchange.start_stream(text(200, "begin")));
    co_return fail(Errc::Internal, "broke");
  }
  if (path == "/large") {
    co_return co_await exchange.respond(text(200, std::string(8UL << 20, 'x')));
  }
  if (path == "/peer") {
    co_return co_await exchange.respond(text(200, std::to_string(exchange.request().peer.uid) +
                                                      " " +
                                                      std::to_string(exchange.request().peer.pid)));
  }
  co_return co_await exchange.respond(text(200, "hello"));
}

std::string get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n";
}

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

}  // namespace

TEST_CASE("replies: length, type, request id; the connection is kept") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send(get("/"));
  const Reply first = client.reply();
  CHECK(first.status == 200);
  CHECK(first.body == "hello");
  CHECK(first.header("content-type") == "text/plain");
  CHECK(first.header("content-length") == "5");
  CHECK_FALSE(first.has("connection"));
  client.send(get("/"));
  const Reply second = client.reply();
  CHECK(second.body == "hello");
  CHECK(first.header("request-id") != second.header("request-id"));
}

TEST_CASE("the peer's credentials are those of the socket") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send(get("/peer"));
  CHECK(client.reply().body == std::to_string(::geteuid()) + " " + std::to_string(::getpid()));
}

TEST_CASE("HEAD: the length without the body") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + get("/error"));
  const Reply head = client.reply(true);
  CHECK(head.header("content-length") == "5");
  CHECK(client.reply().status == 404);
  client.send("HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n" + get("/"));
  CHECK(client.reply(true).status == 200);
  CHECK(client.reply().body == "hello");
}

TEST_CASE("204 has neither body nor length") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send(get("/none") + get("/"));
  const Reply none = client.reply();
  CHECK(none.status == 204);
  CHECK_FALSE(none.has("content-length"));
  CHECK(client.reply().body == "hello");
}

TEST_CASE("connection: close and HTTP/1.0") {
  TestServer server(http::Limits(), handle);

  struct Row {
    const char* request;
    bool kept;
    const char* connection;
  };

  const std::vector<Row> rows = {
      {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false, "close"},
      {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", false, "close"},
      {"GET / HTTP/1.0\r\n\r\n", false, "close"},
      {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true, "keep-alive"},
      {"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", true, ""},
  };
  for (const Row& row : rows) {
    INFO(row.request);
    Client client = server.connect();
    client.send(row.request);
    const Reply reply = client.reply();
    CHECK(reply.body == "hello");
    CHECK(reply.header("connection") == row.connection);
    if (row.kept) {
      client.send(get("/"));
      CHECK(client.reply().body == "hello");
    } else {
      CHECK(client.closed());
    }
  }
}

TEST_CASE("pipelined requests are answered in order") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  std::string requests;
  for (int i = 0; i < 200; ++i) {
    requests += post("/body", std::to_string(i));
  }
  client.send(requests);
  for (int i = 0; i < 200; ++i) {
    CHECK(client.reply().body == std::to_string(i));
  }
}

TEST_CASE("bodies: by length, chunked, empty, of one megabyte") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  const std::string megabyte(1024UL * 1024, 'm');
  for (const std::string& body : {std::string("abc"), std::string(), megabyte}) {
    client.send(post("/body", body));
    const Reply reply = client.reply();
    CHECK(reply.status == 200);
    CHECK((reply.body == body));
  }
  client.send(
      "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n" +
      get("/"));
  CHECK(client.reply().body == "abcde");
  CHECK(client.reply().body == "hello");
}

TEST_CASE("a body that is announced too large is refused before it is read") {
  // case T57: body of 1 GiB
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n");
  const Reply reply = client.reply();
  CHECK(reply.status == 413);
  CHECK(reply.header("connection") == "close");
  CHECK(client.closed());
}

TEST_CASE("a chunked body is refused once it is too large") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  std::string request = "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 17; ++i) {
    request += "10000\r\n" + std::string(65536, 'a') + "\r\n";
  }
  client.send(request);
  CHECK(client.reply().status == 413);
  CHECK(client.closed());
}

TEST_CASE("a chunked body that is all framing is refused") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send("POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "1;" + std::string(1000, 'x') + "\r\na\r\n";
  std::string block;
  for (int i = 0; i < 64; ++i) {
    block += chunk;
  }
  std::size_t sent = 0;
  while (sent < (16UL << 20) && client.send(block) == block.size()) {
    sent += block.size();
  }
  CHECK(client.reply().status == 413);
}

TEST_CASE("wrong chunk framing is answered with 400") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send("POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n");
  CHECK(client.reply().status == 400);
  CHECK(client.closed());
}

TEST_CASE("100-continue comes when the handler reads the body, and only then") {
  TestServer server(http::Limits(), handle);
  const std::string head =
      " HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
  Client reader = server.connect();
  reader.send("POST /body" + head);
  CHECK(reader.read_until("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  reader.send("abc");
  CHECK(reader.reply().body == "abc");

  Client refused = server.connect();
  refused.send("POST /error" + head);
  CHECK(refused.read_until("\r\n").substr(0, 12) == "HTTP/1.1 404");
  CHECK(refused.read_all().find("100 Continue") == std::string::npos);

  Client large = server.connect();
  large.send(
      "POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n");
  CHECK(large.read_until("\r\n").substr(0, 12) == "HTTP/1.1 413");

  Client eager = server.connect();
  eager.send("POST /body" + head + "abc");
  CHECK(eager.read_until("\r\n").substr(0, 12) == "HTTP/1.1 200");
}

TEST_CASE("a body nobody read does not become the next request") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send(post("/ignore", get("/error")) + get("/"));
  CHECK(client.reply().body == "ignored");
  CHECK(client.reply().body == "hello");

  Client large = server.connect();
  large.send(post("/ignore", std::string(200000, 'x')));
  const Reply reply = large.reply();
  CHECK(reply.body == "ignored");
  CHECK(reply.header("connection") == "close");
  CHECK(large.closed());
}

TEST_CASE("errors, exceptions and forgotten replies become problems") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send(get("/error"));
  const Reply error = client.reply();
  CHECK(error.status == 404);
  CHECK(error.header("x-request") == "/error");
  CHECK(error.body == "no such thing");
  CHECK(server.troubles().empty());
  client.send(get("/throw"));
  const Reply thrown = client.reply();
  CHECK(thrown.status == 500);
  CHECK(thrown.body == "internal error");
  client.send(get("/silent"));
  CHECK(client.reply().status == 500);
  CHECK(server.troubles().size() == 2);
}

TEST_CASE("a second reply is an error and cuts the connection") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send(get("/twice"));
  CHECK(client.reply().body == "once");
  CHECK(client.closed());
}

TEST_CASE("streams: chunked, ended by themselves, kept alive") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send(get("/stream") + get("/"));
  const Reply reply = client.reply();
  CHECK(reply.header("transfer-encoding") == "chunked");
  CHECK(reply.body == "first,second,third");
  CHECK(reply.complete);
  CHECK(client.reply().body == "hello");
}

TEST_CASE("streams: plain until the end on HTTP/1.0") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const Reply reply = client.reply();
  CHECK_FALSE(reply.has("transfer-encoding"));
  CHECK(reply.header("connection") == "close");
  CHECK(reply.body == "first,second,third");
}

TEST_CASE("streams: an error after the head is a visible cut") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send(get("/stream-error"));
  const Reply reply = client.reply();
  CHECK(reply.body == "begin");
  CHECK_FALSE(reply.complete);
}

TEST_CASE("a large reply goes through, however slowly it is read") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send(get("/large") + get("/"));
  const Reply reply = client.reply();
  CHECK(reply.body.size() == 8UL << 20);
  CHECK(client.reply().body == "hello");
}

TEST_CASE("a client that ends its sending still gets its reply") {
  TestServer server(http::Limits(), handle);
  Client client = server.connect();
  client.send(post("/body", "abc"));
  client.shut_down_sending();
  CHECK(client.reply().body == "abc");
  CHECK(client.closed());
}
