#include "ate/os/tree.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ate/os/fs.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

namespace {

using namespace ate;
namespace fs = std::filesystem;

struct Trees {
  test::TempDir dir;
  std::string from = dir.file("from");
  std::string to = dir.file("to");
  std::string links = dir.file("links");

  Trees() {
    fs::create_directory(from);
    fs::create_directory(to);
    fs::create_directory(links);
  }

  Result<os::CopyStats> copy(bool clone = true) const {
    ATE_ASSIGN(const UniqueFd source, os::open_dir(from));
    ATE_ASSIGN(const UniqueFd target, os::open_dir(to));
    ATE_ASSIGN(const UniqueFd names, os::open_dir(links));
    os::CopyOptions options;
    options.links_dir = names.get();
    options.try_clone = clone;
    return os::copy_tree(source, target, options);
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(from + "/" + name) << text;
  }

  std::string read(const std::string& name) const {
    return *os::read_file(to + "/" + name, 1 << 20);
  }

  struct stat stat_of(const std::string& name) const {
    struct stat info{};
    REQUIRE(::lstat((to + "/" + name).c_str(), &info) == 0);
    return info;
  }
};

TEST_CASE("copy: contents, modes, times, links, FIFOs; sockets stay behind") {
  const Trees t;
  fs::create_directories(t.from + "/a/b");
  t.write("a/b/text", "hello");
  t.write("empty", "");
  t.write("first", "shared");
  fs::create_hard_link(t.from + "/first", t.from + "/a/second");
  fs::create_symlink("/etc/passwd", t.from + "/a/out");
  fs::create_directory_symlink("..", t.from + "/a/up");
  REQUIRE(::mkfifo((t.from + "/pipe").c_str(), 0620) == 0);
  REQUIRE(::chmod((t.from + "/pipe").c_str(), 0620) == 0);
  REQUIRE(::chmod((t.from + "/a/b/text").c_str(), 04751) == 0);
  REQUIRE(::chmod((t.from + "/a").c_str(), 0511) == 0);
  REQUIRE(::setxattr((t.from + "/empty").c_str(), "user.note", "x", 1, 0) == 0);
  const std::array<timespec, 2> times{timespec{100, 5}, timespec{200, 7}};
  REQUIRE(::utimensat(AT_FDCWD, (t.from + "/a/b").c_str(), times.data(), 0) == 0);
  REQUIRE(::utimensat(AT_FDCWD, (t.from + "/a/out").c_str(), times.data(), AT_SYMLINK_NOFOLLOW) ==
          0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd here(::open(t.from.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string name = "/proc/self/fd/" + std::to_string(here.get()) + "/sock";
  name.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);

  const Result<os::CopyStats> stats = t.copy(GENERATE(true, false));
  REQUIRE(stats);
  CHECK(stats->entries == 9);
  CHECK(stats->skipped == 1);
  CHECK(t.read("a/b/text") == "hello");
  CHECK(t.read("a/second") == "shared");
  CHECK(t.stat_of("first").st_ino == t.stat_of("a/second").st_ino);
  CHECK(t.stat_of("first").st_nlink == 2);
  CHECK((t.stat_of("a/b/text").st_mode & 07777U) == 04751);
  CHECK((t.stat_of("a").st_mode & 07777U) == 0511);
  CHECK(t.stat_of("a/b").st_mtim.tv_sec == 200);
  CHECK(t.stat_of("a/b").st_mtim.tv_nsec == 7);
  CHECK(t.stat_of("a/out").st_mtim.tv_sec == 200);
  CHECK(fs::read_symlink(t.to + "/a/out") == "/etc/passwd");
  CHECK(S_ISFIFO(t.stat_of("pipe").st_mode));
  CHECK((t.stat_of("pipe").st_mode & 07777U) == 0620);
  CHECK_FALSE(fs::exists(t.to + "/sock"));
  char value = 0;
  CHECK(::getxattr((t.to + "/empty").c_str(), "user.note", &value, 1) == 1);
  CHECK(fs::is_empty(t.links));
}

TEST_CASE("copy: holes stay holes") {
  const Trees t;
  const UniqueFd file(::open((t.from + "/sparse").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  constexpr off_t kSize = off_t{1} << 30U;
  REQUIRE(::pwrite(file.get(), "mid", 3, kSize / 2) == 3);
  REQUIRE(::ftruncate(file.get(), kSize) == 0);
  REQUIRE(t.copy(false));
  const struct stat info = t.stat_of("sparse");
  CHECK(info.st_size == kSize);
  CHECK(info.st_blocks < 1024);
  const UniqueFd copy(::open((t.to + "/sparse").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 3> middle{};
  REQUIRE(::pread(copy.get(), middle.data(), 3, kSize / 2) == 3);
  CHECK(std::string_view(middle.data(), 3) == "mid");
}

TEST_CASE("copy: many entries and deep trees; too deep is refused") {
  const Trees t;
  for (int i = 0; i < 2000; ++i) {
    fs::create_directory(t.from + "/d" + std::to_string(i));
  }
  const auto dig = [&t](int levels) {
    UniqueFd at(::open(t.from.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < levels; ++i) {
      REQUIRE(::mkdirat(at.get(), "a_name_that_makes_paths_too_long_soon", 0700) == 0);
      at = UniqueFd(::openat(at.get(), "a_name_that_makes_paths_too_long_soon",
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
  };
  SECTION("deep") {
    dig(900);
    const Result<os::CopyStats> stats = t.copy();
    REQUIRE(stats);
    CHECK(stats->entries == 2900);
    const Result<UniqueFd> top = os::open_dir(t.to);
    const Result<os::TreeSize> size = os::measure_tree(*top);
    REQUIRE(size);
    CHECK(size->entries == 2900);
    CHECK(os::sync_tree(*top, size->entries));
    CHECK(os::sync_tree(*top, 1));
  }
  SECTION("too deep") {
    dig(1100);
    const Result<os::CopyStats> stats = t.copy();
    REQUIRE_FALSE(stats);
    CHECK(stats.error().code() == Errc::InvalidValue);
  }
  CHECK(os::remove_tree(t.from));
  CHECK(os::remove_tree(t.to));
}

TEST_CASE("copy: cancelled between entries") {
  const Trees t;
  for (int i = 0; i < 10; ++i) {
    t.write("f" + std::to_string(i), "x");
  }
  const Result<UniqueFd> source = os::open_dir(t.from);
  const Result<UniqueFd> target = os::open_dir(t.to);
  int asked = 0;
  os::CopyOptions options;
  options.cancelled = [&asked] { return ++asked > 5; };
  const Result<os::CopyStats> stats = os::copy_tree(*source, *target, options);
  REQUIRE_FALSE(stats);
  CHECK(stats.error().code() == Errc::Cancelled);
}

}  // namespace
