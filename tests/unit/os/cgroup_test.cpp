// What files are read and written, on an ordinary directory tree; the kernel's part is in
// priv_cgroup_test.cpp.
#include "ate/os/cgroup.hpp"

#include <string>
#include <vector>

#include "ate/os/fs.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace ate;

TEST_CASE("cgroup: controllers, processes and events are parsed") {
  const test::TempDir dir;
  test::write_file(dir.file("cgroup.controllers"), "cpu memory pids\n");
  test::write_file(dir.file("cgroup.procs"), "12\n345\n");
  test::write_file(dir.file("cgroup.events"), "populated 1\nfrozen 0\n");
  const os::Cgroup cgroup = os::Cgroup::open(dir.path()).value();
  REQUIRE(cgroup.controllers().value() == std::vector<std::string>{"cpu", "memory", "pids"});
  REQUIRE(cgroup.processes().value() == std::vector<pid_t>{12, 345});
  REQUIRE(cgroup.populated().value());
  test::write_file(dir.file("cgroup.events"), "populated 0\nfrozen 0\n");
  REQUIRE_FALSE(cgroup.populated().value());
}

TEST_CASE("cgroup: processes of the whole tree, children sorted, files are no children") {
  const test::TempDir dir;
  REQUIRE(os::make_dirs(dir.file("b"), 0700));
  REQUIRE(os::make_dirs(dir.file("a/leaf"), 0700));
  test::write_file(dir.file("cgroup.procs"), "");
  test::write_file(dir.file("a/cgroup.procs"), "1\n");
  test::write_file(dir.file("a/leaf/cgroup.procs"), "2\n3\n");
  test::write_file(dir.file("b/cgroup.procs"), "4\n");
  const os::Cgroup cgroup = os::Cgroup::open(dir.path()).value();
  REQUIRE(cgroup.children().value() == std::vector<std::string>{"a", "b"});
  REQUIRE(cgroup.all_processes().value() == std::vector<pid_t>{1, 2, 3, 4});
}

TEST_CASE("cgroup: which file gets which value, in order; a refused one takes the new child away") {
  const test::TempDir dir;
  test::write_file(dir.file("cgroup.subtree_control"), "");
  const os::Cgroup cgroup = os::Cgroup::open(dir.path()).value();
  REQUIRE(cgroup.enable({"cpu", "memory"}));
  REQUIRE(os::read_file(dir.file("cgroup.subtree_control"), 100).value() == "+cpu +memory");
  REQUIRE(cgroup.enable({}));

  const Result<os::Cgroup> refused = cgroup.make_child("w", {{"memory.max", "1"}});
  REQUIRE(refused.error().code() == Errc::NotFound);
  REQUIRE(refused.error().message().find("w/memory.max") != std::string::npos);
  REQUIRE_FALSE(os::exists(dir.file("w")));

  REQUIRE(os::make_dir(dir.file("w"), 0700));
  test::write_file(dir.file("w/memory.max"), "");
  test::write_file(dir.file("w/pids.max"), "");
  const Result<os::Cgroup> child =
      cgroup.make_child("w", {{"memory.max", "1073741824"}, {"pids.max", "max"}});
  REQUIRE(child);
  REQUIRE(child->path() == dir.file("w"));
  REQUIRE(child->read("memory.max").value() == "1073741824");
  REQUIRE(child->read("pids.max").value() == "max");
}

TEST_CASE("cgroup: names that are no names, missing directories, other file systems") {
  const test::TempDir dir;
  const os::Cgroup cgroup = os::Cgroup::open(dir.path()).value();
  for (const char* bad : {"", ".", "..", "a/b", "/a"}) {
    REQUIRE_FALSE(cgroup.make_child(bad, {}));
  }
  REQUIRE(os::Cgroup::open(dir.file("missing")).error().code() == Errc::NotFound);
  REQUIRE(cgroup.open_child("missing").error().code() == Errc::NotFound);
  REQUIRE_FALSE(os::is_cgroup2(dir.path()).value());
  REQUIRE(os::is_cgroup2(dir.file("missing")).error().code() == Errc::NotFound);
}
