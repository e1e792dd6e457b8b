// case T54, spec H19, H20: what the store holds is whole, whatever happens on the way.
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "store_support.hpp"

using namespace ate;
using ate::image::Reference;
using ate::image::Store;
using ate::image::Unpacked;
using ate::test::ArmedFailpoint;
using ate::test::ensure_into;
using ate::test::make_archive;
using ate::test::no_escape;
using ate::test::OciBuilder;
using ate::test::Outcome;
using ate::test::StoreBench;
using ate::test::TarWriter;

TEST_CASE("store: an archive and a directory are unpacked once and found again") {
  const StoreBench bench;
  const std::string digest = make_archive(bench.dir.file("a.tar"));
  OciBuilder other;
  const std::string other_digest = other.layer(TarWriter().file("f", "1").finish()).seal("v1");
  std::filesystem::create_directory(bench.dir.file("layout"));
  other.write_directory(bench.dir.file("layout"));
  const Reference archive = test::reference("oci-archive:" + bench.dir.file("a.tar"));
  const Reference layout = test::reference("oci:" + bench.dir.file("layout") + ":v1");

  bench.run([&](Store& store, async::Reaper& reaper, async::Context&) -> async::Task<void> {
    CHECK_FALSE(store.find(digest));
    Result<std::string> resolved = co_await store.resolve(archive);
    REQUIRE(resolved);
    CHECK(*resolved == digest);
    Result<Unpacked> image = co_await store.ensure(archive, digest);
    REQUIRE(image);
    CHECK(image->digest == digest);
    CHECK(image->rootfs == bench.directory + "/sha256/" + digest.substr(7) + "/rootfs");
    CHECK(image->config.entrypoint == std::vector<std::string>{"/bin/sh"});
    CHECK(test::read_file(image->rootfs + "/second") == "2");
    CHECK(std::filesystem::file_size(image->rootfs + "/data") == 300'000);
    struct stat info{};
    REQUIRE(::stat(image->rootfs.c_str(), &info) == 0);
    CHECK((info.st_mode & 07777U) == 0755);

    const std::uint64_t helpers = reaper.reaped();
    CHECK(helpers == 2);
    Result<Unpacked> again = co_await store.ensure(archive, digest);
    REQUIRE(again);
    CHECK(reaper.reaped() == helpers);

    Result<std::string> tagged = co_await store.resolve(layout);
    REQUIRE(tagged);
    CHECK(*tagged == other_digest);
    Result<Unpacked> second = co_await store.ensure(layout, other_digest);
    REQUIRE(second);
    CHECK(test::read_file(second->rootfs + "/f") == "1");
  });
  // Another process finds them without any source.
  std::filesystem::remove(bench.dir.file("a.tar"));
  bench.run([&](Store& store, async::Reaper& reaper, async::Context&) -> async::Task<void> {
    REQUIRE(store.find(digest));
    CHECK(store.find(digest)->config.working_dir == "/w");
    Result<Unpacked> image = co_await store.ensure(archive, digest);
    CHECK(image);
    CHECK(reaper.reaped() == 0);
  });
  CHECK(bench.names().size() == 2);
}

TEST_CASE("store: what asks at the same time shares one unpack") {
  const StoreBench bench;
  const std::string digest = make_archive(bench.dir.file("a.tar"));
  const Reference archive = test::reference("oci-archive:" + bench.dir.file("a.tar"));
  bench.run([&](Store& store, async::Reaper& reaper, async::Context& context) -> async::Task<void> {
    async::TaskScope scope(context, no_escape);
    std::vector<std::shared_ptr<Outcome>> outcomes;
    for (int i = 0; i < 5; ++i) {
      outcomes.push_back(std::make_shared<Outcome>());
      scope.spawn("ensure", ensure_into(store, archive, digest, outcomes.back()));
    }
    const bool drained = co_await scope.drain(std::chrono::seconds(8));
    CHECK(drained);
    co_await scope.close();
    for (const auto& outcome : outcomes) {
      CHECK(outcome->image);
    }
    CHECK(reaper.reaped() == 1);
  });
}

TEST_CASE("store: sources that are missing or of the wrong kind say so") {
  const StoreBench bench;
  make_archive(bench.dir.file("a.tar"));
  std::filesystem::create_directory(bench.dir.file("d"));
  REQUIRE(::mkfifo(bench.dir.file("fifo").c_str(), 0600) == 0);

  struct Row {
    std::string reference;
    const char* says;
  };

  const std::vector<Row> rows = {
      {"oci-archive:" + bench.dir.file("none.tar"), "No such file"},
      {"oci:" + bench.dir.file("none"), "No such file"},
      {"oci:" + bench.dir.file("a.tar"), "for a file use oci-archive:"},
      {"oci-archive:" + bench.dir.file("d"), "for a directory use oci:"},
      {"oci-archive:" + bench.dir.file("fifo"), "is not a file"},
      {"oci:" + bench.dir.file("d"), "not an OCI image layout"},
      {"oci-archive:" + bench.dir.file("a.tar") + ":nope", "no image is tagged 'nope'"},
  };
  bench.run([&](Store& store, async::Reaper&, async::Context&) -> async::Task<void> {
    for (const Row& row : rows) {
      CAPTURE(row.reference);
      Result<std::string> digest = co_await store.resolve(test::reference(row.reference));
      REQUIRE_FALSE(digest);
      CAPTURE(digest.error().message());
      CHECK(digest.error().code() == Errc::ImageInvalid);
      CHECK(digest.error().message().find(row.says) != std::string::npos);
      CHECK(digest.error().message().find(row.reference) != std::string::npos);
    }
  });
  CHECK(bench.names().empty());
}

TEST_CASE("store: an archive that was replaced after resolve is refused, nothing stays") {
  const StoreBench bench;
  const std::string path = bench.dir.file("a.tar");
  const std::string digest = make_archive(path);
  const Reference archive = test::reference("oci-archive:" + path);
  bench.run([&](Store& store, async::Reaper&, async::Context&) -> async::Task<void> {
    Result<std::string> resolved = co_await store.resolve(archive);
    REQUIRE(resolved);
    OciBuilder other;
    other.layer(TarWriter().file("f", "other").finish()).seal();
    test::write_file(path, other.archive());
    Result<Unpacked> image = co_await store.ensure(archive, digest);
    REQUIRE_FALSE(image);
    CHECK(image.error().code() == Errc::ImageInvalid);
    CHECK(image.error().message().find("was replaced") != std::string::npos);
    // Cut off: the file ends before its last blob does.
    make_archive(path);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 2048);
    Result<Unpacked> cut = co_await store.ensure(archive, digest);
    REQUIRE_FALSE(cut);
    CHECK(cut.error().code() == Errc::ImageInvalid);
  });
  CHECK(bench.names().empty());
}

