#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "ate/util/failpoint.hpp"
#include "fixture.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;
using artifacts::SnapshotStore;
using ate::test::Contains;

namespace {

/// Makes snapshot s1, lets `damage` loose on its directory, then opens it with a store that does
/// not know it (as after a restart) and verifies the payload: the error, or "".
struct Verdict {
  std::optional<Error> open_error;
  std::optional<Error> verify_error;
};

template <class Damage>
Verdict after(Damage damage) {
  const TempDir dir;
  Verdict verdict;
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore store(context, in(dir.file("snapshots")));
    must(store.prepare());
    const SnapshotStore::Sealed sealed = co_await make_snapshot(store, "s1");
    std::string sha256 = sealed.manifest_sha256;
    damage(dir.file("snapshots/s1"), sha256);
    SnapshotStore restarted(context, in(dir.file("snapshots")));
    Result<SnapshotStore::Opened> opened = co_await restarted.open("s1", sha256);
    if (!opened) {
      verdict.open_error = opened.error();
      co_return;
    }
    const Status verified = co_await restarted.verify_payload(*opened);
    if (!verified) {
      verdict.verify_error = verified.error();
    }
  });
  return verdict;
}

void rewrite(const std::string& directory, std::string& sha256, const std::string& from,
             const std::string& to) {
  const std::string path = directory + "/manifest.json";
  std::string text = read_file(path);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  write_file(path, text);
  sha256 = artifacts::sha256_text(text);
}

}  // namespace

TEST_CASE("snapshot: what was sealed opens, verifies and carries its manifest") {
  const TempDir dir;
  SnapshotStore::Sealed sealed;
  SnapshotStore::Opened opened;
  bool trusted_after_restart = true;
  bool trusted_after_verify = false;
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore store(context, in(dir.file("snapshots")));
    must(store.prepare());
    sealed = co_await make_snapshot(store, "s1");
    auto first = co_await store.open("s1", sealed.manifest_sha256);
    opened = must(std::move(first));
    const Status verified = co_await store.verify_payload(opened);
    must(verified);
    SnapshotStore restarted(context, in(dir.file("snapshots")));
    auto second = co_await restarted.open("s1", sealed.manifest_sha256);
    trusted_after_restart = must(second).trusted;
    const Status again = co_await restarted.verify_payload(*second);
    must(again);
    auto third = co_await restarted.open("s1", sealed.manifest_sha256);
    trusted_after_verify = must(third).trusted;
  });
  const std::string text = read_file(dir.file("snapshots/s1/manifest.json"));
  CHECK(sealed.manifest_sha256 == artifacts::sha256_text(text));
  CHECK(sealed.bytes == static_cast<std::int64_t>(3'000'005 + text.size()));
  CHECK(opened.directory == dir.file("snapshots/s1"));
  CHECK(opened.trusted);
  CHECK_FALSE(trusted_after_restart);
  CHECK(trusted_after_verify);
  REQUIRE(opened.manifest->files_size() == 3);
  CHECK(opened.manifest->files(1).name() == "pages.img");
  CHECK(opened.manifest->files(1).bytes() == 3'000'000);
  CHECK(opened.manifest->files(2).xxh3() == "99aa06d3014798d86001c324468d497f");  // of nothing
  CHECK(opened.manifest->oci_spec() == manifest()->oci_spec());
  CHECK(opened.manifest->id() == "s1");
  CHECK(opened.manifest->version() == 2);
  CHECK((std::filesystem::status(dir.file("snapshots/s1")).permissions() &
         std::filesystem::perms(077)) == std::filesystem::perms::none);
}

