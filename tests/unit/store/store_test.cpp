#include <boost/asio/co_spawn.hpp>

#include "fixture.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;
using store::Batch;
using store::Store;

namespace {

using Event = v1alpha1::Event;
using Operation = v1alpha1::Operation;

async::Task<void> put(Store& store, Batch batch) {
  const Status done = co_await store.commit(std::move(batch));
  if (!done) {
    throw std::runtime_error(done.error().message());
  }
}

Batch full_batch() {
  Batch batch;
  batch.put_actors = {actor("u1", "one", 7), actor("u2", "two", 9)};
  batch.put_operations = {operation("op-1", "u1", Operation::RUNNING),
                          operation("op-2", "u2", Operation::DONE)};
  batch.events = {event("actor.created", "u1"), event("actor.created", "u2")};
  batch.put_snapshots = {snapshot("s1", "u1")};
  batch.put_meta = {{"bootId", "b"}};
  v1alpha1::ActorTemplate object;
  object.mutable_metadata()->set_name("counter");
  object.mutable_metadata()->set_resource_version("12");
  batch.put_objects = {{.kind = "ActorTemplate",
                        .atespace = "default",
                        .name = "counter",
                        .generation = 3,
                        .digest = "d",
                        .source = "api",
                        .hidden = true,
                        .bytes = object.SerializeAsString()}};
  return batch;
}

store::Loaded load(const std::string& path) {
  store::Loaded loaded;
  with_store(path, [&](Store& store) -> async::Task<void> {
    loaded = store.load().value();
    co_return;
  });
  return loaded;
}

}  // namespace

TEST_CASE("store: what was committed is loaded again") {
  const TempDir dir;
  const Batch batch = full_batch();
  with_store(dir.file("state.db"), [&](Store& store) { return put(store, batch); });
  CHECK(batch.events[0]->id() == 1);
  CHECK(batch.events[1]->id() == 2);

  const store::Loaded loaded = load(dir.file("state.db"));
  REQUIRE(loaded.actors.size() == 2);
  CHECK(loaded.actors[0]->SerializeAsString() == batch.put_actors[0]->SerializeAsString());
  REQUIRE(loaded.snapshots.size() == 1);
  CHECK(loaded.snapshots[0]->id() == "s1");
  REQUIRE(loaded.objects.size() == 1);
  CHECK(loaded.objects[0].generation == 3);
  CHECK(loaded.objects[0].hidden);
  CHECK(loaded.objects[0].bytes == batch.put_objects[0].bytes);
  REQUIRE(loaded.running_operations.size() == 1);
  CHECK(loaded.running_operations[0]->id() == "op-1");
  CHECK(loaded.meta == std::vector<std::pair<std::string, std::string>>{{"bootId", "b"}});
  CHECK(loaded.last_event_id == 2);
  CHECK(loaded.last_resource_version == 12);
}

TEST_CASE("store: rows are replaced and removed") {
  const TempDir dir;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    co_await put(store, full_batch());
    Batch change;
    change.put_actors = {actor("u1", "one", 10)};
    change.delete_actors = {"u2"};
    change.delete_snapshots = {"s1"};
    change.delete_objects = {{.kind = "ActorTemplate", .atespace = "default", .name = "counter"}};
    change.put_operations = {operation("op-1", "u1", Operation::DONE)};
    co_await put(store, change);
  });
  const store::Loaded loaded = load(dir.file("state.db"));
  REQUIRE(loaded.actors.size() == 1);
  CHECK(loaded.actors[0]->actor().metadata().resource_version() == "10");
  CHECK(loaded.snapshots.empty());
  CHECK(loaded.objects.empty());
  CHECK(loaded.running_operations.empty());
}

TEST_CASE("store: a resourceVersion is never given out twice, even after its row is gone") {
  const TempDir dir;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    Batch batch;
    batch.put_actors = {actor("u1", "one", 41)};
    co_await put(store, batch);
    Batch gone;
    gone.delete_actors = {"u1"};
    co_await put(store, gone);
  });
  CHECK(load(dir.file("state.db")).last_resource_version == 41);
  CHECK(load(dir.file("state.db")).meta.empty());
}

TEST_CASE("store: a name freed in a batch may be taken in the same batch") {
  const TempDir dir;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    Batch first;
    first.put_actors = {actor("u1", "one", 1)};
    co_await put(store, first);
    Batch second;
    second.put_actors = {actor("u2", "one", 2)};
    second.delete_actors = {"u1"};
    co_await put(store, second);
  });
  const store::Loaded loaded = load(dir.file("state.db"));
  REQUIRE(loaded.actors.size() == 1);
  CHECK(loaded.actors[0]->actor().metadata().uid() == "u2");
}

TEST_CASE("store: of a batch that fails nothing happened") {
  const TempDir dir;
  Status result;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    Batch first;
    first.put_actors = {actor("u1", "one", 1)};
    co_await put(store, first);
    Batch bad;
    bad.events = {event("actor.created", "u2")};
    bad.put_operations = {operation("op-9", "u2", Operation::RUNNING)};
    bad.put_actors = {actor("u2", "one", 2)};  // the name is taken
    bad.put_meta = {{"k", "v"}};
    result = co_await store.commit(bad);
  });
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code() == Errc::Internal);
  const store::Loaded loaded = load(dir.file("state.db"));
  CHECK(loaded.actors.size() == 1);
  CHECK(loaded.running_operations.empty());
  CHECK(loaded.meta.empty());
  CHECK(loaded.last_event_id == 0);
}

