#include "fixture.hpp"
#include "support/temp_dir.hpp"

using namespace ate;
using namespace ate::test;

namespace {

std::shared_ptr<v1alpha1::Actor> copy_of(const FakeBackend& backend) {
  return std::make_shared<v1alpha1::Actor>(*backend.the_actor);
}

Answer with_prefer(FakeBackend& backend, const std::string& verb, const char* value) {
  http::Request request = make_request("POST", "/v1/actors/c1/" + verb, {});
  request.headers.emplace_back("Prefer", value);
  return send(backend, std::move(request), {});
}

}  // namespace

TEST_CASE("actors: create answers 201 with its place and tag") {
  FakeBackend backend;
  http::Request request = make_request("POST", "/v1/actors", R"({"metadata":{"name":"c1"}})");
  request.peer.uid = 42;
  const Answer made = send(backend, std::move(request), {});
  REQUIRE(made.status == 201);
  REQUIRE(made.header("Location") == "/v1/actors/c1");
  REQUIRE(made.header("ETag") == "\"7\"");
  REQUIRE(made.has(R"("kind":"Actor")"));
  REQUIRE(backend.calls.back() == "create default");
  REQUIRE(backend.last_caller.uid == 42);
  REQUIRE(backend.last_caller.request_id == "0123456789abcdef");
  const auto other = copy_of(backend);
  other->mutable_metadata()->set_atespace("team");
  backend.the_actor = other;
  REQUIRE(call(backend, "POST", "/v1/actors?atespace=team", "{}").header("Location") ==
          "/v1/actors/c1?atespace=team");
  REQUIRE(backend.calls.back() == "create team");
  backend.error = Error(Errc::AlreadyExists, "c1 exists");
  REQUIRE(call(backend, "POST", "/v1/actors", "{}").problem() == "already-exists");
}

TEST_CASE("actors: get with tag, by name; the encoding follows the version") {
  FakeBackend backend;
  REQUIRE(get(backend, "/v1/actors/c1").header("ETag") == "\"7\"");
  REQUIRE(get(backend, "/v1/actors/none").problem() == "not-found");
  REQUIRE(get(backend, "/v1/actors/c1?atespace=other").status == 404);
  const auto changed = copy_of(backend);
  changed->mutable_metadata()->set_resource_version("8");
  (*changed->mutable_metadata()->mutable_labels())["a"] = "b";
  backend.the_actor = changed;
  REQUIRE(get(backend, "/v1/actors/c1").has(R"({"a":"b"})"));
}

TEST_CASE("actors: list passes every filter on") {
  FakeBackend backend;
  const Answer page = get(backend,
                          "/v1/actors?limit=7&state=RUNNING&state=PAUSED&template=counter"
                          "&label=tier%3Dsmall&label=a%3D&pageToken=ate161e40c292c");
  REQUIRE(page.status == 200);
  REQUIRE_FALSE(page.has(R"("nextPageToken":"")"));
  REQUIRE(backend.actor_query.limit == 7);
  REQUIRE(backend.actor_query.states == std::vector<std::string>{"RUNNING", "PAUSED"});
  REQUIRE(backend.actor_query.template_name == "counter");
  REQUIRE(backend.actor_query.labels ==
          std::vector<std::pair<std::string, std::string>>{{"tier", "small"}, {"a", ""}});
  REQUIRE(backend.actor_query.after == "a");
  REQUIRE(backend.actor_query.atespace == "default");
  REQUIRE(get(backend, "/v1/actors?atespace=*").status == 200);
  REQUIRE(backend.actor_query.atespace.empty());
  for (const char* bad : {"state=running", "label=x", "label==x", "atespace=A"}) {
    CAPTURE(bad);
    REQUIRE(get(backend, std::string("/v1/actors?") + bad).problem() == "malformed");
  }
}