// case T32
TEST_CASE("snapshot: damage that shows without reading the payload is refused before a launch") {
  const auto open_error = [](auto damage) {
    const Verdict verdict = after(damage);
    REQUIRE(verdict.open_error);
    CHECK(verdict.open_error->code() == Errc::SnapshotCorrupt);
    return verdict.open_error->message();
  };
  namespace fs = std::filesystem;
  CHECK_THAT(open_error([](const std::string& dir, std::string&) {
               fs::resize_file(dir + "/pages.img", 65536);
             }),
             Contains("pages.img has 65536 of 3000000 bytes"));
  CHECK_THAT(open_error([](const std::string& dir, std::string&) {
               fs::resize_file(dir + "/pages.img", 4'000'000);
             }),
             Contains("has 4000000 of 3000000"));
  CHECK_THAT(
      open_error([](const std::string& dir, std::string&) { fs::remove(dir + "/pages.img"); }),
      Contains("pages.img is missing"));
  CHECK_THAT(open_error([](const std::string& dir, std::string&) {
               write_file(dir + "/pages2.img", "of another snapshot");
             }),
             Contains("pages2.img does not belong to it"));
  CHECK_THAT(open_error([](const std::string& dir, std::string&) {
               fs::remove(dir + "/pages.img");
               fs::create_symlink("/etc/passwd", dir + "/pages.img");
             }),
             Contains("neither a file nor a directory"));
  CHECK_THAT(
      open_error([](const std::string& dir, std::string&) { fs::remove(dir + "/manifest.json"); }),
      Contains("manifest.json is missing"));
  CHECK_THAT(open_error([](const std::string&, std::string& sha256) { sha256[0] ^= 1; }),
             Contains("has digest"));
  CHECK_THAT(open_error([](const std::string& dir, std::string&) { fs::remove_all(dir); }),
             Contains("directory is missing"));
  CHECK_THAT(open_error([](const std::string& dir, std::string&) {
               fs::remove_all(dir);
               write_file(dir, "in the way");
             }),
             Contains("is not a directory"));
  CHECK_THAT(open_error([](const std::string& dir, std::string&) {
               fs::rename(dir, dir + ".moved");
               fs::create_directory_symlink(dir + ".moved", dir);
             }),
             Contains("is not a directory"));
  CHECK_THAT(open_error([](const std::string& dir, std::string&) {
               fs::permissions(dir, fs::perms(0750));
             }),
             Contains("mode 0700"));
}

// case T32
TEST_CASE("snapshot: a manifest that its own digest covers is still not believed blindly") {
  const auto refused = [](const std::string& from, const std::string& to) {
    const Verdict verdict =
        after([&](const std::string& dir, std::string& sha256) { rewrite(dir, sha256, from, to); });
    REQUIRE(verdict.open_error);
    return *verdict.open_error;
  };
  CHECK_THAT(refused("\"id\":\"s1\"", "\"id\":\"s2\"").message(), Contains("is that of s2"));
  CHECK_THAT(refused("\"name\":\"pages.img\"", "\"name\":\"../x.img\"").message(),
             Contains("malformed entry"));
  CHECK_THAT(refused("\"kind\"", "\"kinb\"").message(), Contains("can't be read"));
  const Error newer = refused("\"version\":2", "\"version\":3,\"novelty\":{}");
  CHECK(newer.code() == Errc::SnapshotIncompatible);
  CHECK_THAT(newer.message(), Contains("newer ate-noded"));
}

// case T32
TEST_CASE("snapshot: one flipped bit of the payload is found by verification") {
  const Verdict verdict = after([](const std::string& dir, std::string&) {
    std::string content = read_file(dir + "/pages.img");
    content[2'999'999] ^= 1;
    write_file(dir + "/pages.img", content);
  });
  CHECK_FALSE(verdict.open_error);
  REQUIRE(verdict.verify_error);
  CHECK(verdict.verify_error->code() == Errc::SnapshotCorrupt);
  CHECK_THAT(verdict.verify_error->message(), Contains("pages.img is damaged"));
}

TEST_CASE("snapshot: a file rewritten with the same bytes is no longer trusted") {
  const TempDir dir;
  bool trusted = true;
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore store(context, in(dir.file("snapshots")));
    must(store.prepare());
    const SnapshotStore::Sealed sealed = co_await make_snapshot(store, "s1");
    write_file(dir.file("snapshots/s1/copy"), "state");
    std::filesystem::rename(dir.file("snapshots/s1/copy"), dir.file("snapshots/s1/checkpoint.img"));
    auto opened = co_await store.open("s1", sealed.manifest_sha256);
    trusted = must(std::move(opened)).trusted;
  });
  CHECK_FALSE(trusted);
}

