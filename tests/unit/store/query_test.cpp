#include "ate/util/ids.hpp"
#include "fixture.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;
using store::Batch;
using store::Store;

namespace {

using Operation = v1alpha1::Operation;

std::string id_of(int number) {
  char text[16];
  static_cast<void>(std::snprintf(text, sizeof text, "op-%05d", number));
  return text;
}

/// 20 operations and events of two actors, alternating; every fifth operation still runs.
Batch history() {
  Batch batch;
  for (int i = 0; i < 20; ++i) {
    const std::string uid = i % 2 == 0 ? "even" : "odd";
    batch.put_operations.push_back(
        operation(id_of(i), uid, i % 5 == 0 ? Operation::RUNNING : Operation::DONE));
    batch.events.push_back(event("actor.state", uid));
  }
  return batch;
}

std::vector<std::string> ids(const std::vector<std::shared_ptr<Operation>>& operations) {
  std::vector<std::string> found;
  for (const auto& one : operations) {
    found.push_back(one->id());
  }
  return found;
}

std::vector<std::string> list(Result<std::vector<std::shared_ptr<Operation>>> result) {
  return ids(result.value());
}

}  // namespace

TEST_CASE("store: operations page from the newest, filtered") {
  const TempDir dir;
  std::vector<std::vector<std::string>> pages;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    const Status done = co_await store.commit(history());
    static_cast<void>(done);
    for (const auto& [after, actor_uid, state] :
         {std::tuple{"", "", ""}, std::tuple{"op-00018", "", ""}, std::tuple{"", "odd", ""},
          std::tuple{"", "", "RUNNING"}, std::tuple{"op-00010", "even", "RUNNING"}}) {
      store::OperationQuery query;
      query.after = after;
      query.limit = 3;
      if (*actor_uid != '\0') {
        query.actor_uid = actor_uid;
      }
      if (*state != '\0') {
        query.state = state;
      }
      auto page = co_await store.operations(query);
      pages.push_back(list(std::move(page)));
    }
  });
  using Ids = std::vector<std::string>;
  REQUIRE(pages.size() == 5);
  CHECK(pages[0] == Ids{"op-00019", "op-00018", "op-00017"});
  CHECK(pages[1] == Ids{"op-00017", "op-00016", "op-00015"});
  CHECK(pages[2] == Ids{"op-00019", "op-00017", "op-00015"});
  CHECK(pages[3] == Ids{"op-00015", "op-00010", "op-00005"});
  CHECK(pages[4] == Ids{"op-00000"});
}

TEST_CASE("store: one operation by id, NotFound for others") {
  const TempDir dir;
  std::string verb;
  Errc missing = Errc::Internal;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    const Status done = co_await store.commit(history());
    static_cast<void>(done);
    auto found = co_await store.operation("op-00003");
    verb = (*found)->verb();
    auto none = co_await store.operation("op-99999");
    missing = none.error().code();
  });
  CHECK(verb == "resume");
  CHECK(missing == Errc::NotFound);
}

TEST_CASE("store: events page from the oldest and carry their id") {
  const TempDir dir;
  std::vector<std::int64_t> all;
  std::vector<std::int64_t> odd;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    const Status done = co_await store.commit(history());
    static_cast<void>(done);
    store::EventQuery query;
    query.since = 5;
    query.limit = 3;
    auto page = co_await store.events(query);
    for (const auto& one : *page) {
      all.push_back(one->id());
    }
    query.actor_uid = "odd";
    auto filtered = co_await store.events(query);
    for (const auto& one : *filtered) {
      odd.push_back(one->id());
    }
  });
  CHECK(all == std::vector<std::int64_t>{6, 7, 8});
  CHECK(odd == std::vector<std::int64_t>{6, 8, 10});
}

TEST_CASE("store: trim keeps the newest, and every operation that runs") {
  const TempDir dir;
  std::vector<std::string> kept;
  std::int64_t first = 0;
  std::int64_t first_of_none = 0;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    auto empty = co_await store.first_event_id();
    first_of_none = *empty;
    const Status done = co_await store.commit(history());
    static_cast<void>(done);
    const Status trimmed = co_await store.trim({.operations = 2, .events = 4});
    static_cast<void>(trimmed);
    auto page = co_await store.operations(store::OperationQuery{});
    kept = list(std::move(page));
    auto id = co_await store.first_event_id();
    first = *id;
  });
  CHECK(kept == std::vector<std::string>{"op-00019", "op-00018", "op-00015", "op-00010", "op-00005",
                                         "op-00000"});
  CHECK(first == 17);
  CHECK(first_of_none == 1);
}