TEST_CASE("verbs: each answers the actor and passes its options on") {
  FakeBackend backend;
  backend.verb_result.finished = true;
  backend.verb_result.actor = backend.the_actor;
  for (const std::string verb : {"resume", "pause", "suspend", "revert"}) {
    CAPTURE(verb);
    const Answer done = call(backend, "POST", "/v1/actors/c1/" + verb, {});
    REQUIRE(done.status == 200);
    REQUIRE(done.header("ETag") == "\"7\"");
    REQUIRE(backend.calls.back() == verb + " c1");
    REQUIRE(backend.verb_options.wait);
  }
  REQUIRE(call(backend, "POST", "/v1/actors/c1/resume", R"({"boot":true})").status == 200);
  REQUIRE(backend.verb_options.boot);
  REQUIRE(
      call(backend, "POST", "/v1/actors/c1/suspend", R"({"scope":"FULL","grace":"2s"})").status ==
      200);
  REQUIRE(backend.verb_options.scope == "FULL");
  REQUIRE(backend.verb_options.grace == std::chrono::milliseconds(2000));
  REQUIRE(call(backend, "POST", "/v1/actors/c1/pause", R"({"scope":"DATA"})").status == 200);
  REQUIRE(backend.verb_options.scope == "DATA");
  REQUIRE(call(backend, "POST", "/v1/actors/c1/revert", R"({"keepVolumes":true})").status == 200);
  REQUIRE(backend.verb_options.keep_volumes);
}

TEST_CASE("verbs: bodies are strict") {
  FakeBackend backend;

  struct Row {
    const char* verb;
    const char* body;
    const char* slug;
  };

  const std::vector<Row> rows{
      {"resume", R"({"memory":"1Gi"})", "unknown-field"},  // case T8
      {"resume", R"({"boot":"yes"})", "invalid-type"},
      {"resume", R"({"boot":tru)", "malformed"},
      {"resume", R"([])", "invalid-type"},
      {"suspend", R"({"scope":"DATA_ON_GOLD"})", "invalid-value"},
      {"pause", R"({"scope":"full"})", "invalid-value"},
      {"pause", R"({"grace":"-1s"})", "invalid-value"},
      {"revert", R"({"keepVolumes":"yes"})", "invalid-type"},
      {"signal", R"({"signal":"SIGNOTHING"})", "invalid-value"},
      {"signal", R"({"signal":0})", "invalid-value"},
      {"signal", R"({"signal":65})", "invalid-value"},
      {"signal", R"({})", "invalid-value"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.verb, row.body);
    const Answer answer = call(backend, "POST", std::string("/v1/actors/c1/") + row.verb, row.body);
    CAPTURE(answer.body);
    CHECK(answer.problem() == row.slug);
  }
  REQUIRE(backend.calls.empty());
}

TEST_CASE("verbs: what still runs is 202 with the operation") {
  FakeBackend backend;
  backend.add_operation("op-1", v1alpha1::Operation::RUNNING, "");
  backend.verb_result.operation = "op-1";
  const Answer late = call(backend, "POST", "/v1/actors/c1/resume", {});
  REQUIRE(late.status == 202);
  REQUIRE(late.header("Location") == "/v1/operations/op-1");
  REQUIRE(late.has(R"("id":"op-1")"));
  const Answer at_once = with_prefer(backend, "resume", "respond-async");
  REQUIRE(at_once.status == 202);
  REQUIRE(at_once.header("Preference-Applied") == "respond-async");
  REQUIRE_FALSE(backend.verb_options.wait);
  REQUIRE(with_prefer(backend, "resume", "wait=x").problem() == "malformed");
}

