#include "ate/artifacts/volumes.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "ate/os/fs.hpp"
#include "fixture.hpp"
#include "support/catch.hpp"

namespace {

using namespace ate;
using namespace ate::test;
using artifacts::SnapshotStore;
using artifacts::Volume;
using artifacts::VolumePlan;
using artifacts::VolumeStore;
namespace fs = std::filesystem;

constexpr const char* kUid = "01jdz0000000000000000000a1";

struct Rig {
  explicit Rig(async::Context& c)
      : context(c),
        snapshots(c, in(dir.file("snapshots"))),
        volumes(c, {dir.file("actors"), dir.file("snapshots")}) {
    must(snapshots.prepare());
    must(volumes.prepare());
  }

  [[nodiscard]] std::string live(const std::string& name) const {
    return dir.file(std::string("actors/") + kUid + "/volumes/" + name);
  }

  [[nodiscard]] std::string read(const std::string& name) const {
    return must(os::read_file(live(name), 1 << 20));
  }

  async::Task<SnapshotStore::Opened> save(std::string id, std::vector<std::string> names) {
    Result<std::string> directory = co_await snapshots.begin(id);
    const auto made = manifest();
    made->set_scope("DATA");
    must(co_await volumes.save(kUid, std::move(names), must(std::move(directory)), made, nullptr));
    Result<SnapshotStore::Sealed> sealed = co_await snapshots.seal(id, made);
    const std::string sha256 = must(std::move(sealed)).manifest_sha256;
    Result<SnapshotStore::Opened> opened = co_await snapshots.open(id, sha256);
    co_return must(std::move(opened));
  }

  async::Task<void> make(std::vector<VolumePlan> plans) {
    Result<std::vector<Volume>> made = co_await volumes.make(kUid, std::move(plans));
    static_cast<void>(must(std::move(made)));
  }

  async::Context& context;
  TempDir dir;
  SnapshotStore snapshots;
  VolumeStore volumes;
};

void with_rig(std::function<async::Task<void>(Rig&)> body) {
  run_coro([&body](async::Context& context) -> async::Task<void> {
    Rig rig(context);
    co_await body(rig);
  });
}

TEST_CASE("volumes: made once, with their owner; what is there is left alone") {
  with_rig([](Rig& rig) -> async::Task<void> {
    co_await rig.make({{.name = "data", .size_bytes = 0, .uid = 33, .gid = 34}});
    struct stat info{};
    REQUIRE(::lstat(rig.live("data").c_str(), &info) == 0);
    CHECK((info.st_mode & 07777U) == 0755);
    CHECK(info.st_uid == (::geteuid() == 0 ? 33U : ::geteuid()));
    write_file(rig.live("data/x"), "kept");
    co_await rig.make({{.name = "data", .uid = 0}, {.name = "more"}});
    CHECK(rig.read("data/x") == "kept");
    REQUIRE(::lstat(rig.live("data").c_str(), &info) == 0);
    CHECK(info.st_uid == 33);
    CHECK(fs::is_directory(rig.live("more")));
  });
}

TEST_CASE("volumes: saved, changed, restored: as they were, and nothing else") {
  with_rig([](Rig& rig) -> async::Task<void> {
    co_await rig.make({{.name = "data"}, {.name = "log"}});
    write_file(rig.live("data/x"), "one");
    fs::create_directory(rig.live("data/sub"));
    const SnapshotStore::Opened saved = co_await rig.save("s1", {"data", "log"});
    REQUIRE(saved.manifest->volumes_size() == 2);
    CHECK(saved.manifest->volumes(0).entries() == 2);
    CHECK(saved.manifest->volumes(0).listing().size() == 32);
    write_file(rig.live("data/x"), "two");
    write_file(rig.live("data/new"), "new");
    co_await rig.make({{.name = "later"}});
    const Result<std::int64_t> foreseen = co_await rig.volumes.foresee(kUid, {"data", "log"});
    CHECK(*foreseen > 0);
    must(co_await rig.volumes.verify(saved));
    must(co_await rig.volumes.restore(kUid, saved, nullptr));
    CHECK(rig.read("data/x") == "one");
    CHECK_FALSE(fs::exists(rig.live("data/new")));
    CHECK_FALSE(fs::exists(rig.live("later")));
    CHECK_FALSE(fs::exists(rig.dir.file(std::string("actors/") + kUid + "/volumes.new")));
    must(co_await rig.volumes.reset(kUid));
    CHECK_FALSE(fs::exists(rig.live("data")));
    must(co_await rig.volumes.remove(kUid, true));
    CHECK_FALSE(fs::exists(rig.live("")));
  });
}

TEST_CASE("volumes: a copy that is not what was saved is corrupt, and the live ones stay") {
  with_rig([](Rig& rig) -> async::Task<void> {
    co_await rig.make({{.name = "data"}});
    write_file(rig.live("data/x"), "one");
    const SnapshotStore::Opened saved = co_await rig.save("s1", {"data"});
    write_file(rig.live("data/x"), "two");
    const std::string copy = rig.dir.file("snapshots/s1/volumes/data/");
    SECTION("longer") {
      write_file(copy + "x", "longer");
    }
    SECTION("one more") {
      write_file(copy + "y", "");
    }
    SECTION("one less") {
      fs::remove(copy + "x");
    }
    SECTION("another mode") {
      REQUIRE(::chmod((copy + "x").c_str(), 0640) == 0);
    }
    const Status verified = co_await rig.volumes.verify(saved);
    REQUIRE_FALSE(verified);
    CHECK(verified.error().code() == Errc::SnapshotCorrupt);
    const Status restored = co_await rig.volumes.restore(kUid, saved, nullptr);
    REQUIRE_FALSE(restored);
    CHECK(restored.error().code() == Errc::SnapshotCorrupt);
    CHECK(rig.read("data/x") == "two");
  });
}

TEST_CASE("volumes: a snapshot without its copies does not open") {
  with_rig([](Rig& rig) -> async::Task<void> {
    co_await rig.make({{.name = "data"}});
    const SnapshotStore::Opened saved = co_await rig.save("s1", {"data"});
    fs::remove_all(rig.dir.file("snapshots/s1/volumes/data"));
    const std::string text =
        must(os::read_file(rig.dir.file("snapshots/s1/manifest.json"), 1 << 20));
    const Result<SnapshotStore::Opened> again =
        co_await rig.snapshots.open("s1", artifacts::sha256_text(text));
    REQUIRE_FALSE(again);
    CHECK(again.error().code() == Errc::SnapshotCorrupt);
    CHECK_THAT(again.error().message(), ate::test::Contains("volume data is missing"));
  });
}

TEST_CASE("volumes: a fork gets copies of its own") {
  with_rig([](Rig& rig) -> async::Task<void> {
    co_await rig.make({{.name = "data"}});
    write_file(rig.live("data/x"), "one");
    const SnapshotStore::Opened saved = co_await rig.save("s1", {"data"});
    const std::string other = "01jdz0000000000000000000b2";
    must(co_await rig.volumes.restore(other, saved, nullptr));
    const std::string path = rig.dir.file("actors/" + other + "/volumes/data/x");
    write_file(path, "theirs");
    CHECK(rig.read("data/x") == "one");
    must(co_await rig.volumes.verify(saved));
  });
}

}  // namespace
