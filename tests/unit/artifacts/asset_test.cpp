#include <sys/stat.h>
#include <utime.h>

#include "fixture.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;
using artifacts::AssetStore;
using ate::test::Contains;

namespace {

constexpr const char* kDigest =
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";  // of "test"

Result<std::string> import(const TempDir& dir, const std::string& path,
                           const std::string& expected) {
  return run_coro([&](async::Context& context) -> async::Task<Result<std::string>> {
    AssetStore store(context, dir.file("assets"));
    must(store.prepare());
    co_return co_await store.import(path, expected);
  });
}

std::string refusal(const TempDir& dir, const std::string& path, const std::string& expected) {
  const Result<std::string> result = import(dir, path, expected);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code() == Errc::AssetInvalid);
  return result.error().message();
}

}  // namespace

TEST_CASE("asset: a file is copied in under its digest, executable, once") {
  const TempDir dir;
  write_file(dir.file("runsc"), "test");
  CHECK(import(dir, dir.file("runsc"), "").value() == kDigest);
  CHECK(import(dir, dir.file("runsc"), kDigest).value() == kDigest);
  const std::string copy = dir.file("assets/sha256/" + std::string(kDigest).substr(7));
  CHECK(read_file(copy) == "test");
  CHECK(std::filesystem::status(copy).permissions() == std::filesystem::perms(0755));
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.file("assets/sha256"))) {
    count += entry.exists() ? 1 : 0;
  }
  CHECK(count == 1);
}

TEST_CASE("asset: path_of finds what is there and says what is not") {
  const TempDir dir;
  write_file(dir.file("runsc"), "test");
  run_coro([&](async::Context& context) -> async::Task<void> {
    AssetStore store(context, dir.file("assets"));
    must(store.prepare());
    CHECK_FALSE(store.path_of(kDigest).has_value());
    auto imported = co_await store.import(dir.file("runsc"), "");
    CHECK(store.path_of(must(std::move(imported))).value() ==
          dir.file("assets/sha256/" + std::string(kDigest).substr(7)));
    CHECK_THAT(store.path_of("sha256:../../x").error().message(), Contains("is not an asset's"));
  });
}

TEST_CASE("asset: a wrong digest is refused and both are named") {
  const TempDir dir;
  write_file(dir.file("runsc"), "test");
  const std::string other = "sha256:" + std::string(64, 'b');
  CHECK_THAT(refusal(dir, dir.file("runsc"), other), Contains(kDigest) && Contains(other));
  for (const std::string& odd : {std::string("sha256:ABC"), std::string(64, 'b'),
                                 "sha512:" + std::string(64, 'b'), other + " "}) {
    CHECK_THAT(refusal(dir, dir.file("runsc"), odd), Contains("64 lower-case digits"));
  }
}

TEST_CASE("asset: only a plain file that nobody else can write is taken") {
  const TempDir dir;
  const std::string path = dir.file("runsc");
  SECTION("missing") {
    CHECK_THAT(refusal(dir, path, ""), Contains("No such file"));
  }
  SECTION("symlink") {
    std::filesystem::create_symlink("/bin/sh", path);
    CHECK_THAT(refusal(dir, path, ""), Contains("symbolic link"));
  }
  SECTION("FIFO") {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK_THAT(refusal(dir, path, ""), Contains("not a regular file"));
  }
  SECTION("directory") {
    CHECK_THAT(refusal(dir, dir.path(), ""), Contains("not a regular file"));
  }
  SECTION("writable by the group") {
    write_file(path, "test");
    std::filesystem::permissions(path, std::filesystem::perms(0775));
    CHECK_THAT(refusal(dir, path, ""), Contains("chmod go-w"));
  }
  SECTION("empty") {
    write_file(path, "");
    CHECK_THAT(refusal(dir, path, ""), Contains("0 bytes"));
  }
  SECTION("larger than any binary") {
    write_file(path, "");
    std::filesystem::resize_file(path, (1ULL << 30U) + 1);
    CHECK_THAT(refusal(dir, path, ""), Contains("1073741825 bytes"));
  }
}

TEST_CASE("asset: a damaged or foreign copy is replaced, an unfinished one removed") {
  const TempDir dir;
  write_file(dir.file("runsc"), "test");
  const std::string copy = dir.file("assets/sha256/" + std::string(kDigest).substr(7));
  std::filesystem::create_directories(dir.file("assets/sha256"));
  write_file(copy, "te");
  write_file(dir.file("assets/sha256/.import-0123"), "half");
  CHECK(import(dir, dir.file("runsc"), "").value() == kDigest);
  CHECK(read_file(copy) == "test");
  CHECK_FALSE(std::filesystem::exists(dir.file("assets/sha256/.import-0123")));
}

TEST_CASE("asset: a source that changed is hashed again") {
  const TempDir dir;
  write_file(dir.file("runsc"), "test");
  std::string first;
  std::string second;
  run_coro([&](async::Context& context) -> async::Task<void> {
    AssetStore store(context, dir.file("assets"));
    must(store.prepare());
    auto one = co_await store.import(dir.file("runsc"), "");
    first = must(std::move(one));
    write_file(dir.file("runsc.new"), "tesT");
    std::filesystem::rename(dir.file("runsc.new"), dir.file("runsc"));
    auto two = co_await store.import(dir.file("runsc"), "");
    second = must(std::move(two));
  });
  CHECK(first == kDigest);
  CHECK(second != first);
}
