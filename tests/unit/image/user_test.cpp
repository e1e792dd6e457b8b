#include <string>

#include "ate/image/image.hpp"
#include "support/catch.hpp"
#include "tree_support.hpp"

using namespace ate;
using image::resolve_user;
using image::User;

namespace {

class Root {
 public:
  Root() {
    std::filesystem::create_directory(dir_.file("etc"));
    test::write_file(dir_.file("etc/passwd"),
                     "root:x:0:0:root:/root:/bin/sh\n"
                     "broken line\n"
                     "big:x:4294967295:1::/x:\n"
                     "web:x:33:34:www:/var/www:/bin/false\n"
                     "42:x:1000:1000::/home/42:\n"
                     "nohome:x:50:50::relative:\n");
    test::write_file(dir_.file("etc/group"),
                     "root:x:0:\n"
                     "www:x:34:web\n"
                     "staff:x:50:web,other\n"
                     "adm:x:4:other,web\n"
                     "bad:x:no:web\n");
  }

  [[nodiscard]] Result<User> resolve(const std::string& user) const {
    return resolve_user(dir_.path(), user);
  }

  [[nodiscard]] std::string file(const std::string& name) const { return dir_.file(name); }

 private:
  test::TempDir dir_;
};

}  // namespace

TEST_CASE("user: every form an image may use") {
  struct Row {
    const char* text;
    std::uint32_t uid;
    std::uint32_t gid;
    std::vector<std::uint32_t> groups;
    const char* home;
  };

  const Root root;
  for (const Row& row :
       {Row{"", 0, 0, {}, "/root"}, Row{"root", 0, 0, {}, "/root"}, Row{"0", 0, 0, {}, "/root"},
        Row{"web", 33, 34, {50, 4}, "/var/www"}, Row{"33", 33, 34, {50, 4}, "/var/www"},
        Row{"web:staff", 33, 50, {}, "/var/www"}, Row{"web:4", 33, 4, {}, "/var/www"},
        Row{"1234", 1234, 0, {}, "/"}, Row{"1234:5678", 1234, 5678, {}, "/"},
        Row{"1234:adm", 1234, 4, {}, "/"}, Row{"web:", 33, 34, {50, 4}, "/var/www"},
        Row{":adm", 0, 4, {}, "/root"}, Row{"42", 1000, 1000, {}, "/home/42"},
        Row{"nohome", 50, 50, {}, "/"}, Row{"2147483647", 2147483647, 0, {}, "/"}}) {
    CAPTURE(row.text);
    const Result<User> user = root.resolve(row.text);
    REQUIRE(user);
    CHECK(user->uid == row.uid);
    CHECK(user->gid == row.gid);
    CHECK(user->additional_gids == row.groups);
    CHECK(user->home == row.home);
  }
}

TEST_CASE("user: what is missing or out of range is named") {
  const Root root;

  struct Row {
    std::string text;
    const char* says;
  };

  for (const Row& row :
       {Row{"nobody", "'nobody' is not in the image's /etc/passwd"},
        Row{"web:nogroup", "'nogroup' is not in the image's /etc/group"},
        Row{"2147483648", "above 2147483647"}, Row{"0:4294967295", "above 2147483647"},
        Row{"4294967296", "above 2147483647"},  // CVE-2024-40635
        Row{"-1", "not in the image's /etc/passwd"}, Row{"a:b:c", "is not uid"},
        Row{":", "is not uid"}, Row{"../../x", "not in the image's /etc/passwd"},
        Row{"broken line", "not in"}, Row{"big", "not in"},
        Row{std::string(300, 'u'), "is not uid"}}) {
    CAPTURE(row.text);
    const Result<User> user = root.resolve(row.text);
    REQUIRE_FALSE(user);
    CHECK(user.error().code() == Errc::InvalidValue);
    CHECK(user.error().message().find(row.says) != std::string::npos);
  }
}

TEST_CASE("user: no databases, and databases that are no files or lead outside") {
  const Root root;
  const test::TempDir outside;
  test::write_file(outside.file("passwd"), "evil:x:666:666::/:\n");
  std::filesystem::remove(root.file("etc/passwd"));
  std::filesystem::create_symlink(outside.file("passwd"), root.file("etc/passwd"));
  CHECK_FALSE(root.resolve("evil"));
  CHECK(root.resolve("7:8")->gid == 8);

  std::filesystem::remove(root.file("etc/passwd"));
  test::write_file(root.file("etc/real"), "good:x:5:6::/:\n");
  std::filesystem::create_symlink("/etc/real", root.file("etc/passwd"));
  CHECK(root.resolve("good")->uid == 5);

  std::filesystem::remove(root.file("etc/passwd"));
  REQUIRE(::mkfifo(root.file("etc/passwd").c_str(), 0600) == 0);
  CHECK(root.resolve("7")->uid == 7);
  const Result<User> none = root.resolve("good");
  REQUIRE_FALSE(none);
  CHECK(none.error().message().find("has no /etc/passwd") != std::string::npos);

  std::filesystem::remove_all(root.file("etc"));
  CHECK(root.resolve("")->home == "/");
  CHECK_FALSE(root.resolve("0:adm"));
  std::filesystem::create_directory(root.file("etc"));
  test::write_file(root.file("etc/passwd"), std::string(2 << 20, 'x'));
  CHECK_FALSE(root.resolve("0"));
  CHECK_FALSE(resolve_user(root.file("nowhere"), ""));
}
