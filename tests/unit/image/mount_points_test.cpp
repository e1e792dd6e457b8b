#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <string>

#include "ate/image/image.hpp"
#include "support/catch.hpp"
#include "tree_support.hpp"

using namespace ate;
using image::check_mount_points;
using image::MountPoint;

namespace fs = std::filesystem;

TEST_CASE("mount points: what can't be mounted over is refused by name, nothing is opened") {
  const test::TempDir dir;
  const std::string root = dir.file("root");
  fs::create_directories(root + "/etc/dir");
  test::write_file(root + "/etc/file", "x");
  REQUIRE(::mkfifo((root + "/etc/fifo").c_str(), 0644) == 0);
  fs::create_symlink("../../../../../../etc/file", root + "/etc/up");
  fs::create_symlink("/nowhere/at/all", root + "/etc/dangling");
  fs::create_symlink("loop", root + "/etc/loop");
  fs::create_symlink("fifo", root + "/etc/to-fifo");
  // Outside of the root it would be a FIFO, inside there is nothing.
  REQUIRE(::mkfifo(dir.file("outside").c_str(), 0644) == 0);
  fs::create_symlink(dir.file("outside"), root + "/etc/out");

  struct Row {
    const char* path;
    bool is_directory;
    const char* problem;  // "" = fine
  };

  for (const Row& row :
       {Row{"/etc/file", false, ""}, Row{"/etc/missing", false, ""}, Row{"/missing/too", true, ""},
        Row{"/etc/dir", true, ""}, Row{"/etc/up", false, ""}, Row{"/etc/dangling", false, ""},
        Row{"/etc/out", false, ""}, Row{"/etc/fifo", false, "a FIFO"},
        Row{"/etc/to-fifo", false, "a FIFO"}, Row{"/etc/fifo", true, "a FIFO"},
        Row{"/etc/dir", false, "a directory"}, Row{"/etc/file", true, "a file"},
        Row{"/etc/file/x", false, "a file in the place of a directory"},
        Row{"/etc/loop", false, "a loop of symbolic links"}}) {
    INFO(row.path);
    const Status checked = check_mount_points(root, {MountPoint{row.path, row.is_directory}});
    if (std::string(row.problem).empty()) {
      REQUIRE(checked);
      continue;
    }
    REQUIRE_FALSE(checked);
    REQUIRE(checked.error().code() == Errc::ImageInvalid);
    REQUIRE(checked.error().message().starts_with("the image has " + std::string(row.problem) +
                                                  " at '" + row.path + "'"));
  }
}
