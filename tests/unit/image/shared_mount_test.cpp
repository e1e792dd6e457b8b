#include <sys/mount.h>

#include <string>

#include "store_support.hpp"
#include "support/small_disk.hpp"

using namespace ate;
using ate::image::Store;
using ate::image::Unpacked;
using ate::test::StoreBench;

// As systemd makes it: everything is a shared mount, and a copy of one is shared too, with which
// nothing can be pivoted and whose mounts would appear on the host.
TEST_CASE("helper: unpacks below a shared mount, from an archive and from a directory") {
  StoreBench bench;
  std::filesystem::create_directory(bench.dir.file("disk"));
  const test::SmallDisk disk(bench.dir.file("disk"), "16m");
  REQUIRE(::mount("none", bench.dir.file("disk").c_str(), nullptr, MS_SHARED, nullptr) == 0);
  bench.directory = disk.file("images");
  const std::string archived = test::make_archive(disk.file("a.tar"));
  test::OciBuilder builder;
  const std::string plain = builder.layer(test::TarWriter().file("f", "1").finish()).seal();
  std::filesystem::create_directory(disk.file("layout"));
  builder.write_directory(disk.file("layout"));

  bench.run([&](Store& store, async::Reaper&, async::Context&) -> async::Task<void> {
    const Result<Unpacked> first =
        co_await store.ensure(test::reference("oci-archive:" + disk.file("a.tar")), archived);
    REQUIRE(first);
    const Result<Unpacked> second =
        co_await store.ensure(test::reference("oci:" + disk.file("layout")), plain);
    REQUIRE(second);
  });
  const std::string mounts = test::read_file("/proc/self/mountinfo");
  const std::size_t ours = mounts.find(bench.directory.substr(0, bench.directory.rfind('/')));
  REQUIRE(ours != std::string::npos);
  CHECK(mounts.find(bench.dir.path(), ours + 1) == std::string::npos);
}
