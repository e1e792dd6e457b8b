// Which files of which levels are read, on ordinary directory trees.
#include "ate/os/cgroup_limits.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "ate/os/fs.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace ate;

namespace {

os::CgroupPlace place(const test::TempDir& dir, const std::string& relative) {
  return {dir.path(), relative};
}

std::map<std::string, std::string> by_name(const test::TempDir& dir,
                                           const os::CgroupLimitFiles& limits) {
  std::map<std::string, std::string> out;
  for (const auto& [path, text] : limits.files) {
    out[path.substr(dir.path().size() + 1)] = text;
  }
  return out;
}

std::vector<os::MountEntry> mounts(std::string_view text) {
  return os::parse_mountinfo(text);
}

constexpr std::string_view kHybrid =
    "30 25 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
    "31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    "32 30 0:28 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
    "33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
    "34 30 0:30 / /sys/fs/cgroup/systemd rw,nosuid - cgroup cgroup rw,xattr,name=systemd\n"
    "35 30 0:28 /box /mnt/box rw,nosuid - cgroup cgroup rw,memory\n";

}  // namespace

TEST_CASE("cgroup limits: every level from the mount down, only files that limit") {
  const test::TempDir dir;
  REQUIRE(os::make_dirs(dir.file("a/b/w"), 0700));
  test::write_file(dir.file("cgroup.controllers"), "cpu memory\n");
  test::write_file(dir.file("a/memory.max"), "1073741824\n");
  test::write_file(dir.file("a/memory.current"), "12\n");
  test::write_file(dir.file("a/b/memory.high"), "max\n");
  test::write_file(dir.file("a/b/cpu.max"), "max 100000\n");
  test::write_file(dir.file("a/b/w/pids.max"), "4096\n");
  test::write_file(dir.file("a/b/w/hugetlb.2MB.max"), "0\n");
  test::write_file(dir.file("other"), "");
  const os::CgroupLimitFiles limits = os::read_cgroup_limits(place(dir, "a/b/w")).value();
  CHECK(by_name(dir, limits) ==
        std::map<std::string, std::string>{{"a/memory.max", "1073741824\n"},
                                           {"a/b/memory.high", "max\n"},
                                           {"a/b/cpu.max", "max 100000\n"},
                                           {"a/b/w/pids.max", "4096\n"},
                                           {"a/b/w/hugetlb.2MB.max", "0\n"}});
  struct stat info{};
  REQUIRE(::stat(dir.file("a/b/w").c_str(), &info) == 0);
  CHECK(limits.inode == info.st_ino);
  CHECK(os::read_cgroup_limits(place(dir, "a")).value().files.size() == 1);
  CHECK(os::read_cgroup_limits(place(dir, "")).value().files.empty());
}

TEST_CASE("cgroup limits: what is missing is NotFound, what can't be read names its file") {
  const test::TempDir dir;
  REQUIRE(os::make_dirs(dir.file("a/w"), 0700));
  CHECK(os::read_cgroup_limits(place(dir, "a/x")).error().code() == Errc::NotFound);
  CHECK(os::read_cgroup_limits(place(dir, "../a")).error().code() == Errc::InvalidValue);
  CHECK(os::read_cgroup_limits(place(dir, "a//w")).error().code() == Errc::InvalidValue);
  REQUIRE(::symlink("w", dir.file("a/link").c_str()) == 0);
  CHECK_FALSE(os::read_cgroup_limits(place(dir, "a/link")));
  REQUIRE(os::make_dirs(dir.file("a/w/memory.max"), 0700));  // reading it fails with EISDIR
  const auto unreadable = os::read_cgroup_limits(place(dir, "a/w"));
  REQUIRE_FALSE(unreadable);
  CHECK(unreadable.error().message().find("a/w/memory.max") != std::string::npos);
  REQUIRE(::rmdir(dir.file("a/w/memory.max").c_str()) == 0);
  test::write_file(dir.file("a/w/memory.max"), std::string(5000, '1'));
  CHECK_FALSE(os::read_cgroup_limits(place(dir, "a/w")));
}

TEST_CASE("cgroup limits: the places of a process in v2, v1 and hybrid hosts") {
  const std::string cgroup =
      "9:name=systemd:/init.scope\n4:memory:/box/inner\n1:cpu,cpuacct:/\n0::/system.slice/"
      "x.service\n";
  const std::vector<os::CgroupPlace> hybrid = os::find_cgroup_places(cgroup, mounts(kHybrid));
  REQUIRE(hybrid.size() == 3);
  CHECK(hybrid[0].mount_point == "/sys/fs/cgroup/memory");
  CHECK(hybrid[0].relative == "box/inner");
  CHECK(hybrid[1].mount_point == "/sys/fs/cgroup/cpu,cpuacct");
  CHECK(hybrid[1].relative.empty());
  CHECK(hybrid[2].relative == "system.slice/x.service");

  const std::string_view bound =
      "31 30 0:27 /outer/a /mnt/cg rw - cgroup2 cgroup2 rw\n";  // a bind-mounted subtree
  const auto inside = os::find_cgroup_places("0::/outer/a/b\n", mounts(bound));
  REQUIRE(inside.size() == 1);
  CHECK(inside[0].relative == "b");
  // A namespace whose root lies elsewhere: only the mount itself can be seen.
  CHECK(os::find_cgroup_places("0::/../..\n", mounts(bound)).at(0).relative.empty());
  CHECK(os::find_cgroup_places("0::/\n", mounts("")).empty());
  CHECK(os::find_cgroup_places("garbage\n:\n0:\n", mounts(kHybrid)).empty());
}

TEST_CASE("cgroup limits: a directory belongs to the innermost mount") {
  const auto list = mounts(kHybrid);
  const os::CgroupPlace box = os::locate_cgroup("/mnt/box/w/3", list).value();
  CHECK(box.mount_point == "/mnt/box");
  CHECK(box.relative == "w/3");
  CHECK(os::locate_cgroup("/sys/fs/cgroup/unified", list).value().relative.empty());
  CHECK(os::locate_cgroup("/sys/fs/cgroup/unifiedx", list).error().code() == Errc::NotFound);
}