TEST_CASE("store: a helper that is killed is tried once more, then it is an error") {
  if (!test::have_failpoints()) {
    return;
  }
  const StoreBench bench;
  const std::string digest = make_archive(bench.dir.file("a.tar"));
  const Reference archive = test::reference("oci-archive:" + bench.dir.file("a.tar"));
  bench.run([&](Store& store, async::Reaper& reaper, async::Context&) -> async::Task<void> {
    {
      const ArmedFailpoint armed("image-helper-layer=kill");
      Result<Unpacked> image = co_await store.ensure(archive, digest);
      REQUIRE_FALSE(image);
      CHECK(image.error().code() == Errc::Internal);
      CHECK(image.error().message().find("signal 9") != std::string::npos);
      CHECK(reaper.reaped() == 2);
      CHECK(bench.names().empty());
      CHECK_FALSE(store.find(digest));
    }
    Result<Unpacked> image = co_await store.ensure(archive, digest);
    CHECK(image);
  });
}

TEST_CASE("store: killed once, the second try succeeds") {
  if (!test::have_failpoints()) {
    return;
  }
  const StoreBench bench;
  const std::string digest = make_archive(bench.dir.file("a.tar"));
  const Reference archive = test::reference("oci-archive:" + bench.dir.file("a.tar"));
  bench.run([&](Store& store, async::Reaper& reaper, async::Context& context) -> async::Task<void> {
    const ArmedFailpoint armed("image-helper-layer=stall");
    async::TaskScope scope(context, no_escape);
    const auto outcome = std::make_shared<Outcome>();
    scope.spawn("ensure", ensure_into(store, archive, digest, outcome));
    const pid_t helper = co_await test::stopped_child();
    REQUIRE(helper != 0);
    ArmedFailpoint::disarm();
    REQUIRE(::kill(helper, SIGKILL) == 0);
    const bool drained = co_await scope.drain(std::chrono::seconds(8));
    CHECK(drained);
    co_await scope.close();
    CHECK(outcome->image);
    CHECK(reaper.reaped() == 2);
  });
  CHECK(bench.names().size() == 1);
}

TEST_CASE("store: a helper that takes too long is ended") {
  if (!test::have_failpoints()) {
    return;
  }
  StoreBench bench;
  bench.limit = std::chrono::seconds(1);
  const std::string digest = make_archive(bench.dir.file("a.tar"));
  const Reference archive = test::reference("oci-archive:" + bench.dir.file("a.tar"));
  bench.run([&](Store& store, async::Reaper& reaper, async::Context&) -> async::Task<void> {
    const ArmedFailpoint armed("image-helper-confined=stall");
    Result<Unpacked> image = co_await store.ensure(archive, digest);
    REQUIRE_FALSE(image);
    CHECK(image.error().code() == Errc::DeadlineExceeded);
    CHECK(reaper.reaped() == 1);
  });
  CHECK(bench.names().empty());
}