TEST_CASE("verbs: Prefer: wait waits by itself and answers what came of it") {
  FakeBackend backend;
  backend.verb_result.operation = "op-1";
  const Answer done = with_prefer(backend, "suspend", "wait=3");
  REQUIRE(done.status == 200);
  REQUIRE(done.has(R"("kind":"Actor")"));
  REQUIRE(done.header("Preference-Applied") == "wait=3");
  REQUIRE(backend.calls.back() == "operation op-1 3000");
  backend.add_operation("op-1", v1alpha1::Operation::FAILED,
                        R"({"type":"/v1/problems/disk-full","title":"x","status":507})");
  const Answer failed = with_prefer(backend, "suspend", "wait=3");
  REQUIRE(failed.status == 507);
  REQUIRE(failed.problem() == "disk-full");
  REQUIRE(failed.header("Location") == "/v1/operations/op-1");
  backend.add_operation("op-1", v1alpha1::Operation::DONE, "");
  backend.actor_exists = false;  // it was a delete
  REQUIRE(with_prefer(backend, "suspend", "wait=3").status == 204);
}

TEST_CASE("verbs: conflicts name the operation in the way, no capacity names when to try again") {
  FakeBackend backend;
  backend.error = Error(Errc::OperationInProgress, "busy").with("operation", std::string("op-2"));
  const Answer busy = call(backend, "POST", "/v1/actors/c1/pause", {});
  REQUIRE(busy.status == 409);
  REQUIRE(busy.header("Location") == "/v1/operations/op-2");
  backend.error = Error(Errc::NoFreeWorker, "none").with("retryAfterSeconds", std::int64_t{5});
  const Answer full = call(backend, "POST", "/v1/actors/c1/resume", {});
  REQUIRE(full.status == 503);
  REQUIRE(full.header("Retry-After") == "5");
}

TEST_CASE("actors: delete, by force, and signals") {
  FakeBackend backend;
  backend.verb_result.finished = true;
  REQUIRE(call(backend, "DELETE", "/v1/actors/c1", {}).status == 204);
  REQUIRE(backend.calls.back() == "delete c1");
  for (const char* force : {"?force", "?force=true", "?force=1"}) {
    REQUIRE(call(backend, "DELETE", std::string("/v1/actors/c1") + force, {}).status == 204);
    REQUIRE(backend.calls.back() == "delete-force c1");
  }
  REQUIRE(call(backend, "DELETE", "/v1/actors/c1?force=false", {}).status == 204);
  REQUIRE(backend.calls.back() == "delete c1");
  REQUIRE(call(backend, "DELETE", "/v1/actors/c1?force=maybe", {}).status == 400);
  for (const char* body : {R"({"signal":"SIGTERM"})", R"({"signal":"TERM"})", R"({"signal":15})",
                           R"({"signal":"15"})"}) {
    CAPTURE(body);
    REQUIRE(call(backend, "POST", "/v1/actors/c1/signal", body).status == 200);
    REQUIRE(backend.calls.back() == "signal c1 15");
  }
}

TEST_CASE("proxy: path and query go byte for byte, the atespace is a header that is dropped") {
  FakeBackend backend;
  const std::vector<std::pair<std::string, std::string>> rows{
      {"/v1/actors/c1/proxy/8080", "/"},
      {"/v1/actors/c1/proxy/8080/", "/"},
      {"/v1/actors/c1/proxy/8080?x=1", "/?x=1"},
      {"/v1/actors/c1/proxy/8080/count?x=1&x=2", "/count?x=1&x=2"},
      {"/v1/actors/c1/proxy/8080/a//b/../%2e%2e/%2F%00?q=%zz?&", "/a//b/../%2e%2e/%2F%00?q=%zz?&"},
      {"/v1/actors/c%31/proxy/8080/x/", "/x/"},
  };
  for (const auto& [target, expected] : rows) {
    CAPTURE(target);
    for (const char* method : {"GET", "POST", "BREW"}) {
      const Answer answer = call(backend, method, target, {});
      REQUIRE(answer.status == 200);
      REQUIRE(answer.upstream);
      REQUIRE(answer.upstream->target == expected);
      REQUIRE(answer.dropped == std::vector<std::string>{"ate-atespace"});
    }
  }
  REQUIRE(std::count(backend.calls.begin(), backend.calls.end(), "connect default/c1:8080") == 18);
  REQUIRE(std::count(backend.calls.begin(), backend.calls.end(),
                     "touch 01hzzzzzzzzzzzzzzzzzzzzzzz") == 18);
}