TEST_CASE("snapshot: directories of the payload are part of it") {
  const TempDir dir;
  std::vector<std::string> names;
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore store(context, in(dir.file("snapshots")));
    must(store.prepare());
    auto begun = co_await store.begin("s1");
    std::filesystem::create_directories(*begun + "/pages/data");
    write_file(*begun + "/pages/data/a", "a");
    write_file(*begun + "/b", "b");
    auto sealed = co_await store.seal("s1", manifest());
    must(sealed);
    auto opened = co_await store.open("s1", sealed->manifest_sha256);
    const auto kept = must(std::move(opened)).manifest;
    for (const auto& file : kept->files()) {
      names.push_back(file.name());
    }
  });
  CHECK(names == std::vector<std::string>{"b", "pages/data/a"});
}

TEST_CASE("snapshot: what is no plain payload is not sealed") {
  const TempDir dir;
  std::vector<std::string> errors;
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore store(context, in(dir.file("snapshots")));
    must(store.prepare());
    auto empty = co_await store.begin("s1");
    must(std::move(empty));
    auto nothing = co_await store.seal("s1", manifest());
    errors.push_back(nothing.error().message());
    auto again = co_await store.begin("s1");
    std::filesystem::create_symlink("/etc/passwd", must(std::move(again)) + "/link");
    auto linked = co_await store.seal("s1", manifest());
    errors.push_back(linked.error().message());
    auto missing = co_await store.seal("s2", manifest());
    errors.push_back(missing.error().message());
    auto path = co_await store.begin("../s1");
    errors.push_back(path.error().message());
  });
  CHECK_THAT(errors[0], Contains("no payload"));
  CHECK_THAT(errors[1], Contains("neither a file nor a directory"));
  CHECK_FALSE(errors[2].empty());
  CHECK_THAT(errors[3], Contains("can't be a snapshot's id"));
}

TEST_CASE("snapshot: begin clears what a crash left and never touches a whole one") {
  const TempDir dir;
  std::string taken;
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore store(context, in(dir.file("snapshots")));
    must(store.prepare());
    std::filesystem::create_directories(dir.file("snapshots/s1.partial/old"));
    co_await make_snapshot(store, "s1");
    auto again = co_await store.begin("s1");
    taken = again.error().message();
  });
  CHECK_THAT(taken, Contains("exists already"));
  CHECK_FALSE(std::filesystem::exists(dir.file("snapshots/s1/old")));
}

TEST_CASE("snapshot: list tells whole ones from remains; remove takes both and may be repeated") {
  const TempDir dir;
  SnapshotStore::Listing before;
  SnapshotStore::Listing afterwards;
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore store(context, in(dir.file("snapshots")));
    must(store.prepare());
    co_await make_snapshot(store, "s1");
    co_await make_snapshot(store, "s2");
    for (const char* name : {"s3.partial/x", ".trash-s4/y", "lost+found", "Strange"}) {
      std::filesystem::create_directories(dir.file(std::string("snapshots/") + name));
    }
    auto listed = co_await store.list();
    before = must(std::move(listed));
    for (int round = 0; round < 2; ++round) {
      for (const char* id : {"s1", "s3", "s4", "never"}) {
        const Status removed = co_await store.remove(id);
        must(removed);
      }
    }
    auto again = co_await store.list();
    afterwards = must(std::move(again));
  });
  CHECK(before.complete == std::vector<std::string>{"s1", "s2"});
  CHECK(before.partial == std::vector<std::string>{"s3", "s4"});
  CHECK(afterwards.complete == std::vector<std::string>{"s2"});
  CHECK(afterwards.partial.empty());
  CHECK(std::filesystem::exists(dir.file("snapshots/lost+found")));
}

