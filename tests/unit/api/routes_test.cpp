#include "fixture.hpp"

using namespace ate;
using namespace ate::test;

TEST_CASE("router: unknown paths, versions and methods are told apart") {
  FakeBackend backend;

  struct Row {
    const char* method;
    const char* target;
    int status;
    const char* slug;
  };

  const std::vector<Row> rows{
      {"GET", "/", 404, "no-such-route"},
      {"GET", "/v1", 404, "no-such-route"},
      {"GET", "/v1/nothing", 404, "no-such-route"},
      {"GET", "/v2/actors", 404, "no-such-route"},
      {"GET", "/v1/actors/c1/nothing", 404, "no-such-route"},
      {"POST", "/healthz", 405, "method-not-allowed"},
      {"PUT", "/v1/actors", 405, "method-not-allowed"},
      {"TRACE", "/v1/actors", 405, "method-not-allowed"},
      {"GET", "/v1/actors/c1/resume", 405, "method-not-allowed"},
      {"GET", "/v1//actors", 400, "malformed"},
      {"GET", "/v1/actors/%2e%2e", 400, "malformed"},
      {"GET", "/v1/actors/..", 400, "malformed"},
      {"GET", "/v1/actors/a%2fb", 400, "malformed"},
      {"GET", "/v1/actors/a%00", 400, "malformed"},
      {"GET", "/v1/actors?nonsense=1", 400, "unknown-field"},
      {"GET", "/v1/actors?limit=1&limit=2", 400, "malformed"},
      {"GET", "/healthz?x", 400, "unknown-field"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.method, row.target);
    const Answer answer = call(backend, row.method, row.target, {});
    CHECK(answer.status == row.status);
    CHECK(answer.problem() == row.slug);
  }
  REQUIRE(get(backend, "/v2/actors").has(R"("supportedVersions":["v1"])"));
  REQUIRE(call(backend, "PUT", "/v1/actors", {}).header("Allow") == "GET, POST, HEAD");
  REQUIRE(call(backend, "GET", "/v1/actors/c1/resume", {}).header("Allow") == "POST");
  REQUIRE(backend.calls.empty());
}

TEST_CASE(
    "router: a trailing slash, percent escapes of plain letters and HEAD name the same thing") {
  FakeBackend backend;
  REQUIRE(get(backend, "/v1/actors/c1/").status == 200);
  REQUIRE(get(backend, "/v1/%61ctors/c%31").status == 200);
  REQUIRE(call(backend, "HEAD", "/v1/actors/c1", {}).status == 200);
}

TEST_CASE("bodies: content types, unexpected and broken ones") {
  FakeBackend backend;
  const auto with_type = [&](const char* method, const char* target, const char* type) {
    http::Request request = make_request(method, target, R"({"metadata":{"name":"c1"}})");
    request.headers.back().second = type;
    return send(backend, std::move(request), {});
  };
  for (const char* good : {"application/json", "application/json; charset=utf-8",
                           "Application/JSON", "application/x-www-form-urlencoded"}) {
    CAPTURE(good);
    REQUIRE(with_type("POST", "/v1/actors", good).status == 201);
  }
  REQUIRE(with_type("PATCH", "/v1/actors/c1", "application/merge-patch+json").status == 200);
  for (const char* bad : {"application/merge-patch+json", "text/plain", "application/yaml", "x"}) {
    CAPTURE(bad);
    const Answer answer = with_type("POST", "/v1/actors", bad);
    REQUIRE(answer.status == 415);
    REQUIRE(answer.problem() == "unsupported-media-type");
  }
  REQUIRE(call(backend, "GET", "/v1/actors/c1", "{}").status == 400);
  REQUIRE(call(backend, "DELETE", "/v1/actors/c1", "{}").status == 400);
  const Answer large = send(
      backend, make_request("POST", "/v1/actors", "{}"),
      [](FakeExchange& exchange) { exchange.body_error = Error(Errc::BodyTooLarge, "too large"); });
  REQUIRE(large.status == 413);
}

