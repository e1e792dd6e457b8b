#include "ate/v1alpha1/kept.pb.h"
#include "fixture.hpp"

using namespace ate;
using namespace ate::test;

namespace {

http::Request keyed(std::string target, std::string body, const std::string& key) {
  http::Request request = make_request("POST", std::move(target), std::move(body));
  request.headers.emplace_back("Idempotency-Key", key);
  return request;
}

Answer post(FakeBackend& backend, std::string target, std::string body, const std::string& key) {
  return send(backend, keyed(std::move(target), std::move(body), key), {});
}

std::size_t count(const FakeBackend& backend, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::count_if(
      backend.calls, [&](const std::string& call) { return call.starts_with(name); }));
}

/// What a daemon that died in the middle leaves.
void leave_reservation(FakeBackend& backend, const std::string& target) {
  v1alpha1::KeptAnswer record;
  record.set_fingerprint("POST\n" + target + "\n\n{}");
  record.set_request_id("dead");
  backend.kept["0:k"] = {"0:k", 1, record.SerializeAsString()};
}

}  // namespace

TEST_CASE("idempotency: the same request gets the same answer and acts once") {
  FakeBackend backend;
  const Answer first = post(backend, "/v1/actors", "{}", "\"k\"");
  REQUIRE(first.status == 201);
  REQUIRE(first.header("Idempotency-Replayed").empty());
  const Answer again = post(backend, "/v1/actors", "{}", "k");  // quotes or none: the same key
  REQUIRE(again.status == 201);
  REQUIRE(again.body == first.body);
  REQUIRE(again.header("Location") == first.header("Location"));
  REQUIRE(again.header("ETag") == first.header("ETag"));
  REQUIRE(again.header("Idempotency-Replayed") == "true");
  REQUIRE(count(backend, "create") == 1);
}

TEST_CASE("idempotency: another request under the same key is refused, another user's is not") {
  FakeBackend backend;
  REQUIRE(post(backend, "/v1/actors", "{}", "k").status == 201);
  const Answer other = post(backend, "/v1/actors", R"({"a":1})", "k");
  REQUIRE(other.status == 422);
  REQUIRE(other.problem() == "idempotency-key-reused");
  REQUIRE(other.has(R"("field":"Idempotency-Key")"));
  REQUIRE(post(backend, "/v1/actors?atespace=team", "{}", "k").status == 422);
  http::Request tagged = keyed("/v1/actors", "{}", "k");
  tagged.headers.emplace_back("If-Match", "\"7\"");
  REQUIRE(send(backend, std::move(tagged), {}).status == 422);
  http::Request foreign = keyed("/v1/actors", R"({"a":1})", "k");
  foreign.peer.uid = 7;
  REQUIRE(send(backend, std::move(foreign), {}).status == 201);
  REQUIRE(count(backend, "create") == 2);
}

TEST_CASE("idempotency: keys have a form") {
  FakeBackend backend;
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("\"a"), std::string("a,b"),
        std::string("k\x7f"), std::string(256, 'k'), std::string("\"\"")}) {
    CAPTURE(bad);
    const Answer refused = post(backend, "/v1/actors", "{}", bad);
    REQUIRE(refused.problem() == "malformed");
    REQUIRE(refused.has("Idempotency-Key"));
  }
  REQUIRE(post(backend, "/v1/actors", "{}", std::string(255, 'k')).status == 201);
  http::Request twice = keyed("/v1/actors", "{}", "a");
  twice.headers.emplace_back("idempotency-key", "a");
  REQUIRE(send(backend, std::move(twice), {}).status == 400);
  REQUIRE(count(backend, "create") == 1);
}

TEST_CASE("idempotency: what had no effect is tried anew; what failed on the way is not") {
  FakeBackend backend;
  backend.error = Error(Errc::NoFreeWorker, "none").with("retryAfterSeconds", std::int64_t{5});
  REQUIRE(post(backend, "/v1/actors/c1/resume", {}, "k").status == 503);
  REQUIRE(backend.kept.empty());
  backend.error = Error(Errc::OperationInProgress, "busy").with("operation", std::string("op-9"));
  REQUIRE(post(backend, "/v1/actors/c1/resume", {}, "k").status == 409);
  REQUIRE(backend.kept.empty());
  backend.error =
      Error(Errc::NotReady, "gate").with("instance", std::string("/v1/operations/op-1"));
  const Answer failed = post(backend, "/v1/actors/c1/resume", {}, "k");
  REQUIRE(failed.status == 504);
  backend.error.reset();
  const Answer again = post(backend, "/v1/actors/c1/resume", {}, "k");
  REQUIRE(again.status == 504);
  REQUIRE(again.body == failed.body);
  REQUIRE(again.content_type == "application/problem+json");
  REQUIRE(count(backend, "resume") == 3);
}