TEST_CASE("tunnel: asked for by an upgrade, the atespace by header or query") {
  const auto ask = [](FakeBackend& backend, const char* method, const char* target,
                      http::Headers headers) {
    http::Request request = make_request(method, target, {});
    request.headers.insert(request.headers.end(), headers.begin(), headers.end());
    return send(backend, std::move(request), {});
  };
  const http::Headers upgrade{{"Connection", "keep-alive, upgrade"}, {"Upgrade", "TCP"}};
  FakeBackend backend;
  Answer answer = ask(backend, "GET", "/v1/actors/c1/tunnel/6379", upgrade);
  CHECK(answer.switched_to == "tcp");
  REQUIRE(answer.upstream);
  CHECK(backend.calls.at(0) == "connect default/c1:6379");
  CHECK(backend.calls.at(1).starts_with("tunnel "));
  backend.calls.clear();
  // It is another actor's there.
  answer = ask(backend, "GET", "/v1/actors/c1/tunnel/6379?atespace=team", upgrade);
  CHECK(answer.problem() == "not-found");
  http::Headers other = upgrade;
  other.emplace_back("Ate-Atespace", "team");
  answer = ask(backend, "GET", "/v1/actors/c1/tunnel/6379", other);
  CHECK(answer.problem() == "not-found");

  // Nothing is woken for what can't be a tunnel.
  answer = ask(backend, "GET", "/v1/actors/c1/tunnel/6379", {});
  CHECK(answer.status == 426);
  CHECK(answer.problem() == "upgrade-required");
  CHECK(answer.header("Upgrade") == "tcp");
  CHECK(ask(backend, "HEAD", "/v1/actors/c1/tunnel/6379", upgrade).status == 426);
  CHECK(ask(backend, "GET", "/v1/actors/c1/tunnel/6379",
            {{"Connection", "Upgrade"}, {"Upgrade", "h2c"}})
            .status == 426);
  CHECK(ask(backend, "POST", "/v1/actors/c1/tunnel/6379", upgrade).status == 405);
  CHECK(ask(backend, "GET", "/v1/actors/c1/tunnel/0", upgrade).problem() == "malformed");
  CHECK(ask(backend, "GET", "/v1/actors/c1/tunnel/x", upgrade).problem() == "malformed");
  CHECK(ask(backend, "GET", "/v1/actors/none/tunnel/80", upgrade).problem() == "not-found");
  CHECK(ask(backend, "GET", "/v1/actors/c1/tunnel/80?x=1", upgrade).problem() == "unknown-field");
  CHECK(backend.calls.empty());
}

TEST_CASE("proxy: refused before anything is woken") {
  FakeBackend backend;
  for (const char* port : {"0", "65536", "-1", "x", "80x", "%2e%2e"}) {
    CAPTURE(port);
    REQUIRE(get(backend, std::string("/v1/actors/c1/proxy/") + port + "/").problem() ==
            "malformed");
  }
  REQUIRE(get(backend, "/v1/actors/none/proxy/80/").problem() == "not-found");
  http::Request other = make_request("GET", "/v1/actors/c1/proxy/80/", {});
  other.headers.emplace_back("ate-atespace", "other");
  REQUIRE(send(backend, std::move(other), {}).problem() == "not-found");
  http::Request bad = make_request("GET", "/v1/actors/c1/proxy/80/", {});
  bad.headers.emplace_back("Ate-Atespace", "Not A Label");
  REQUIRE(send(backend, std::move(bad), {}).problem() == "malformed");
  const Answer full =
      send(backend, make_request("GET", "/v1/actors/c1/proxy/80/", {}), [](FakeExchange& exchange) {
        exchange.stream_error = Error(Errc::TooManyConnections, "full");
      });
  REQUIRE(full.status == 503);
  REQUIRE(backend.calls.empty());
}