TEST_CASE("node: health, readiness, version, the interface, problems") {
  FakeBackend backend;
  REQUIRE(get(backend, "/healthz").body == R"({"ok":true})");
  Answer answer = get(backend, "/readyz");
  REQUIRE(answer.status == 200);
  REQUIRE(answer.body == R"({"ready":true,"enforcement":"off","checks":[{"name":"store","ok":true,)"
                         R"("detail":"open"}]})");
  backend.the_checks.push_back({"reconcile", false, "running"});
  answer = get(backend, "/readyz");
  REQUIRE(answer.status == 503);
  REQUIRE(answer.has(R"({"name":"reconcile","ok":false,"detail":"running"})"));
  REQUIRE(get(backend, "/version").has(R"("version":"1.2.3")"));
  REQUIRE(get(backend, "/v1/openapi.json").has(R"("openapi":"3.1.0")"));
  REQUIRE(get(backend, "/v1/problems").has(R"("type":"/v1/problems/disk-full")"));
  REQUIRE(get(backend, "/v1/problems/disk-full").has("diskReserve"));
  REQUIRE(get(backend, "/v1/problems/nonsense").problem() == "not-found");
  http::Request browser = make_request("GET", "/v1/problems/disk-full", {});
  browser.headers.emplace_back("Accept", "text/html,*/*");
  REQUIRE(send(backend, std::move(browser), {}).has("<!doctype html>"));
}

TEST_CASE("capacity: as JSON, for a terminal, with an explanation") {
  FakeBackend backend;
  v1alpha1::Capacity& capacity = backend.the_capacity;
  capacity.set_enforcement("off");
  capacity.set_host_memory_bytes(64LL << 30);
  capacity.set_host_cpus(16);
  v1alpha1::BudgetTerm& term = *capacity.add_terms();
  term.set_resource("memory");
  term.set_source("/c/memory.max");
  capacity.add_pools()->set_pool("small");
  capacity.mutable_pools(0)->add_problems("too small");
  const Answer json = get(backend, "/v1/capacity");
  REQUIRE(json.status == 200);
  REQUIRE(json.has(R"("kind":"Capacity")"));
  REQUIRE(json.has(R"({"resource":"memory","value":null,"source":"/c/memory.max")"));
  http::Request terminal = make_request("GET", "/v1/capacity?explain=counter", {});
  terminal.headers.emplace_back("Accept", "text/plain");
  const Answer text = send(backend, std::move(terminal), {});
  REQUIRE(text.status == 200);
  REQUIRE(text.has("host 64Gi, reserve 0, 16 CPUs; enforcement OFF"));
  REQUIRE(text.has("max  /c/memory.max\n"));
  REQUIRE(text.has("pool small (unspecified): 0 workers, 0 assigned, 0 free\n  ! too small\n"));
  REQUIRE(text.has("template counter generation"));
  REQUIRE(get(backend, "/v1/capacity?explain=nonsense").problem() == "not-found");
  REQUIRE(get(backend, "/v1/capacity?x=1").status == 400);
}

TEST_CASE("routes of later versions say so, with and without a body") {
  FakeBackend backend;
  for (const char* target : {"/metrics", "/v1/actors/c1/stats"}) {
    CAPTURE(target);
    REQUIRE(get(backend, target).problem() == "not-yet-supported");
  }
}

TEST_CASE("objects: read, list, write, delete with their conditions") {
  FakeBackend backend;
  for (const std::string path :
       {"/v1/templates/counter", "/v1/pools/small", "/v1/sandbox-configs/gvisor"}) {
    CAPTURE(path);
    const Answer found = get(backend, path);
    REQUIRE(found.status == 200);
    const std::string tag = found.header("ETag");
    REQUIRE(tag.size() == 3);
    http::Request again = make_request("GET", path, {});
    again.headers.emplace_back("If-None-Match", tag);
    const Answer unchanged = send(backend, std::move(again), {});
    REQUIRE(unchanged.status == 304);
    REQUIRE(unchanged.body.empty());

    backend.put.created = false;
    REQUIRE(call(backend, "PUT", path, "{}").status == 200);
    backend.put.created = true;
    REQUIRE(call(backend, "PUT", path, "{}").status == 201);
    http::Request only_new = make_request("PUT", path, "{}");
    only_new.headers.emplace_back("If-None-Match", "*");
    REQUIRE(send(backend, std::move(only_new), {}).problem() == "precondition-failed");
    http::Request matched = make_request("PUT", path, "{}");
    matched.headers.emplace_back("If-Match", "\"9\"");
    REQUIRE(send(backend, std::move(matched), {}).status == 201);
    REQUIRE(backend.calls.back().ends_with(" 9"));
    REQUIRE(call(backend, "DELETE", path, {}).status == 204);
    const std::string list = path.substr(0, path.rfind('/'));
    REQUIRE(get(backend, list).has(R"("nextPageToken":"")"));
    REQUIRE(get(backend, list + "/other").problem() == "not-found");
  }
  REQUIRE(get(backend, "/v1/templates/counter?atespace=other").status == 404);
  REQUIRE(get(backend, "/v1/templates/counter?atespace=Bad").status == 400);
  REQUIRE(get(backend, "/v1/pools/small?atespace=default").status == 400);
  REQUIRE(call(backend, "PUT", "/v1/pools/Bad_Name", "{}").problem() == "invalid-value");
  backend.error = Error(Errc::FileOwned, "owned").with("file", std::string("/etc/ate/x.yaml"));
  REQUIRE(call(backend, "PUT", "/v1/pools/small", "{}").has(R"("file":"/etc/ate/x.yaml")"));
}

