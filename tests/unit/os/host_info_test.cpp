#include "ate/os/host_info.hpp"

#include <string>
#include <vector>

#include "ate/os/fs.hpp"
#include "ate/os/mount.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace ate;

namespace {

const char* const kMounts =
    "21 27 0:20 / /proc rw,relatime shared:5 - proc proc rw\n"
    "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
    "broken line\n"
    "40 27 0:36 /sub\\040dir /run/ate\\040x/netns/a.s rw shared:9 master:3 - tmpfs a\\134b rw\n"
    "41 27 0:4 net:[4026532289] /run/ate/netns/b.s rw - nsfs nsfs rw\n";

void write_proc(const test::TempDir& dir, const std::string& cpuinfo) {
  REQUIRE(os::make_dirs(dir.file("sys/kernel/random"), 0700));
  REQUIRE(os::make_dir(dir.file("self"), 0700));
  test::write_file(dir.file("sys/kernel/random/boot_id"), "0f5a1c3e-1111\n");
  test::write_file(dir.file("sys/kernel/osrelease"), "6.1.0-x\n");
  test::write_file(dir.file("cpuinfo"), cpuinfo);
  test::write_file(dir.file("meminfo"), "MemTotal:        8000000 kB\nMemFree: 1 kB\n");
  test::write_file(dir.file("self/mountinfo"), kMounts);
}

}  // namespace

TEST_CASE("host info: read from a proc tree; features are those of all CPUs, sorted") {
  const test::TempDir dir;
  write_proc(dir,
             "processor\t: 0\nmodel name\t: X\nflags\t\t: fpu sse2 avx512f aes\n\n"
             "processor\t: 1\nflags\t\t: sse2 fpu aes aes\n\n");
  const Result<os::HostInfo> info = os::read_host_info(dir.path());
  REQUIRE(info);
  REQUIRE(info->boot_id == "0f5a1c3e-1111");
  REQUIRE(info->kernel_release == "6.1.0-x");
  REQUIRE(info->cpu_features == std::vector<std::string>{"aes", "fpu", "sse2"});
  REQUIRE(info->cpu_count == 2);
  REQUIRE(info->memory_total_bytes == 8'000'000ULL * 1024);
  REQUIRE_FALSE(info->pivot_root_obstacle);
}

TEST_CASE("host info: ARM names its features otherwise; missing files are errors") {
  const test::TempDir dir;
  write_proc(dir, "processor\t: 0\nFeatures\t: fp asimd\n");
  REQUIRE(os::read_host_info(dir.path())->cpu_features == std::vector<std::string>{"asimd", "fp"});
  test::write_file(dir.file("meminfo"), "nothing\n");
  REQUIRE_FALSE(os::read_host_info(dir.path()));
  REQUIRE_FALSE(os::read_host_info(dir.file("missing")));
}

TEST_CASE("host info: this host's own can be read") {
  const Result<os::HostInfo> info = os::read_host_info("/proc");
  REQUIRE(info);
  REQUIRE(info->boot_id.size() == 36);
  REQUIRE(info->cpu_count >= 1);
  REQUIRE(info->memory_total_bytes > 0);
}

TEST_CASE("pivot_root: a chroot and the initial rootfs are told as such") {
  REQUIRE_FALSE(os::find_pivot_root_obstacle(kMounts));
  const auto chroot = os::find_pivot_root_obstacle("21 27 0:20 / /proc rw - proc proc rw\n");
  REQUIRE(chroot);
  REQUIRE(chroot->find("chroot") != std::string::npos);
  REQUIRE(os::find_pivot_root_obstacle("1 1 0:2 / / rw - rootfs rootfs rw\n"));
}

TEST_CASE("mountinfo: escapes, optional fields, broken lines") {
  const std::vector<os::MountEntry> entries = os::parse_mountinfo(kMounts);
  REQUIRE(entries.size() == 4);
  REQUIRE(entries[0].shared);
  REQUIRE_FALSE(entries[1].shared);
  REQUIRE(entries[2].mount_point == "/run/ate x/netns/a.s");
  REQUIRE(entries[2].root == "/sub dir");
  REQUIRE(entries[2].source == "a\\b");
  REQUIRE(entries[3].fs_type == "nsfs");
  REQUIRE(entries[3].id == 41);
}

TEST_CASE("list_mounts: a prefix is a directory, not a beginning of a name") {
  const test::TempDir dir;
  write_proc(dir, "");
  REQUIRE(os::list_mounts(dir.path(), "/run/ate").value().size() == 1);
  REQUIRE(os::list_mounts(dir.path(), "/run").value().size() == 2);
  REQUIRE(os::list_mounts(dir.path(), "/").value().size() == 4);
  REQUIRE(os::list_mounts(dir.path(), "/run/at").value().empty());
}
