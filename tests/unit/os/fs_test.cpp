#include "ate/os/fs.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace ate;

namespace {

mode_t mode_of(const std::string& path) {
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777U;
}

}  // namespace

TEST_CASE("read_file: bounded, exactly the limit is fine, missing is NotFound") {
  const test::TempDir dir;
  const std::string path = dir.file("f");
  test::write_file(path, std::string(40000, 'x'));
  REQUIRE(os::read_file(path, 40000).value().size() == 40000);
  const Result<std::string> longer = os::read_file(path, 39999);
  REQUIRE(longer.error().code() == Errc::InvalidValue);
  REQUIRE(os::read_file(dir.file("missing"), 10).error().code() == Errc::NotFound);
  REQUIRE(os::read_file("/proc/self/status", 1 << 20).value().find("Pid:") != std::string::npos);
  test::write_file(path, "");
  REQUIRE(os::read_file(path, 0).value().empty());
}

TEST_CASE("read_file: a FIFO in the file's place does not block") {
  const test::TempDir dir;
  REQUIRE(::mkfifo(dir.file("fifo").c_str(), 0600) == 0);
  REQUIRE(os::read_file(dir.file("fifo"), 10).value().empty());
}

TEST_CASE("write_file_atomic: replaces content and mode, leaves no temporary") {
  const test::TempDir dir;
  const mode_t before = ::umask(0077);
  REQUIRE(os::write_file_atomic(dir.file("f"), "one", 0644));
  REQUIRE(os::write_file_atomic(dir.file("f"), "two", 0640));
  ::umask(before);
  REQUIRE(os::read_file(dir.file("f"), 10).value() == "two");
  REQUIRE(mode_of(dir.file("f")) == 0640);
  REQUIRE(os::list_dir(dir.path()).value() == std::vector<std::string>{"f"});
}

TEST_CASE("write_file_atomic: a failure keeps the old and removes the temporary") {
  const test::TempDir dir;
  REQUIRE(os::make_dir(dir.file("target"), 0700));
  test::write_file(dir.file("target/inside"), "");
  REQUIRE_FALSE(os::write_file_atomic(dir.file("target"), "x", 0600));
  REQUIRE(os::list_dir(dir.path()).value() == std::vector<std::string>{"target"});
  REQUIRE(os::write_file_atomic(dir.file("no/such/place"), "x", 0600).error().code() ==
          Errc::NotFound);
}

TEST_CASE("create_file: exact mode whatever the umask, never over what is there") {
  const test::TempDir dir;
  const mode_t before = ::umask(0077);
  REQUIRE(os::create_file(dir.file("f"), "one", 0644));
  ::umask(before);
  REQUIRE(mode_of(dir.file("f")) == 0644);
  const Status again = os::create_file(dir.file("f"), "two", 0644);
  REQUIRE_FALSE(again);
  REQUIRE(again.error().sys_errno() == EEXIST);
  REQUIRE(os::read_file(dir.file("f"), 10).value() == "one");
}