TEST_CASE("if-match: one strong tag or *, nothing else") {
  FakeBackend backend;
  const auto status = [&](const char* value) {
    http::Request request = make_request("PATCH", "/v1/actors/c1", "{}");
    request.headers.emplace_back("If-Match", value);
    return send(backend, std::move(request), {}).status;
  };
  REQUIRE(status("\"7\"") == 200);
  REQUIRE(backend.calls.back() == "patch c1 7");
  REQUIRE(status("*") == 200);
  REQUIRE(backend.calls.back() == "patch c1 -");
  for (const char* bad : {"7", "W/\"7\"", "\"7\", \"8\"", "", "\"7"}) {
    CAPTURE(bad);
    REQUIRE(status(bad) == 400);
  }
}

TEST_CASE("lists: pages by token, bounds of the limit") {
  FakeBackend backend;
  const Answer first = get(backend, "/v1/workers?limit=1");
  REQUIRE(first.has("small-0"));
  REQUIRE_FALSE(first.has("small-1"));
  const std::size_t at = first.body.find(R"("nextPageToken":")") + 17;
  const std::string token = first.body.substr(at, first.body.find('"', at) - at);
  REQUIRE_FALSE(token.empty());
  const Answer second = get(backend, "/v1/workers?limit=1&pageToken=" + token);
  REQUIRE(second.has("small-1"));
  REQUIRE(second.has(R"("nextPageToken":"")"));
  for (const char* bad : {"limit=0", "limit=1001", "limit=x", "limit=", "pageToken=x"}) {
    CAPTURE(bad);
    REQUIRE(get(backend, std::string("/v1/workers?") + bad).problem() == "malformed");
  }
  REQUIRE(get(backend, "/v1/workers?class=gvisor&pool=small").has("small-1"));
  REQUIRE_FALSE(get(backend, "/v1/workers?class=microvm").has("small-1"));
  REQUIRE_FALSE(get(backend, "/v1/workers?pool=other").has("small-1"));
  REQUIRE(get(backend, "/v1/workers?class=other").status == 400);
  REQUIRE(get(backend, "/v1/workers/small-0").status == 200);
  REQUIRE(get(backend, "/v1/workers/none").status == 404);
  const Answer files = get(backend, "/v1/files");
  REQUIRE(files.has(R"("path":"/etc/ate/b.yaml","digest":"e","ok":false)"));
  REQUIRE(files.has(R"("line":3,"column":5)"));
}