TEST_CASE("store: a message without its key is refused before it is queued") {
  const TempDir dir;
  Status no_uid;
  Status bad_state;
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    Batch batch;
    batch.put_actors = {actor("", "one", 1)};
    no_uid = co_await store.commit(batch);
    Batch unknown;
    unknown.put_snapshots = {snapshot("s1", "u1")};
    auto odd = std::make_shared<v1alpha1::Snapshot>(*unknown.put_snapshots[0]);
    odd->set_state("Strange");
    unknown.put_snapshots = {odd};
    bad_state = co_await store.commit(unknown);
  });
  CHECK_FALSE(no_uid.has_value());
  CHECK_FALSE(bad_state.has_value());
}

TEST_CASE("store: names with NUL, quotes and broken UTF-8 come back as they were") {
  const TempDir dir;
  const std::string odd("a'\0\"\xff;DROP TABLE actors", 23);
  with_store(dir.file("state.db"), [&](Store& store) -> async::Task<void> {
    Batch batch;
    batch.put_meta = {{odd, odd}, {"long", std::string(65536, 'x')}};
    co_await put(store, batch);
  });
  const store::Loaded loaded = load(dir.file("state.db"));
  REQUIRE(loaded.meta.size() == 2);
  CHECK(loaded.meta[0].first == odd);
  CHECK(loaded.meta[0].second == odd);
}

// case T59
TEST_CASE("store: 64 parallel commits all succeed, in order, each with ids of its own") {
  const TempDir dir;
  constexpr int kWriters = 64;
  constexpr int kRounds = 5;
  std::vector<std::shared_ptr<Event>> all;
  int failed = 0;
  auto writer = [&](Store& store, int number, int& running) -> async::Task<void> {
    for (int round = 0; round < kRounds; ++round) {
      Batch batch;
      const std::string uid = "u" + std::to_string(number);
      batch.put_actors = {actor(uid, "n" + std::to_string(number), round + 1)};
      batch.events = {event("actor.state", uid)};
      all.push_back(batch.events[0]);
      const Status done = co_await store.commit(batch);
      failed += done ? 0 : 1;
    }
    --running;
  };
  run_coro([&](async::Context& context) -> async::Task<void> {
    std::unique_ptr<Store> store = store::open_sqlite(context, dir.file("state.db")).value();
    async::TaskScope scope(context, [&](const std::string&, const std::string&) { ++failed; });
    int running = kWriters;
    for (int i = 0; i < kWriters; ++i) {
      scope.spawn("writer", writer(*store, i, running));
    }
    const bool drained = co_await scope.drain(std::chrono::seconds(9));
    failed += drained && running == 0 ? 0 : 1;
    co_await scope.close();
    co_await store->close();
  });
  CHECK(failed == 0);
  REQUIRE(all.size() == kWriters * kRounds);
  // Batches keep the order in which they were handed over.
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i]->id() == static_cast<std::int64_t>(i + 1));
  }
  CHECK(load(dir.file("state.db")).actors.size() == kWriters);
}

TEST_CASE("store: a batch that fails takes no other of its transaction with it") {
  const TempDir dir;
  std::vector<Status> results(9);
  auto one = [&](Store& store, std::size_t i) -> async::Task<void> {
    Batch batch;
    // All odd ones want the same name: the first of them gets it.
    const std::string name = i % 2 == 1 ? "taken" : "n" + std::to_string(i);
    batch.put_actors = {actor("u" + std::to_string(i), name, 1)};
    batch.events = {event("actor.created", "u" + std::to_string(i))};
    results[i] = co_await store.commit(batch);
  };
  run_coro([&](async::Context& context) -> async::Task<void> {
    std::unique_ptr<Store> store = store::open_sqlite(context, dir.file("state.db")).value();
    async::TaskScope scope(context, [](const std::string&, const std::string&) {});
    for (std::size_t i = 0; i < results.size(); ++i) {
      scope.spawn("one", one(*store, i));
    }
    co_await scope.drain(std::chrono::seconds(9));
    co_await scope.close();
    co_await store->close();
  });
  for (std::size_t i = 0; i < results.size(); ++i) {
    CHECK(results[i].has_value() == (i % 2 == 0 || i == 1));
  }
  const store::Loaded loaded = load(dir.file("state.db"));
  CHECK(loaded.actors.size() == 6);
  CHECK(loaded.last_event_id == 6);  // ids of failed batches are not used up
}

TEST_CASE("store: a commit after close is refused") {
  const TempDir dir;
  Status late;
  run_coro([&](async::Context& context) -> async::Task<void> {
    std::unique_ptr<Store> store = store::open_sqlite(context, dir.file("state.db")).value();
    co_await store->close();
    co_await store->close();
    late = co_await store->commit(Batch{});
  });
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code() == Errc::Unavailable);
  CHECK_FALSE(std::filesystem::exists(dir.file("state.db-wal")));
}

TEST_CASE("store: the log is moved into the file before it gets long") {
  const TempDir dir;
  const std::string path = dir.file("state.db");
  std::uintmax_t longest = 0;
  with_store(path, [&](Store& store) -> async::Task<void> {
    for (int i = 0; i < 60; ++i) {
      Batch batch;
      auto record = actor("u" + std::to_string(i % 7), "n" + std::to_string(i % 7), i);
      record->mutable_actor()->mutable_status()->set_message(std::string(400'000, 'x'));
      batch.put_actors = {record};
      co_await put(store, batch);
      longest = std::max(longest, std::filesystem::file_size(path + "-wal"));
    }
  });
  // 60 * 100 frames were written; 1000 and the commit that passes that are the limit when idle.
  CHECK(longest < 1300U * 4096U);
}