TEST_CASE("list_dir_at, remove_tree_at: an O_PATH directory will do, its offset stays") {
  const test::TempDir dir;
  REQUIRE(os::make_dirs(dir.file("a/b"), 0755));
  test::write_file(dir.file("a/b/f"), "x");
  REQUIRE(::symlink("a", dir.file("link").c_str()) == 0);
  const UniqueFd fd(::open(dir.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 2; ++i) {
    REQUIRE(os::list_dir_at(fd.get(), "x").value() == std::vector<std::string>{"a", "link"});
  }
  REQUIRE(os::remove_tree_at(fd.get(), "missing"));
  REQUIRE(os::remove_tree_at(fd.get(), "link"));
  REQUIRE(os::exists(dir.file("a/b/f")));
  REQUIRE(os::remove_tree_at(fd.get(), "a"));
  REQUIRE(os::list_dir_at(fd.get(), "x").value().empty());
}

TEST_CASE("make_dir: exact mode whatever the umask; an existing directory is fine, a file is not") {
  const test::TempDir dir;
  const mode_t before = ::umask(0077);
  REQUIRE(os::make_dirs(dir.file("a//b/c"), 0710));
  ::umask(before);
  REQUIRE(mode_of(dir.file("a")) == 0710);
  REQUIRE(mode_of(dir.file("a/b/c")) == 0710);
  REQUIRE(os::make_dir(dir.file("a"), 0777));
  REQUIRE(mode_of(dir.file("a")) == 0710);
  test::write_file(dir.file("f"), "");
  REQUIRE_FALSE(os::make_dir(dir.file("f"), 0700));
  REQUIRE_FALSE(os::make_dirs(dir.file("f/g"), 0700));
}

TEST_CASE("open_beneath: never above the directory, never through a link") {
  const test::TempDir dir;
  REQUIRE(os::make_dirs(dir.file("root/sub"), 0700));
  test::write_file(dir.file("outside"), "secret");
  test::write_file(dir.file("root/sub/f"), "fine");
  REQUIRE(::symlink("../outside", dir.file("root/link").c_str()) == 0);
  REQUIRE(::symlink("sub", dir.file("root/inner").c_str()) == 0);
  const UniqueFd root = os::open_dir(dir.file("root")).value();
  const Result<UniqueFd> good = os::open_beneath(root, "sub/f", O_RDONLY, 0);
  REQUIRE(good);
  REQUIRE(os::read_descriptor(good->get(), 10, "f").value() == "fine");
  for (const char* bad : {"../outside", "link", "inner/f", "/etc/passwd", "sub/../../outside"}) {
    REQUIRE_FALSE(os::open_beneath(root, bad, O_RDONLY, 0));
  }
  REQUIRE(os::open_beneath(root, "new", O_WRONLY | O_CREAT | O_EXCL, 0600));
  REQUIRE(os::open_beneath(root, "missing", O_RDONLY, 0600).error().code() == Errc::NotFound);
}

TEST_CASE("remove_tree: missing is fine, a file goes, a link goes and not what it names") {
  const test::TempDir dir;
  REQUIRE(os::remove_tree(dir.file("missing")));
  test::write_file(dir.file("kept"), "x");
  REQUIRE(os::make_dirs(dir.file("kept-dir/inside"), 0700));
  REQUIRE(os::make_dirs(dir.file("tree/a/b"), 0700));
  REQUIRE(::symlink("../kept", dir.file("tree/link").c_str()) == 0);
  REQUIRE(::symlink("../../kept-dir", dir.file("tree/a/dirlink").c_str()) == 0);
  REQUIRE(::symlink("kept-dir", dir.file("toplink").c_str()) == 0);
  REQUIRE(::mkfifo(dir.file("tree/a/fifo").c_str(), 0600) == 0);
  REQUIRE(os::remove_tree(dir.file("tree/")));
  REQUIRE(os::remove_tree(dir.file("toplink")));
  REQUIRE(os::list_dir(dir.path()).value() == std::vector<std::string>{"kept", "kept-dir"});
  REQUIRE(os::exists(dir.file("kept-dir/inside")));
}

TEST_CASE("rename_durably, is_same_filesystem") {
  const test::TempDir dir;
  REQUIRE(os::make_dir(dir.file("d"), 0700));
  test::write_file(dir.file("a"), "x");
  REQUIRE(os::rename_durably(dir.file("a"), dir.file("d/b")));
  REQUIRE(os::exists(dir.file("d/b")));
  REQUIRE(os::rename_durably(dir.file("a"), dir.file("c")).error().code() == Errc::NotFound);
  REQUIRE(os::is_same_filesystem(dir.path(), dir.file("d")).value());
  REQUIRE_FALSE(os::is_same_filesystem(dir.path(), "/proc").value());
  REQUIRE_FALSE(os::is_same_filesystem(dir.path(), dir.file("missing")));
  REQUIRE(os::parent_dir("/a/b") == "/a");
  REQUIRE(os::parent_dir("/a") == "/");
  REQUIRE(os::parent_dir("a") == ".");
}
