#include <string>

#include "store_support.hpp"
#include "support/small_disk.hpp"

using namespace ate;
using ate::image::Store;
using ate::image::Unpacked;
using ate::test::OciBuilder;
using ate::test::StoreBench;
using ate::test::TarWriter;

TEST_CASE("store: a full disk is DiskFull, leaves nothing, and hurts no other image") {
  StoreBench bench;
  std::filesystem::create_directory(bench.dir.file("disk"));
  const test::SmallDisk disk(bench.dir.file("disk"), "4m");
  bench.directory = disk.file("images");

  OciBuilder small;
  const std::string small_digest = small.layer(TarWriter().file("f", "1").finish()).seal();
  test::write_file(bench.dir.file("small.tar"), small.archive());
  std::string noise;
  for (unsigned i = 0; noise.size() < (8U << 20U); ++i) {
    noise += std::to_string(i * 2654435761UL);
  }
  OciBuilder large;
  const std::string large_digest =
      large.layer(TarWriter().file("a", "1").file("big", noise).finish(), "zstd").seal();
  test::write_file(bench.dir.file("large.tar"), large.archive());

  bench.run([&](Store& store, async::Reaper&, async::Context&) -> async::Task<void> {
    Result<Unpacked> first = co_await store.ensure(
        test::reference("oci-archive:" + bench.dir.file("small.tar")), small_digest);
    REQUIRE(first);
    Result<Unpacked> full = co_await store.ensure(
        test::reference("oci-archive:" + bench.dir.file("large.tar")), large_digest);
    REQUIRE_FALSE(full);
    CAPTURE(full.error().message());
    CHECK(full.error().code() == Errc::DiskFull);
    CHECK(bench.names() == std::vector<std::string>{small_digest.substr(7)});
    CHECK(store.find(small_digest));
    CHECK_FALSE(store.find(large_digest));
  });
}