TEST_CASE("idempotency: a reservation that can't be stored stops the request, an answer does not") {
  FakeBackend backend;
  backend.keep_failures = 1;
  REQUIRE(post(backend, "/v1/actors", "{}", "k").status == 507);
  REQUIRE(count(backend, "create") == 0);
  backend.keep_failures = 2;
  REQUIRE(post(backend, "/v1/actors", "{}", "k").status == 201);
  REQUIRE(count(backend, "create") == 1);
}

TEST_CASE("idempotency: a reservation without an answer is settled by its operation") {
  FakeBackend backend;
  backend.add_operation("op-7", v1alpha1::Operation::DONE, "");
  v1alpha1::Operation& operation = *backend.the_operations["op-7"];
  operation.set_request_id("dead");

  SECTION("a create") {
    operation.set_verb("create");
    leave_reservation(backend, "/v1/actors");
    const Answer again = post(backend, "/v1/actors", "{}", "k");
    REQUIRE(again.status == 201);
    REQUIRE(again.header("Location") == "/v1/actors/c1");
    REQUIRE(again.header("Idempotency-Replayed") == "true");
    REQUIRE(count(backend, "create") == 0);
    backend.the_operations.clear();  // it was kept
    REQUIRE(post(backend, "/v1/actors", "{}", "k").status == 201);
    REQUIRE(count(backend, "create") == 0);
  }
  SECTION("a verb that failed") {
    operation.set_state(v1alpha1::Operation::FAILED);
    operation.set_error_json(R"({"type":"/v1/problems/unavailable","status":503})");
    leave_reservation(backend, "/v1/actors/c1/resume");
    const Answer again = post(backend, "/v1/actors/c1/resume", "{}", "k");
    REQUIRE(again.status == 503);
    REQUIRE(count(backend, "resume") == 0);
  }
  SECTION("one that still runs is not frozen") {
    operation.set_state(v1alpha1::Operation::RUNNING);
    leave_reservation(backend, "/v1/actors/c1/resume");
    REQUIRE(post(backend, "/v1/actors/c1/resume", "{}", "k").status == 202);
    operation.set_state(v1alpha1::Operation::DONE);
    REQUIRE(post(backend, "/v1/actors/c1/resume", "{}", "k").status == 200);
    REQUIRE(count(backend, "resume") == 0);
  }
  SECTION("without one nothing had happened") {
    backend.the_operations.clear();
    leave_reservation(backend, "/v1/actors");
    REQUIRE(post(backend, "/v1/actors", "{}", "k").status == 201);
    REQUIRE(count(backend, "create") == 1);
  }
  SECTION("except where nothing would tell") {
    backend.the_operations.clear();
    leave_reservation(backend, "/v1/actors/c1/signal");
    const Answer again = post(backend, "/v1/actors/c1/signal", "{}", "k");
    REQUIRE(again.problem() == "idempotency-key-in-use");
    REQUIRE(count(backend, "signal") == 0);
  }
}

TEST_CASE("idempotency: those who come while the first is at work get its answer") {
  FakeBackend backend;
  const SystemClock clock;
  const Log log(LogLevel::Error);
  std::vector<int> statuses;
  int replayed = 0;
  run_coro([&](async::Context& context) -> async::Task<void> {
    async::Event go(context);
    backend.before_create = [&go]() -> async::Task<void> { co_await go.wait(); };
    api::Api api(context, backend, clock, log, {});
    async::TaskScope scope(context, [](const std::string&, const std::string&) {});
    const auto one = [&](std::string body) -> async::Task<void> {
      FakeExchange exchange(context, keyed("/v1/actors", std::move(body), "k"));
      const Status handled = co_await api.handle(exchange);
      if (!handled) {
        exchange.reply = api::render_error(handled.error(), &exchange.request());
      }
      statuses.push_back(exchange.reply->status);
      replayed += http::find_header(exchange.reply->headers, "Idempotency-Replayed") ? 1 : 0;
    };
    for (int i = 0; i < 5; ++i) {
      scope.spawn("one", one("{}"));
    }
    while (backend.calls.empty()) {
      co_await async::sleep_for(std::chrono::milliseconds(1));
    }
    co_await one(R"({"b":2})");  // another one does not wait to be told
    go.set();
    const bool ended = co_await scope.drain(std::chrono::seconds(5));
    static_cast<void>(ended);
  });
  REQUIRE(statuses == std::vector<int>{422, 201, 201, 201, 201, 201});
  REQUIRE(replayed == 4);
  REQUIRE(count(backend, "create") == 1);
}