TEST_CASE("store: trim of more than one transaction's worth; ids go on after all are gone") {
  const TempDir dir;
  std::int64_t first = 0;
  std::int64_t next = 0;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    Batch batch;
    for (int i = 0; i < 1700; ++i) {
      batch.events.push_back(event("actor.state", "u"));
    }
    const Status done = co_await store.commit(batch);
    static_cast<void>(done);
    const Status trimmed = co_await store.trim({.operations = 0, .events = 0});
    static_cast<void>(trimmed);
    auto id = co_await store.first_event_id();
    first = *id;
    Batch more;
    more.events = {event("actor.state", "u")};
    const Status again = co_await store.commit(more);
    static_cast<void>(again);
    next = more.events[0]->id();
  });
  CHECK(first == 1701);
  CHECK(next == 1701);
}

TEST_CASE("store: trim by age takes what is older, never what runs") {
  const TempDir dir;
  const WallTime now{std::chrono::hours(500'000)};
  std::vector<std::string> kept;
  std::int64_t first = 0;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    Batch batch;
    for (int hours : {9, 7, 5, 3, 1}) {
      const WallTime then = now - std::chrono::hours(hours);
      const auto state = hours == 9 ? Operation::RUNNING : Operation::DONE;
      batch.put_operations.push_back(operation("op-" + make_ulid(then), "u", state));
      auto past = event("actor.state", "u");
      past->set_time(format_rfc3339(then));
      batch.events.push_back(std::move(past));
    }
    const Status done = co_await store.commit(std::move(batch));
    static_cast<void>(done);
    store::Retention keep;
    keep.operations_since_ms = (now - std::chrono::hours(4)).time_since_epoch().count();
    keep.events_since_ms = (now - std::chrono::hours(6)).time_since_epoch().count();
    const Status trimmed = co_await store.trim(keep);
    static_cast<void>(trimmed);
    auto page = co_await store.operations(store::OperationQuery{});
    kept = list(std::move(page));
    auto id = co_await store.first_event_id();
    first = *id;
  });
  REQUIRE(kept.size() == 3);
  CHECK(kept[1] < "op-" + ulid_floor(now - std::chrono::hours(2)));
  CHECK(kept[2] < "op-" + ulid_floor(now - std::chrono::hours(8)));
  CHECK(first == 3);
}

TEST_CASE("store: kept requests come back, go by key, age, count and size") {
  const TempDir dir;
  std::vector<bool> there;
  std::string record;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    const auto look = [&store, &there](std::string key) -> async::Task<void> {
      auto kept = co_await store.kept_request(std::move(key));
      there.push_back(kept && kept->has_value());
    };
    Batch batch;
    batch.put_requests = {{"a", 100, "x"}, {"b", 200, std::string("y\0z", 3)}, {"c", 300, "w"}};
    Status done = co_await store.commit(batch);
    Batch replace;
    replace.put_requests = {{"b", 200, "longer"}};
    replace.delete_requests = {"none"};
    done = co_await store.commit(replace);
    auto kept = co_await store.kept_request("b");
    record = (*kept)->record;
    done = co_await store.trim({.requests_since_ms = 150});
    co_await look("a");
    co_await look("b");
    done = co_await store.trim({.requests = 1});
    co_await look("b");
    co_await look("c");
    Batch more;
    more.put_requests = {{"d", 400, std::string(600, 'd')}, {"e", 500, std::string(600, 'e')}};
    done = co_await store.commit(more);
    done = co_await store.trim({.request_bytes = 1000});
    co_await look("d");
    co_await look("e");
    Batch gone;
    gone.delete_requests = {"e"};
    done = co_await store.commit(gone);
    co_await look("e");
  });
  CHECK(record == "longer");
  CHECK(there == std::vector<bool>{false, true, false, true, false, true, false});
}

TEST_CASE("store: the operation of a request is found from a time on") {
  const TempDir dir;
  std::vector<bool> found;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    Batch batch;
    auto one = operation("op-00002", "u", Operation::DONE);
    one->set_request_id("r");
    batch.put_operations = {operation("op-00001", "u", Operation::DONE), one};
    const Status done = co_await store.commit(batch);
    static_cast<void>(done);
    for (const char* from : {"op-00000", "op-00002", "op-00003"}) {
      auto seen = co_await store.operation_of("r", from);
      found.push_back(seen && *seen != nullptr && (*seen)->id() == "op-00002");
    }
    auto none = co_await store.operation_of("s", "op-");
    found.push_back(none && *none == nullptr);
  });
  CHECK(found == std::vector<bool>{true, true, false, true});
}