TEST_CASE("proxy: what the engine and the actor refuse is told") {
  FakeBackend backend;
  backend.error = Error(Errc::StateConflict, "EXITED: revert or {boot: true}");
  REQUIRE(get(backend, "/v1/actors/c1/proxy/80/").status == 409);
  backend.error =
      Error(Errc::TooManyRequests, "64 wait").with("retryAfterSeconds", std::int64_t{1});
  REQUIRE(get(backend, "/v1/actors/c1/proxy/80/").status == 429);
  backend.error.reset();
  const Answer dead =
      send(backend, make_request("GET", "/v1/actors/c1/proxy/80/", {}), [](FakeExchange& exchange) {
        exchange.forward_error = Error(Errc::UpstreamFailed, "refused");
      });
  REQUIRE(dead.status == 502);
}

TEST_CASE("logs: parameters are checked before anything is opened") {
  FakeBackend backend;
  for (const char* bad : {"tail=-1", "tail=x", "follow=maybe", "stream=stdin", "container=../x"}) {
    CAPTURE(bad);
    REQUIRE(get(backend, std::string("/v1/actors/c1/logs?") + bad).problem() == "malformed");
  }
  REQUIRE(get(backend, "/v1/actors/c1/logs?since=1h").problem() == "not-yet-supported");
  REQUIRE(get(backend, "/v1/actors/c1/logs?source=app").problem() == "not-yet-supported");
  REQUIRE(get(backend, "/v1/actors/none/logs").problem() == "not-found");
}

TEST_CASE("logs: tail, streams, and a follower that ends with the actor") {
  const TempDir directory;
  FakeBackend backend;
  backend.logs = directory.path();
  write_file(directory.file("app.stdout"), "one\ntwo\nthree\n");
  write_file(directory.file("app.stderr"), "oops\n");
  const Answer all = get(backend, "/v1/actors/c1/logs?stream=stdout");
  REQUIRE(all.status == 200);
  REQUIRE(all.content_type == "text/plain; charset=utf-8");
  REQUIRE(all.streamed == "one\ntwo\nthree\n");
  REQUIRE(all.finished);
  REQUIRE(get(backend, "/v1/actors/c1/logs?stream=stdout&tail=1").streamed == "three\n");
  REQUIRE(get(backend, "/v1/actors/c1/logs?stream=stderr").streamed == "oops\n");
  const Answer head = call(backend, "HEAD", "/v1/actors/c1/logs", {});
  REQUIRE(head.status == 200);
  REQUIRE(head.streamed.empty());

  const Answer followed =
      send(backend, make_request("GET", "/v1/actors/c1/logs?stream=stdout&follow=true", {}),
           [&](FakeExchange& exchange) {
             exchange.on_write = [&] {
               if (backend.actor_exists) {
                 backend.actor_exists = false;  // deleted while somebody follows
                 write_file(directory.file("app.stdout"), "one\ntwo\nthree\nlast\n");
               }
             };
           });
  REQUIRE(followed.streamed == "one\ntwo\nthree\nlast\n");
  REQUIRE(followed.finished);
}

TEST_CASE("logs: an actor that never ran has none; a follower that leaves is let go") {
  const TempDir directory;
  FakeBackend backend;
  backend.logs = directory.file("missing");
  const Answer none = get(backend, "/v1/actors/c1/logs");
  REQUIRE(none.status == 200);
  REQUIRE(none.streamed.empty());
  const Answer gone = send(backend, make_request("GET", "/v1/actors/c1/logs?follow", {}),
                           [](FakeExchange& exchange) { exchange.gone.set(); });
  REQUIRE_FALSE(gone.finished);
}