TEST_CASE("store: a cancelled unpack ends its helper, and who waited too takes over") {
  if (!test::have_failpoints()) {
    return;
  }
  const StoreBench bench;
  const std::string digest = make_archive(bench.dir.file("a.tar"));
  const Reference archive = test::reference("oci-archive:" + bench.dir.file("a.tar"));
  bench.run([&](Store& store, async::Reaper& reaper, async::Context& context) -> async::Task<void> {
    const ArmedFailpoint armed("image-helper-layer=stall");
    async::TaskScope first(context, [](const std::string&, const std::string&) {});
    async::TaskScope second(context, no_escape);
    const auto dropped = std::make_shared<Outcome>();
    const auto outcome = std::make_shared<Outcome>();
    first.spawn("ensure", ensure_into(store, archive, digest, dropped));
    const pid_t helper = co_await test::stopped_child();
    REQUIRE(helper != 0);
    ArmedFailpoint::disarm();
    second.spawn("ensure", ensure_into(store, archive, digest, outcome));
    co_await first.close();
    CHECK_FALSE(dropped->done);
    const bool drained = co_await second.drain(std::chrono::seconds(8));
    CHECK(drained);
    co_await second.close();
    REQUIRE(outcome->image);
    CHECK(reaper.reaped() == 2);
  });
  // The pool has been joined: what the cancelled one made is gone as well.
  CHECK(bench.names() == std::vector<std::string>{digest.substr(7)});
}

TEST_CASE("store: remains and damaged entries are never chosen") {
  const StoreBench bench;
  const std::string digest = make_archive(bench.dir.file("a.tar"));
  const Reference archive = test::reference("oci-archive:" + bench.dir.file("a.tar"));
  const std::string entry = bench.directory + "/sha256/" + digest.substr(7);
  std::filesystem::create_directories(bench.directory + "/.tmp-123/rootfs/a/b");
  const std::string other = "sha256:" + std::string(64, '0');
  const std::vector<std::string> damage = {
      "",
      "{",
      "{}",
      R"({"version":1,"digest":")" + other + R"(","config":{}})",
      R"({"version":2,"digest":")" + digest + R"(","config":{}})",
      R"({"version":1,"digest":")" + digest + R"(","config":{"Env":["x"]}})",
      R"({"version":1,"digest":")" + digest + R"("})",
  };
  for (const std::string& text : damage) {
    CAPTURE(text);
    std::filesystem::remove_all(entry);
    std::filesystem::create_directories(entry + "/rootfs/old");
    test::write_file(entry + "/config.json", text);
    bench.run([&](Store& store, async::Reaper&, async::Context&) -> async::Task<void> {
      CHECK_FALSE(store.find(digest));
      Result<Unpacked> image = co_await store.ensure(archive, digest);
      REQUIRE(image);
      CHECK_FALSE(std::filesystem::exists(image->rootfs + "/old"));
      CHECK(std::filesystem::exists(image->rootfs + "/second"));
    });
    CHECK(bench.names().size() == 1);
  }
  bench.run([&](Store& store, async::Reaper&, async::Context&) -> async::Task<void> {
    REQUIRE(store.find(digest));
    std::filesystem::remove_all(entry);
    CHECK_FALSE(store.find(digest));
    CHECK_FALSE(store.find("sha256:../../../etc"));
    Result<Unpacked> image = co_await store.ensure(archive, "nonsense");
    CHECK_FALSE(image);
  });
}

TEST_CASE("store: killed before the commit nothing is there, after it all is") {
  if (!test::have_failpoints()) {
    return;
  }
  for (const std::string point : {"image-commit-before", "image-commit-after"}) {
    CAPTURE(point);
    const StoreBench bench;
    const std::string digest = make_archive(bench.dir.file("a.tar"));
    const std::string text = "oci-archive:" + bench.dir.file("a.tar");
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const std::string armed = point + "=kill";
      ::setenv("ATE_FAILPOINT", armed.c_str(), 1);
      ::execl(ATE_TEST_IMAGE_HELPER, "image-helper", "ensure", bench.directory.c_str(),
              text.c_str(), nullptr);
      ::_exit(127);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(bench.names().size() == 1);
    bench.run([&](Store& store, async::Reaper&, async::Context&) -> async::Task<void> {
      const bool there = store.find(digest).has_value();
      CHECK(there == (point == "image-commit-after"));
      CHECK(bench.names().size() == (there ? 1 : 0));
      co_return;
    });
  }
}
