// case T53, spec H6-H11: what files get, and what may happen meanwhile.
#include <sys/xattr.h>

#include <atomic>
#include <string>
#include <thread>

#include "support/catch.hpp"
#include "support/skipped.hpp"
#include "support/tar_writer.hpp"
#include "tree_support.hpp"

using namespace ate;
using ate::test::Sandbox;
using ate::test::TarEntry;
using ate::test::TarWriter;

TEST_CASE("layers: more files or bytes than allowed are refused") {
  // spec H10, H11
  const Sandbox box;
  const std::string layer =
      TarWriter().file("a", std::string(5000, 'x')).file("b", std::string(5000, 'y')).finish();
  const Status many = box.unpack({layer}, image::TreeLimits{1, 1 << 20});
  REQUIRE_FALSE(many);
  CHECK(many.error().message().find("more than 1 files") != std::string::npos);
  const Sandbox second;
  const Status large = second.unpack({layer}, image::TreeLimits{10, 8000});
  REQUIRE_FALSE(large);
  CHECK(large.error().message().find("out of proportion") != std::string::npos);
}

TEST_CASE("layers: an 8 GiB sparse file and a file of zeros take no disk") {
  // case T53
  const Sandbox box;
  TarEntry sparse;
  sparse.name = "sparse";
  sparse.data = "abcxyz";
  sparse.pax = {{"GNU.sparse.size", "8589934592"}, {"GNU.sparse.map", "4096,3,8589934589,3"}};
  const Status done =
      box.unpack({TarWriter().add(sparse).file("zeros", std::string(8 << 20, '\0')).finish()},
                 image::TreeLimits{10, 100});
  CAPTURE(done ? "" : done.error().message());
  REQUIRE(done);
  struct stat info{};
  REQUIRE(::stat((box.root() + "/sparse").c_str(), &info) == 0);
  CHECK(info.st_size == 8589934592);
  CHECK(info.st_blocks < 100);
  REQUIRE(::stat((box.root() + "/zeros").c_str(), &info) == 0);
  CHECK(info.st_size == 8 << 20);
  CHECK(info.st_blocks < 100);
  std::ifstream file(box.root() + "/sparse", std::ios::binary);
  file.seekg(8589934589);
  std::string tail(3, '\0');
  file.read(tail.data(), 3);
  CHECK(tail == "xyz");
}

TEST_CASE("layers: data between zeros lands where it belongs") {
  std::string data(1 << 20, '\0');
  for (const std::size_t at : {0UL, 4095UL, 4096UL, 262143UL, 262144UL, 700000UL, 1048575UL}) {
    data[at] = 'x';
  }
  const Sandbox box;
  REQUIRE(box.unpack({TarWriter().file("f", data).file("e", "").finish()}));
  CHECK(test::read_file(box.root() + "/f") == data);
}