// case T11
TEST_CASE(
    "snapshot: kill -9 at any step leaves no snapshot or a whole one, and remove clears both") {
  if (!failpoints_enabled()) {
    WARN("skipped: built without failpoints");
    return;
  }
  const TempDir dir;
  const auto [name, whole] = GENERATE(std::pair<const char*, bool>{"seal-after-payload", false},
                                      std::pair<const char*, bool>{"seal-before-rename", false},
                                      std::pair<const char*, bool>{"seal-after-rename", true});
  const std::string directory = dir.file("snapshots");
  const pid_t pid = ::fork();  // SAFETY: this process has one thread between tests
  if (pid == 0) {
    ::setenv("ATE_FAILPOINT", (std::string(name) + "=kill").c_str(), 1);
    run_coro([&](async::Context& context) -> async::Task<void> {
      SnapshotStore store(context, in(directory));
      must(store.prepare());
      co_await make_snapshot(store, "s1");
    });
    ::_exit(1);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFSIGNALED(status));
  SnapshotStore::Listing left;
  SnapshotStore::Listing cleared;
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore store(context, in(directory));
    auto listed = co_await store.list();
    left = must(std::move(listed));
    const Status removed = co_await store.remove("s1");
    must(removed);
    auto again = co_await store.list();
    cleared = must(std::move(again));
  });
  CHECK(left.complete.size() == (whole ? 1 : 0));
  CHECK(left.partial.size() == (whole ? 0 : 1));
  CHECK(cleared.complete.empty());
  CHECK(cleared.partial.empty());
}

// case T13
TEST_CASE("snapshot: a removal that was interrupted is finished by the next one") {
  if (!failpoints_enabled()) {
    WARN("skipped: built without failpoints");
    return;
  }
  const TempDir dir;
  ::setenv("ATE_FAILPOINT", "snapshot-remove-after-rename=error", 1);
  Status first;
  SnapshotStore::Listing between;
  SnapshotStore::Listing cleared;
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore store(context, in(dir.file("snapshots")));
    must(store.prepare());
    co_await make_snapshot(store, "s1");
    first = co_await store.remove("s1");
    auto listed = co_await store.list();
    between = must(std::move(listed));
    const Status second = co_await store.remove("s1");
    must(second);
    auto again = co_await store.list();
    cleared = must(std::move(again));
  });
  ::unsetenv("ATE_FAILPOINT");
  CHECK_FALSE(first.has_value());
  CHECK(between.complete.empty());
  CHECK(between.partial == std::vector<std::string>{"s1"});
  CHECK(cleared.partial.empty());
}

TEST_CASE("snapshot: a manifest of version 1 is read by this build") {
  const TempDir dir;
  std::shared_ptr<v1alpha1::SnapshotManifest> read;
  const std::string text = read_file(std::string(ATE_TEST_FIXTURES) + "/manifests/v1.json");
  REQUIRE_FALSE(text.empty());
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore store(context, in(dir.file("snapshots")));
    must(store.prepare());
    const std::string path = dir.file("snapshots/01jdz0000000000000000000s1");
    std::filesystem::create_directory(path);
    std::filesystem::permissions(path, std::filesystem::perms(0700));
    write_file(path + "/manifest.json", text);
    write_file(path + "/checkpoint.img", "state");
    write_file(path + "/pages.img", std::string(4096, 'p'));
    auto opened = co_await store.open("01jdz0000000000000000000s1", artifacts::sha256_text(text));
    read = must(opened).manifest;
    const Status verified = co_await store.verify_payload(*opened);
    must(verified);
  });
  CHECK(read->actor().name() == "c1");
  CHECK(read->template_().generation() == 3);
  CHECK(read->sandbox_class() == v1alpha1::SandboxClass::gvisor);
  CHECK(read->assets().at("runsc") == "sha256:" + std::string(64, 'a'));
  CHECK(read->memory_bytes() == 998244352);
  CHECK(read->cpu_features_size() == 2);
  CHECK(read->runtime().at("platform") == "kvm");
}

TEST_CASE("snapshot: check_space names what is needed and what is there") {
  const TempDir dir;
  Status refused;
  Status fits;
  run_coro([&](async::Context& context) -> async::Task<void> {
    SnapshotStore::Options options = in(dir.path());
    fits = SnapshotStore(context, options).check_space(1);
    options.reserve_bytes = 1LL << 60;
    refused = SnapshotStore(context, options).check_space(5);
    co_return;
  });
  CHECK(fits.has_value());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::DiskFull);
  std::vector<std::string> keys;
  for (const auto& [key, value] : refused.error().members()) {
    keys.push_back(key);
  }
  CHECK(keys == std::vector<std::string>{"neededBytes", "freeBytes", "reserveBytes"});
}
