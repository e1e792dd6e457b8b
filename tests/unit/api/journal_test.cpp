#include "fixture.hpp"

using namespace ate;
using namespace ate::test;

TEST_CASE("operations: the problem document is embedded, null when there is none") {
  FakeBackend backend;
  const Answer done = get(backend, "/v1/operations/op-1");
  REQUIRE(done.status == 200);
  REQUIRE(done.body.starts_with(R"({"kind":"Operation","id":"op-1","verb":"resume")"));
  REQUIRE(done.body.ends_with(R"("error":null})"));
  backend.add_operation("op-2", v1alpha1::Operation::FAILED, R"({"type":"/v1/problems/internal"})");
  REQUIRE(get(backend, "/v1/operations/op-2")
              .body.ends_with(R"("error":{"type":"/v1/problems/internal"}})"));
  REQUIRE(get(backend, "/v1/operations/op-2?wait=7").status == 200);
  REQUIRE(backend.calls.back() == "operation op-2 7000");
  REQUIRE(get(backend, "/v1/operations/op-2?wait=301").problem() == "malformed");
  REQUIRE(get(backend, "/v1/operations/none").problem() == "not-found");
}

TEST_CASE("operations: pages and filters") {
  FakeBackend backend;
  backend.add_operation("op-2", v1alpha1::Operation::DONE, "");
  const Answer page = get(backend, "/v1/operations?limit=1&actor=c1&state=DONE");
  REQUIRE(page.has(R"("nextPageToken":"ate16f702d317bace35c")"));
  REQUIRE(backend.calls.back() == "operations  2 01hzzzzzzzzzzzzzzzzzzzzzzz DONE");
  REQUIRE(get(backend, "/v1/operations?limit=1&pageToken=ate16f702d317bace35c").status == 200);
  REQUIRE(backend.calls.back() == "operations op-1 2 - -");
  REQUIRE(get(backend, "/v1/operations?limit=2").has(R"("nextPageToken":"")"));
  REQUIRE(get(backend, "/v1/operations?state=done").problem() == "malformed");
  REQUIRE(get(backend, "/v1/operations?atespace=default").problem() == "malformed");
  REQUIRE(get(backend, "/v1/operations?actor=c1&atespace=A").problem() == "malformed");
  REQUIRE(get(backend, "/v1/operations?actor=none").problem() == "not-found");
}

TEST_CASE("events: pages by id") {
  FakeBackend backend;
  const Answer page = get(backend, "/v1/events?since=1&limit=1");
  REQUIRE(
      page.body ==
      R"({"kind":"EventList","items":[{"id":2,"type":"actor.state"}],"next":2,"first":1,"last":3})");
  REQUIRE(get(backend, "/v1/events?since=3").has(R"("items":[],"next":3)"));
  for (const char* bad : {"since=-1", "since=x", "limit=0", "follow=maybe"}) {
    CAPTURE(bad);
    REQUIRE(get(backend, std::string("/v1/events?") + bad).problem() == "malformed");
  }
}

namespace {

/// Follows until `rounds` waits for news have passed, then the client leaves.
Answer follow(FakeBackend& backend, const std::string& target, const char* last_id, int rounds,
              const std::function<void(int)>& on_wait) {
  http::Request request = make_request("GET", target, {});
  if (last_id != nullptr) {
    request.headers.emplace_back("Last-Event-ID", last_id);
  }
  int round = 0;
  return send(backend, std::move(request), [&](FakeExchange& exchange) {
    backend.on_wait_event = [&] {
      on_wait(round);
      if (++round == rounds) {
        exchange.gone.set();
      }
    };
  });
}

void nothing(int /*round*/) {}

}  // namespace

TEST_CASE("events: a follower gets what it missed, then what comes") {
  FakeBackend backend;
  const Answer answer =
      follow(backend, "/v1/events?follow=true&since=2", nullptr, 2, [&](int round) {
        if (round == 0) {
          auto event = std::make_shared<v1alpha1::Event>();
          event->set_id(4);
          event->set_type("actor.created");
          backend.the_events.push_back(event);
        }
      });
  REQUIRE(answer.content_type == "text/event-stream");
  REQUIRE(answer.streamed ==
          "id: 3\nevent: actor.state\ndata: {\"id\":3,\"type\":\"actor.state\"}\n\n"
          "id: 4\nevent: actor.created\ndata: {\"id\":4,\"type\":\"actor.created\"}\n\n");
}

TEST_CASE("events: where a stream begins") {
  FakeBackend backend;
  // Without a word: the next event.
  REQUIRE(follow(backend, "/v1/events?follow", nullptr, 1, nothing).streamed.empty());
  // A client that reconnects.
  REQUIRE(follow(backend, "/v1/events?follow", "2", 1, nothing).streamed.starts_with("id: 3\n"));
  REQUIRE(get(backend, "/v1/events?follow&since=x").status == 400);
  REQUIRE(follow(backend, "/v1/events?follow", "x", 1, nothing).status == 400);
  // What it asked for is gone, or never was.
  backend.first_event = 2;
  REQUIRE(follow(backend, "/v1/events?follow&since=0", nullptr, 1, nothing)
              .streamed.starts_with("id: 1\nevent: resync\ndata: {\"first\":2}\n\nid: 2\n"));
  REQUIRE(follow(backend, "/v1/events?follow&since=99", nullptr, 1, nothing)
              .streamed.starts_with("id: 3\nevent: resync\n"));
}

TEST_CASE("events: those of objects count, though the engine did not write them") {
  FakeBackend backend;
  backend.engine_event = 1;
  REQUIRE(get(backend, "/v1/events?since=3").has(R"("items":[],"next":3,"first":1,"last":3)"));
  REQUIRE(follow(backend, "/v1/events?follow", nullptr, 1, nothing).streamed.empty());
  REQUIRE(follow(backend, "/v1/events?follow", "3", 1, nothing).streamed.empty());
}

TEST_CASE("events: a stream of a new store begins at its start") {
  FakeBackend backend;
  backend.the_events.clear();
  backend.first_event = 1;
  REQUIRE(follow(backend, "/v1/events?follow&since=0", nullptr, 1, nothing).streamed.empty());
}

TEST_CASE("events: a quiet stream carries heartbeats") {
  FakeBackend backend;
  const auto begin = std::chrono::steady_clock::now();
  http::Request request = make_request("GET", "/v1/events?follow", {});
  const Answer answer = send(backend, std::move(request), [&](FakeExchange& exchange) {
    exchange.on_write = [&exchange] { exchange.gone.set(); };
  });
  REQUIRE(answer.streamed == ": heartbeat\n\n");
  REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}
