// The sizes of volumes, on a file system that keeps projects in a table. The real thing: tests/vm.
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "ate/artifacts/volumes.hpp"
#include "ate/os/fs.hpp"
#include "ate/os/project_quota.hpp"
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
constexpr std::uint32_t kFirst = 0x41540000;

class FakeQuota final : public os::ProjectQuota {
 public:
  explicit FakeQuota(std::string top) : top_(std::move(top)) {}

  Status enforced(const UniqueFd& /*directory*/) override {
    return offered ? Status{} : Status(fail(Errc::Unavailable, "not here"));
  }

  Result<std::uint32_t> project_of(int file) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = projects_.find(key(file));
    return found == projects_.end() ? above : found->second;
  }

  Status set_project(int file, std::uint32_t project, bool directory) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    projects_[key(file)] = project;
    order.push_back(directory);
    return {};
  }

  Result<os::ProjectUse> use_of(const UniqueFd& /*directory*/, std::uint32_t project) override {
    os::ProjectUse use;
    use.inodes = project == foreign ? 1 : 0;
    for (const auto& entry : fs::recursive_directory_iterator(top_)) {
      if (entry.is_directory() || entry.is_regular_file()) {
        use.inodes += project_at(entry.path()) == project ? 1 : 0;
      }
    }
    return use;
  }

  Status limit(const UniqueFd& /*directory*/, std::uint32_t project, std::int64_t bytes) override {
    if (refuses) {
      return fail(Errc::Internal, "no limit today");
    }
    limits[project] = bytes;
    return {};
  }

  std::uint32_t project_at(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return file ? *project_of(file.get()) : 0;
  }

  bool offered = true;
  bool refuses = false;
  std::uint32_t above = 0;  // of everything that was put into none
  std::uint32_t foreign = 0;
  std::map<std::uint32_t, std::int64_t> limits;
  std::vector<bool> order;

 private:
  using Key = std::pair<std::uint64_t, std::pair<std::int64_t, std::uint32_t>>;

  /// Numbers of removed files come again; their times of birth don't.
  static Key key(int file) {
    struct statx info{};
    REQUIRE(::statx(file, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &info) == 0);
    return {info.stx_ino, {info.stx_btime.tv_sec, info.stx_btime.tv_nsec}};
  }

  std::string top_;
  std::mutex mutex_;
  std::map<Key, std::uint32_t> projects_;
};

struct Rig {
  explicit Rig(async::Context& c)
      : quota(std::make_shared<FakeQuota>(dir.path())),
        snapshots(c, in(dir.file("snapshots"))),
        volumes(c, {dir.file("actors"), dir.file("snapshots"), quota}) {
    must(snapshots.prepare());
    must(volumes.prepare());
  }

  [[nodiscard]] std::string live(const std::string& name) const {
    return dir.file(std::string("actors/") + kUid + "/volumes/" + name);
  }

  [[nodiscard]] std::uint32_t project(const std::string& name) const {
    return quota->project_at(live(name));
  }

  async::Task<Volume> make(std::int64_t bytes) {
    std::vector<VolumePlan> plans{{.name = "data", .size_bytes = bytes}};
    Result<std::vector<Volume>> made = co_await volumes.make(kUid, std::move(plans));
    co_return must(std::move(made)).at(0);
  }

  TempDir dir;
  std::shared_ptr<FakeQuota> quota;
  SnapshotStore snapshots;
  VolumeStore volumes;
};

void with_rig(std::function<async::Task<void>(Rig&)> body) {
  run_coro([&body](async::Context& context) -> async::Task<void> {
    Rig rig(context);
    co_await body(rig);
  });
}

TEST_CASE("volume quota: each volume is a project of its own, another size another limit") {
  with_rig([](Rig& rig) -> async::Task<void> {
    rig.quota->foreign = kFirst;
    const Volume made = co_await rig.make(1 << 20);
    CHECK(made.enforced);
    CHECK(made.why_not.empty());
    CHECK(rig.project("data") == kFirst + 1);  // the first one is somebody else's
    CHECK(rig.quota->limits[kFirst + 1] == 1 << 20);
    co_await rig.make(2 << 20);
    CHECK(rig.project("data") == kFirst + 1);
    CHECK(rig.quota->limits[kFirst + 1] == 2 << 20);
    co_await rig.make(0);
    CHECK(rig.quota->limits[kFirst + 1] == 0);
    co_await rig.make(1 << 20);
    must(co_await rig.volumes.remove(kUid, true));
    CHECK(rig.quota->limits[kFirst + 1] == 0);
    co_await rig.make(1 << 20);
    CHECK(rig.project("data") == kFirst + 2);  // not the one that was just given back
  });
}

TEST_CASE("volume quota: what is in a volume already is taken along, the top last") {
  with_rig([](Rig& rig) -> async::Task<void> {
    fs::create_directories(rig.live("data/sub"));
    write_file(rig.live("data/sub/x"), "kept");
    fs::create_symlink("nowhere", rig.live("data/link"));
    const Volume none = co_await rig.make(0);
    CHECK(rig.project("data") == 0);  // without a size there is no need
    const Volume made = co_await rig.make(1 << 20);
    CHECK(made.enforced);
    for (const char* name : {"data", "data/sub", "data/sub/x"}) {
      CHECK(rig.project(name) == kFirst);
    }
    CHECK(rig.quota->order == std::vector<bool>{false, true, true});
  });
}

TEST_CASE("volume quota: a copy that comes back is not limited while it is made") {
  with_rig([](Rig& rig) -> async::Task<void> {
    co_await rig.make(1 << 20);
    Result<std::string> begun = co_await rig.snapshots.begin("s1");
    const auto saved = manifest();
    saved->set_scope("DATA");
    must(co_await rig.volumes.save(kUid, {"data"}, must(std::move(begun)), saved, nullptr));
    Result<SnapshotStore::Sealed> sealed = co_await rig.snapshots.seal("s1", saved);
    const std::string sha256 = must(std::move(sealed)).manifest_sha256;
    Result<SnapshotStore::Opened> opened = co_await rig.snapshots.open("s1", sha256);
    const SnapshotStore::Opened snapshot = must(std::move(opened));
    CHECK(rig.quota->project_at(rig.dir.file("snapshots/s1/volumes/data")) == 0);
    rig.quota->limits[kFirst + 1] = 4096;  // that some earlier volume left
    must(co_await rig.volumes.restore(kUid, snapshot, nullptr));
    CHECK(rig.project("data") == kFirst + 1);
    CHECK(rig.quota->limits[kFirst + 1] == 0);
    CHECK(rig.quota->limits[kFirst] == 0);  // the volume that was there before
    const Volume made = co_await rig.make(1 << 20);
    CHECK(made.enforced);
    CHECK(rig.project("data") == kFirst + 1);
    CHECK(rig.quota->limits[kFirst + 1] == 1 << 20);
  });
}

TEST_CASE("volume quota: where it can't be enforced the volume says why") {
  with_rig([](Rig& rig) -> async::Task<void> {
    std::string why;
    SECTION("the limit is refused") {
      rig.quota->refuses = true;
      why = "no limit today";
    }
    SECTION("not offered") {
      rig.quota->offered = false;
      why = "not here";
    }
    SECTION("the state directory is in a project of somebody else's") {
      rig.quota->above = 7;
      why = "the state directory itself is in project 7";
    }
    must(rig.volumes.prepare());
    const Volume made = co_await rig.make(1 << 20);
    CHECK_FALSE(made.enforced);
    CHECK(made.why_not == why);
    CHECK(fs::is_directory(rig.live("data")));
  });
}

}  // namespace
