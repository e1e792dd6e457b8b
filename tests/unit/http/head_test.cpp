// Requests that must not reach a handler, as raw bytes. case T57; reliability.md J5 to J12.
#include "fixture.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;

namespace {

async::Task<Status> echo_target(http::Exchange& exchange) {
  http::Response response;
  response.content_type = "text/plain";
  response.body =
      exchange.request().method + " " + exchange.request().path + "|" + exchange.request().query;
  co_return co_await exchange.respond(std::move(response));
}

}  // namespace

TEST_CASE("malformed heads are answered and the connection is closed") {
  TestServer server(http::Limits(), echo_target);
  const std::string host = "Host: a\r\n";

  struct Row {
    const char* name;
    std::string request;
    int status;
  };

  std::string many;
  for (int i = 0; i < 101; ++i) {
    many += "X-" + std::to_string(i) + ": 1\r\n";
  }
  const std::vector<Row> rows = {
      {"not HTTP", "hello\r\n\r\n", 400},
      {"HTTP/0.9", "GET /\r\n\r\n", 400},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"HTTP/1.2", "GET / HTTP/1.2\r\n" + host + "\r\n", 400},
      {"lower-case http", "GET / http/1.1\r\n" + host + "\r\n", 400},
      {"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two Hosts", "GET / HTTP/1.1\r\n" + host + "Host: b\r\n\r\n", 400},
      {"two Hosts on 1.0", "GET / HTTP/1.0\r\n" + host + "Host: b\r\n\r\n", 400},
      {"folded header", "GET / HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n", 400},
      {"folded by a tab", "GET / HTTP/1.1\r\n" + host + "X: a\r\n\tb\r\n\r\n", 400},
      {"blank before the first header", "GET / HTTP/1.1\r\n X: a\r\n" + host + "\r\n", 400},
      {"space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
      {"header without a colon", "GET / HTTP/1.1\r\n" + host + "nonsense\r\n\r\n", 400},
      {"header without a name", "GET / HTTP/1.1\r\n" + host + ": x\r\n\r\n", 400},
      {"bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400},
      {"bare LF in one line", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400},
      {"bare CR", "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400},
      {"NUL in a value", std::string("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29), 400},
      {"NUL in the path", std::string("GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n", 30), 400},
      {"control character", "GET / HTTP/1.1\r\n" + host + "X: \x01\r\n\r\n", 400},
      {"DEL", "GET / HTTP/1.1\r\n" + host + "X: \x7f\r\n\r\n", 400},
      {"space in the target", "GET /a b HTTP/1.1\r\n" + host + "\r\n", 400},
      {"absolute target", "GET http://a/ HTTP/1.1\r\n" + host + "\r\n", 400},
      {"asterisk target", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n", 400},
      {"authority target", "CONNECT a:80 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"relative target", "GET a HTTP/1.1\r\n" + host + "\r\n", 400},
      {"fragment", "GET /a#b HTTP/1.1\r\n" + host + "\r\n", 400},
      {"method with a comma", "GE,T / HTTP/1.1\r\n" + host + "\r\n", 400},
      {"long method", std::string(40, 'M') + " / HTTP/1.1\r\n" + host + "\r\n", 400},
      {"length and chunked",
       "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
       400},
      {"chunked and length",
       "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
       400},
      {"two equal lengths",
       "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
      {"two lengths",
       "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400},
      {"list of lengths", "POST / HTTP/1.1\r\n" + host + "Content-Length: 2, 2\r\n\r\nab", 400},
      {"plus", "POST / HTTP/1.1\r\n" + host + "Content-Length: +2\r\n\r\nab", 400},
      {"minus", "POST / HTTP/1.1\r\n" + host + "Content-Length: -2\r\n\r\nab", 400},
      {"hexadecimal", "POST / HTTP/1.1\r\n" + host + "Content-Length: 0x2\r\n\r\nab", 400},
      {"empty length", "POST / HTTP/1.1\r\n" + host + "Content-Length:\r\n\r\nab", 400},
      {"2^64", "POST / HTTP/1.1\r\n" + host + "Content-Length: 18446744073709551616\r\n\r\n", 400},
      {"xchunked", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
       400},
      {"gzip, chunked",
       "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunked, identity",
       "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400},
      {"chunked twice",
       "POST / HTTP/1.1\r\n" + host +
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      {"identity", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
       400},
      {"chunked on 1.0",
       "POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"unknown expectation", "POST / HTTP/1.1\r\n" + host + "Expect: tea\r\n\r\n", 400},
      {"too many headers", "GET / HTTP/1.1\r\n" + host + many + "\r\n", 431},
      {"large header", "GET / HTTP/1.1\r\n" + host + "X: " + std::string(70000, 'a') + "\r\n\r\n",
       431},
      {"large target", "GET /" + std::string(70000, 'a') + " HTTP/1.1\r\n" + host + "\r\n", 431},
      {"2 MiB of headers",
       "GET / HTTP/1.1\r\n" + host + "X: " + std::string(2UL << 20, 'a') + "\r\n\r\n", 431},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Client client = server.connect();
    client.send(row.request);
    const Reply reply = client.reply();
    CHECK(reply.status == row.status);
    CHECK(reply.complete);
    CHECK(reply.header("connection") == "close");
    CHECK(reply.header("x-request") == "none");
    CHECK(reply.header("request-id").size() == 16);
    CHECK(client.closed());
  }
  CHECK(server.troubles().empty());
}

TEST_CASE("unusual but right heads are served") {
  TestServer server(http::Limits(), echo_target);

  struct Row {
    const char* name;
    std::string request;
    std::string body;
  };

  std::string many;
  for (int i = 0; i < 99; ++i) {
    many += "X-" + std::to_string(i) + ": 1\r\n";
  }
  const std::vector<Row> rows = {
      {"encoded dots stay raw", "GET /a/%2e%2e/b?x=%00&y HTTP/1.1\r\nHost: a\r\n\r\n",
       "GET /a/%2e%2e/b|x=%00&y"},
      {"empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET /|"},
      {"no blank after the colon", "GET / HTTP/1.1\r\nHost:a\r\n\r\n", "GET /|"},
      {"empty query", "GET /? HTTP/1.1\r\nHost: a\r\n\r\n", "GET /|"},
      {"an empty line before", "\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n", "GET /x|"},
      {"chunked in capitals",
       "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", "POST /c|"},
      {"bytes above 127", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /\xc3\xa4|"},
      {"100 headers", "GET / HTTP/1.1\r\nHost: a\r\n" + many + "\r\n", "GET /|"},
      {"60 KiB target", "GET /" + std::string(60000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n",
       "GET /" + std::string(60000, 'a') + "|"},
      {"unknown method", "BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", "BREW /pot|"},
      {"1.0", "GET /old HTTP/1.0\r\n\r\n", "GET /old|"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Client client = server.connect();
    client.send(row.request);
    const Reply reply = client.reply();
    CHECK(reply.status == 200);
    CHECK(reply.body == row.body);
  }
}

TEST_CASE("a head may come byte by byte") {
  TestServer server(http::Limits(), echo_target);
  Client client = server.connect();
  for (const char c : std::string("\r\nGET /slow?q HTTP/1.1\r\nHost: a\r\n\r\n")) {
    client.send(std::string(1, c));
  }
  CHECK(client.reply().body == "GET /slow|q");
}
