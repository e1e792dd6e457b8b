// A full disk, for real: a tmpfs of 2 MiB.
#include <filesystem>
#include <fstream>

#include "fixture.hpp"
#include "support/catch.hpp"
#include "support/small_disk.hpp"

using namespace ate;
using namespace ate::test;
using store::Batch;
using store::Store;

namespace {

Batch big(int number) {
  Batch batch;
  const std::string uid = "u" + std::to_string(number);
  auto record = actor(uid, uid, number);
  record->mutable_actor()->mutable_status()->set_message(std::string(60'000, 'x'));
  batch.put_actors = {record};
  return batch;
}

struct Seen {
  int stored = 0;
  std::optional<Error> refused;
};

/// Commits until one is refused.
async::Task<Seen> fill(Store& store, int first) {
  Seen seen;
  for (int i = first; i < first + 200; ++i) {
    const Status done = co_await store.commit(big(i));
    if (!done) {
      seen.refused = done.error();
      co_return seen;
    }
    ++seen.stored;
  }
  co_return seen;
}

}  // namespace

TEST_CASE("store: a full disk is DiskFull, and commits work again when there is room") {
  const TempDir dir;
  const SmallDisk disk(dir.path(), "2m");
  const std::string path = disk.file("state.db");
  // Something that can be removed to make room.
  write_file(disk.file("ballast"), std::string(600'000, 'b'));
  Seen before;
  Seen after;
  Status small;
  with_store(path, [&](Store& store) -> async::Task<void> {
    before = co_await fill(store, 0);
    std::filesystem::remove(disk.file("ballast"));
    small = co_await store.commit(big(1000));
    after = co_await fill(store, 2000);
  });
  CHECK(before.stored > 5);
  REQUIRE(before.refused);
  CHECK(before.refused->code() == Errc::DiskFull);
  CHECK(small.has_value());
  REQUIRE(after.refused);
  CHECK(after.refused->code() == Errc::DiskFull);

  std::size_t actors = 0;
  with_store(path, [&](Store& store) -> async::Task<void> {
    actors = store.load().value().actors.size();
    co_return;
  });
  CHECK(actors == static_cast<std::size_t>(before.stored + 1 + after.stored));
}

TEST_CASE("store: a disk too full to open it is told to make room, once, under the lock") {
  const TempDir dir;
  const SmallDisk disk(dir.path(), "2m");
  const std::string path = disk.file("state.db");
  with_store(path, [](Store&) -> async::Task<void> { co_return; });
  write_file(disk.file("ballast"), std::string(1 << 20, 'b'));
  std::string rest(1 << 20, 'r');
  std::ofstream(disk.file("rest")) << rest;  // as much of it as fits
  run_coro([&](async::Context& context) -> async::Task<void> {
    int asked = 0;
    const auto in_vain = store::open_sqlite(context, path, [&] { ++asked; });
    REQUIRE_FALSE(in_vain);
    CHECK(in_vain.error().code() == Errc::DiskFull);
    CHECK(asked == 1);
    auto opened = store::open_sqlite(context, path, [&] {
      const auto other = store::open_sqlite(context, path);
      CHECK_FALSE(other);
      CHECK(other.error().code() == Errc::Unavailable);
      std::filesystem::remove(disk.file("ballast"));
    });
    REQUIRE(opened);
    co_await (*opened)->close();
  });
}

TEST_CASE("store: of several that wait, those that fit a nearly full disk are stored") {
  const TempDir dir;
  const SmallDisk disk(dir.path(), "2m");
  Status huge;
  std::vector<Status> small(4);
  auto one = [&](Store& store, std::size_t i) -> async::Task<void> {
    Batch batch;
    batch.put_actors = {actor("s" + std::to_string(i), "s" + std::to_string(i), 1)};
    small[i] = co_await store.commit(batch);
  };
  auto large = [&](Store& store) -> async::Task<void> {
    auto record = actor("huge", "huge", 1);
    record->mutable_actor()->mutable_status()->set_message(std::string(3 << 20, 'x'));
    Batch batch;
    batch.put_actors = {record};
    huge = co_await store.commit(batch);
  };
  run_coro([&](async::Context& context) -> async::Task<void> {
    std::unique_ptr<Store> store = store::open_sqlite(context, disk.file("state.db")).value();
    async::TaskScope scope(context, [](const std::string&, const std::string&) {});
    for (std::size_t i = 0; i < small.size(); ++i) {
      scope.spawn("small", one(*store, i));
      if (i == 1) {
        scope.spawn("huge", large(*store));
      }
    }
    co_await scope.drain(std::chrono::seconds(9));
    co_await scope.close();
    co_await store->close();
  });
  REQUIRE_FALSE(huge.has_value());
  CHECK(huge.error().code() == Errc::DiskFull);
  for (const Status& status : small) {
    CHECK(status.has_value());
  }
}
