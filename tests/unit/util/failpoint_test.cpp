#include "ate/util/failpoint.hpp"

#include <cstdlib>
#include <filesystem>

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace ate;

namespace {

struct Armed {
  explicit Armed(const std::string& value) { ::setenv("ATE_FAILPOINT", value.c_str(), 1); }

  ~Armed() { ::unsetenv("ATE_FAILPOINT"); }

  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;
};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("failpoint: one that a file arms acts once, and removes the file") {
  if (!failpoints_enabled()) {
    WARN("skipped: built without failpoints");
    return;
  }
  const test::TempDir directory;
  const std::string file = directory.file("armed");
  const Armed armed("@" + file);
  CHECK_FALSE(failpoint("snapshot-gc"));  // no file: nothing is armed
  write(file, "snapshot-gc=error\n");
  CHECK_FALSE(failpoint("gvisor-kill"));
  CHECK(std::filesystem::exists(file));
  CHECK(failpoint("snapshot-gc"));
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK_FALSE(failpoint("snapshot-gc"));
  write(file, "gvisor-kill=error");
  CHECK(failpoint("gvisor-kill"));
}

TEST_CASE("failpoint: lines of a file act one after the other") {
  if (!failpoints_enabled()) {
    WARN("skipped: built without failpoints");
    return;
  }
  const test::TempDir directory;
  const std::string file = directory.file("armed");
  const Armed armed("@" + file);
  write(file, "gvisor-paused=pass\nsnapshot-gc=error\ngvisor-kill=error\n");
  CHECK_FALSE(failpoint("gvisor-kill"));
  CHECK_FALSE(failpoint("snapshot-gc"));
  CHECK_FALSE(failpoint("gvisor-paused"));
  CHECK(failpoint("snapshot-gc"));
  CHECK(std::filesystem::exists(file));
  CHECK(failpoint("gvisor-kill"));
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("failpoint: what is passed is written down where that is asked for") {
  if (!failpoints_enabled()) {
    WARN("skipped: built without failpoints");
    return;
  }
  const test::TempDir directory;
  const std::string file = directory.file("armed");
  const Armed armed("@" + file);
  CHECK_FALSE(failpoint("snapshot-gc"));
  CHECK_FALSE(std::filesystem::exists(file + ".passed"));
  write(file + ".passed", "");
  CHECK_FALSE(failpoint("gvisor-kill"));
  CHECK_FALSE(failpoint("snapshot-gc"));
  std::ifstream passed(file + ".passed");
  CHECK(std::string(std::istreambuf_iterator<char>(passed), {}) == "gvisor-kill\nsnapshot-gc\n");
}
