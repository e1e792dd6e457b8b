// Full disks, for real: small tmpfs mounts.
#include "fixture.hpp"
#include "support/catch.hpp"
#include "support/small_disk.hpp"

using namespace ate;
using namespace ate::test;
using artifacts::AssetStore;
using artifacts::SnapshotStore;

namespace {

std::size_t entries(const std::string& path) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    count += entry.is_regular_file() ? 1 : 0;
  }
  return count;
}

}  // namespace

// case T15
TEST_CASE("snapshot: no room for the manifest is DiskFull, and remove leaves no byte") {
  const TempDir dir;
  const SmallDisk disk(dir.path(), "1m");
  std::optional<Error> error;
  Status removed;
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore store(context, in(disk.file("snapshots")));
    must(store.prepare());
    auto begun = co_await store.begin("s1");
    const std::string path = must(std::move(begun));
    // Everything but less than a page.
    std::ofstream payload(path + "/pages.img", std::ios::binary);
    for (const std::string page(4096, 'p'); payload.write(page.data(), 4096).flush();) {
    }
    payload.close();
    auto sealed = co_await store.seal("s1", manifest());
    if (!sealed) {
      error = sealed.error();
    }
    removed = co_await store.remove("s1");
  });
  REQUIRE(error);
  CHECK(error->code() == Errc::DiskFull);
  CHECK(removed.has_value());
  CHECK(entries(dir.path()) == 0);
}

TEST_CASE("snapshot: check_space also counts inodes") {
  const TempDir dir;
  const SmallDisk disk(dir.path(), "1m,nr_inodes=20");
  Status status;
  run_coro([&](async::Context& context) -> async::Task<void> {
    status = SnapshotStore(context, in(dir.path())).check_space(1);
    co_return;
  });
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().code() == Errc::DiskFull);
  CHECK_THAT(status.error().message(), ate::test::Contains("inodes"));
}

TEST_CASE("asset: no room is DiskFull and leaves no temporary file") {
  const TempDir source;
  const TempDir dir;
  const SmallDisk disk(dir.path(), "1m");
  write_file(source.file("runsc"), std::string(2'000'000, 'r'));
  Result<std::string> imported =
      run_coro([&](async::Context& context) -> async::Task<Result<std::string>> {
        AssetStore store(context, disk.file("assets"));
        must(store.prepare());
        co_return co_await store.import(source.file("runsc"), "");
      });
  REQUIRE_FALSE(imported.has_value());
  CHECK(imported.error().code() == Errc::DiskFull);
  CHECK(entries(dir.path()) == 0);
}
