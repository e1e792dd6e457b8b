#include "ate/core/containers.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "ate/core/exec.hpp"
#include "ate/core/oci_spec.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/temp_dir.hpp"

using namespace ate;

TEST_CASE("containers: how one ended") {
  struct Row {
    std::uint32_t status;
    int code;
    int signal;
    const char* words;
  };

  for (const Row& row :
       {Row{0, 0, 0, "exited with code 0"}, Row{3U << 8U, 3, 0, "exited with code 3"},
        Row{255U << 8U, 255, 0, "exited with code 255"},
        Row{9, 137, 9, "exited with code 137 (128 + signal 9)"},
        Row{11U | 0x80U, 139, 11, "exited with code 139 (128 + signal 11)"},
        Row{128U << 8U, 128, 0, "exited with code 128"}}) {
    const core::ContainerEnd end = core::container_end(row.status);
    CHECK(end.exit_code == row.code);
    CHECK(end.signal == row.signal);
    CHECK(core::end_words(end.exit_code) == row.words);
  }
}

TEST_CASE("containers: which one is meant") {
  REQUIRE(core::choose_container({"app"}, "") == "app");
  REQUIRE(core::choose_container({"app", "side"}, "side") == "side");
  for (const std::string& wanted : {"", "other", "\x1b[31m"}) {
    const Result<std::string> chosen = core::choose_container({"app", "side"}, wanted);
    REQUIRE_FALSE(chosen);
    CHECK(chosen.error().code() == Errc::InvalidValue);
    CHECK(chosen.error().field() == "container");
    CHECK(chosen.error().message().find("app, side") != std::string::npos);
    CHECK(chosen.error().message().find('\x1b') == std::string::npos);
  }
}

TEST_CASE("containers: the pause program runs, sleeps, and ends when it is killed") {
  const test::TempDir dir;
  const std::string path = dir.file("pause");
  std::ofstream(path, std::ios::binary) << core::pause_program();
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl(path.c_str(), "pause", static_cast<char*>(nullptr));
    ::_exit(70);
  }
  REQUIRE(pid > 0);
  // Past its exec, which fails at once for a file that is no program, it sleeps.
  const std::string link = "/proc/" + std::to_string(pid) + "/exe";
  std::error_code gone;
  while (std::filesystem::read_symlink(link, gone) != path && !gone) {
  }
  REQUIRE_FALSE(gone);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, WNOHANG) == 0);
  REQUIRE(::kill(pid, SIGKILL) == 0);
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFSIGNALED(status));
}

TEST_CASE("containers: the pause program never changes: snapshots hold it open") {
  const std::string program = core::pause_program();
  REQUIRE(program == core::pause_program());
#if defined(__x86_64__)
  REQUIRE(program.size() == 129);
  REQUIRE(program.ends_with(std::string("\xb8\x22\x00\x00\x00\x0f\x05\xeb\xf7", 9)));
#endif
}

TEST_CASE("containers: golden, the pause container's spec and that of a member") {
  core::OciPaths paths;
  paths.rootfs = "/var/lib/ate/pause";
  paths.network_namespace = "/run/ate/netns/0a1b2c3d.s";
  paths.cgroups_path = "/ate.slice/small-0/3";
  paths.limits = {.memory_bytes = 1LL << 30, .cpu_milli = 1500, .pids = 4096};
  const std::string pause = core::build_pause_spec(paths);
  REQUIRE(pause == test::golden(ATE_GOLDEN_DIR, "oci_spec/pause.json", pause));

  core::OciPlan plan;
  plan.paths.rootfs = "/var/lib/ate/images/sha256/ab/rootfs";
  plan.paths.network_namespace = paths.network_namespace;
  plan.pod = {.name = "helper", .sandbox = "actor"};
  v1alpha1::Container container;
  container.add_command("/bin/helper");
  const Result<std::string> member = core::build_oci_spec(plan, container);
  REQUIRE(member);
  REQUIRE(*member == test::golden(ATE_GOLDEN_DIR, "oci_spec/member.json", *member));

  // A restore moves both to other places and changes nothing else.
  core::OciPaths other = paths;
  other.rootfs = "/srv/pause";
  const Result<std::string> moved = core::with_runtime_paths(pause, other);
  REQUIRE(moved);
  REQUIRE(*moved == core::build_pause_spec(other));
}

TEST_CASE("exec: one more process takes over the container's environment, user, groups") {
  core::OciPlan plan;
  plan.user = {.uid = 1000, .gid = 100, .additional_gids = {5, 27}, .home = "/home/a"};
  plan.template_env = {"A=1", "B=x=\"y\""};
  v1alpha1::Container container;
  container.add_command("/app");
  container.set_working_dir("/srv");
  const Result<std::string> spec = core::build_oci_spec(plan, container);
  REQUIRE(spec);
  const Result<core::OciProcess> process = core::process_of_spec(*spec);
  REQUIRE(process);
  CHECK(process->cwd == "/srv");
  CHECK(process->user.uid == 1000);
  CHECK(process->user.gid == 100);
  CHECK(process->user.additional_gids == std::vector<std::uint32_t>{5, 27});
  const std::vector<std::string> merged = core::merge_env(process->env, {"A=2", "C=3"});
  CHECK(merged.front() == "A=2");
  CHECK(merged.back() == "C=3");
  CHECK(std::ranges::count(merged, std::string("B=x=\"y\"")) == 1);
  for (const char* broken : {"", "{}", R"({"process":{"env":[1],"cwd":"/","user":{}}})",
                             R"({"process":{"env":[],"cwd":"/"}})"}) {
    CHECK_FALSE(core::process_of_spec(broken));
  }
}

TEST_CASE("exec: base64 both ways, strictly") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
      {std::string("\x00\xff\xfe", 3), "AP/+"}};
  for (const auto& [bytes, text] : rows) {
    CHECK(core::base64_encode(bytes) == text);
    const Result<std::string> decoded = core::base64_decode(text);
    REQUIRE(decoded);
    CHECK(*decoded == bytes);
  }
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg===", "Z===", "====", "Zh==", "Zm9=", "Zm 9", "Zm-_",
                          "Zg==Zg==", "=Zg="}) {
    CAPTURE(bad);
    CHECK_FALSE(core::base64_decode(bad));
  }
}

TEST_CASE("exec: output is text where it can be, cut at a whole character") {
  CHECK(core::is_plain_text("\xc3\xa4\n\t"));
  CHECK_FALSE(core::is_plain_text(std::string("a\0b", 3)));
  CHECK_FALSE(core::is_plain_text("\xff"));
  CHECK(core::trim_cut("a\xc3\xa4") == "a\xc3\xa4");
  CHECK(core::trim_cut("a\xc3") == "a");
  CHECK(core::trim_cut("a\xf0\x9f\x98") == "a");
  CHECK(core::trim_cut("\x80\x80") == "\x80\x80");
  CHECK(core::trim_cut("").empty());
}