TEST_CASE("snapshots: list, read, verify, delete") {
  FakeBackend backend;
  REQUIRE(get(backend, "/v1/snapshots").has(R"("id":"s1")"));
  REQUIRE(get(backend, "/v1/actors/c1/snapshots").has(R"("id":"s1")"));
  REQUIRE(get(backend, "/v1/actors/other/snapshots").status == 404);
  REQUIRE(get(backend, "/v1/snapshots/s1").status == 200);
  REQUIRE(get(backend, "/v1/snapshots/s2").status == 404);
  REQUIRE(call(backend, "POST", "/v1/snapshots/s1/verify", {}).status == 200);
  REQUIRE(call(backend, "DELETE", "/v1/snapshots/s1", {}).status == 204);
  const Answer made = call(backend, "POST", "/v1/actors/c1/snapshots",
                           R"({"metadata":{"labels":{"a":"b"},"tags":["v1"]}})");
  REQUIRE(made.status == 201);
  REQUIRE(made.has(R"("id":"s1")"));
  for (const char* body : {R"({"metadata":{"tags":["v1","v1"]}})", R"({"metadata":{"tags":[""]}})",
                           R"({"metadata":{"labels":{"a b":"c"}}})"}) {
    CAPTURE(body);
    REQUIRE(call(backend, "POST", "/v1/actors/c1/snapshots", body).status == 422);
  }
  // case T20
  backend.error = Error(Errc::InUse, "named by c1").with("usedBy", std::vector<std::string>{"c1"});
  const Answer used = call(backend, "DELETE", "/v1/snapshots/s1", {});
  REQUIRE(used.status == 409);
  REQUIRE(used.has(R"("usedBy":["c1"])"));
  // case T32
  backend.error = Error(Errc::SnapshotCorrupt, "memory: checksum");
  REQUIRE(call(backend, "POST", "/v1/snapshots/s1/verify", {}).problem() == "snapshot-corrupt");
}

TEST_CASE("validate: all problems of all documents with their place") {
  FakeBackend backend;
  const std::string good =
      "apiVersion: ate.dev/v1alpha1\nkind: WorkerPool\nmetadata: {name: p}\n"
      "spec: {sandboxClass: gvisor, replicas: 1, resources: {limits: "
      "{cpu: 1, memory: 1Gi}}}\n";
  const auto validate = [&](std::string text) {
    http::Request request = make_request("POST", "/v1/validate", std::move(text));
    request.headers.back().second = "application/yaml";
    return send(backend, std::move(request), {});
  };
  const Answer valid = validate(good + "---\n" + good);
  CAPTURE(valid.body);
  REQUIRE(valid.status == 200);
  REQUIRE(valid.has(R"({"kind":"WorkerPool","name":"p","line":1})"));
  const Answer unknown = validate(good +
                                  "---\nkind: WorkerPool\napiVersion: ate.dev/v1alpha1\n"
                                  "metadata: {name: q}\nspecs: {}\n");
  REQUIRE(unknown.status == 400);
  REQUIRE(unknown.problem() == "unknown-field");
  REQUIRE(unknown.has(R"("line":9)"));
  REQUIRE(
      validate("apiVersion: ate.dev/v1alpha1\nkind: WorkerPool\nmetadata: {name: P}\n").status ==
      422);
  REQUIRE(call(backend, "POST", "/v1/validate", {}).status == 400);
}

TEST_CASE("routes: storage tells its parts, collecting takes its option") {
  FakeBackend backend;
  const Answer told = get(backend, "/v1/storage");
  REQUIRE(told.status == 200);
  REQUIRE(told.has(R"({"name":"images","count":2,"logicalBytes":300,"allocatedBytes":400})"));
  REQUIRE(told.has(R"("overBudget":true)"));
  REQUIRE(told.has(R"("collectable":[{"kind":"image","id":"sha256:ab","bytes":100)"));
  REQUIRE(call(backend, "POST", "/v1/storage/collect", R"({"dryRun":true})").status == 200);
  REQUIRE(backend.calls.back() == "collect dry");
  REQUIRE(call(backend, "POST", "/v1/storage/collect", {}).has(R"("dryRun":false)"));
  REQUIRE(backend.calls.back() == "collect");
  REQUIRE(call(backend, "POST", "/v1/storage/collect", R"({"dryrun":true})").status == 400);
}

TEST_CASE("routes: snapshots are found by tag and named by patch") {
  FakeBackend backend;
  auto tagged = std::make_shared<v1alpha1::Snapshot>(*backend.the_snapshot);
  tagged->mutable_metadata()->add_tags("a");
  tagged->mutable_metadata()->add_tags("b");
  backend.the_snapshot = tagged;
  REQUIRE(get(backend, "/v1/snapshots?tag=a&tag=b").has(R"("id":"s1")"));
  REQUIRE(get(backend, "/v1/snapshots?tag=a&tag=c").has(R"("items":[])"));
  REQUIRE(call(backend, "PATCH", "/v1/snapshots/s1", R"({"metadata":{"tags":[]}})").status == 200);
  REQUIRE(backend.calls.back() == "patch-snapshot s1");
  backend.error = Error(Errc::StateConflict, "it is its actor's");
  REQUIRE(call(backend, "PATCH", "/v1/snapshots/s1", "{}").status == 409);
}
