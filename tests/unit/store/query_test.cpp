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
    const Status trimmed = co_await store.trim(2, 4);
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
    const Status trimmed = co_await store.trim(0, 0);
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