TEST_CASE("layers: times of files, links and directories are the archive's") {
  const Sandbox box;
  TarEntry late;
  late.name = "d/f";
  late.pax = {{"mtime", "1600000000.5"}};
  TarEntry link;
  link.name = "l";
  link.type = '2';
  link.link = "nowhere";
  link.mtime = 1'500'000'000;
  REQUIRE(box.unpack({TarWriter().dir("d").add(late).add(link).dir("d/e").finish()}));
  struct stat info{};
  REQUIRE(::lstat((box.root() + "/d").c_str(), &info) == 0);
  CHECK(info.st_mtim.tv_sec == 1'700'000'000);
  REQUIRE(::lstat((box.root() + "/d/f").c_str(), &info) == 0);
  CHECK(info.st_mtim.tv_sec == 1'600'000'000);
  CHECK(info.st_mtim.tv_nsec == 500'000'000);
  REQUIRE(::lstat((box.root() + "/l").c_str(), &info) == 0);
  CHECK(info.st_mtim.tv_sec == 1'500'000'000);
}

TEST_CASE("layers: owners, setuid, devices and file capabilities, as root") {
  if (::geteuid() != 0) {
    ATE_TEST_SKIPPED("not root");
    return;
  }
  // spec H7, H8
  const std::string capability("\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
  TarEntry file;
  file.name = "f";
  file.data = "x";
  file.mode = 06755;
  file.uid = 1234;
  file.gid = 5678;
  file.pax = {{"SCHILY.xattr.security.capability", capability},
              {"SCHILY.xattr.user.note", "hi"},
              {"SCHILY.xattr.user.overlay.opaque", "y"},
              {"SCHILY.xattr.trusted.overlay.opaque", "y"},
              {"SCHILY.xattr.security.selinux", "label"}};
  TarEntry link;
  link.name = "h";
  link.type = '1';
  link.link = "f";
  link.mode = 06755;
  link.uid = 1234;
  link.gid = 5678;
  TarEntry device;
  device.name = "null";
  device.type = '3';
  device.mode = 0666;
  device.device_major = 1;
  device.device_minor = 3;
  TarEntry block = device;
  block.name = "disk";
  block.type = '4';
  block.device_major = 259;
  block.device_minor = 65537;
  const Sandbox box;
  REQUIRE(box.unpack({TarWriter().add(file).add(link).add(device).add(block).finish()}));
  struct stat info{};
  REQUIRE(::lstat((box.root() + "/h").c_str(), &info) == 0);
  CHECK(info.st_uid == 1234);
  CHECK(info.st_gid == 5678);
  CHECK((info.st_mode & 07777U) == 06755);
  CHECK(info.st_nlink == 2);
  std::string value(64, '\0');
  const std::string path = box.root() + "/h";
  CHECK(::getxattr(path.c_str(), "security.capability", value.data(), value.size()) == 20);
  CHECK(::getxattr(path.c_str(), "trusted.overlay.opaque", value.data(), value.size()) == -1);
  CHECK(::getxattr(path.c_str(), "user.overlay.opaque", value.data(), value.size()) == -1);
  const std::string tree = box.tree();
  CHECK(
      (tree.find("null c666 1:3") != std::string::npos || tree.find("null") == std::string::npos));
  CHECK(tree.find("disk b666 259:65537") != std::string::npos);
  // The owner changes, so the capability of lower layers is gone, as chown(2) says.
  link.uid = 1;
  link.name = "i";
  REQUIRE(box.unpack({TarWriter().add(link).finish()}));
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  CHECK(info.st_uid == 1);
  CHECK((info.st_mode & 07777U) == 06755);
}

TEST_CASE("layers: a directory swapped for a symlink at any moment leads nowhere") {
  // spec H6, CVE-2025-47290: nobody else can write in the store; this is what happens if someone
  // did.
  const Sandbox box;
  TarWriter tar;
  tar.dir("d");
  for (int i = 0; i < 300; ++i) {
    tar.file("d/f" + std::to_string(i), "dead").symlink("s" + std::to_string(i), "x");
  }
  tar.whiteout("d", "canary").whiteout("d", ".wh..opq");
  const std::string layer = tar.finish();
  const std::string real = box.root() + "/d";
  std::atomic<bool> stop = false;
  std::thread swapper([&]() {
    const std::string aside = box.root() + "/aside";
    while (!stop) {
      if (::rename(real.c_str(), aside.c_str()) == 0) {
        // IGNORED: whichever comes first, the unpack or we, both are what is tried here.
        static_cast<void>(::symlink(box.outside().c_str(), real.c_str()));
        static_cast<void>(::unlink(real.c_str()));
        static_cast<void>(::rename(aside.c_str(), real.c_str()));
      }
    }
  });
  for (int round = 0; round < 20; ++round) {
    // An error is fine; what lies outside is not touched either way.
    static_cast<void>(box.unpack({layer}));
  }
  stop = true;
  swapper.join();
  CHECK(box.untouched());
}
