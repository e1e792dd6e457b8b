// What the gVisor runtime decides from texts and values, without running anything.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "ate/v1alpha1/actor.pb.h"
#include "runtime/gvisor/compatibility.hpp"
#include "runtime/gvisor/control_socket.hpp"
#include "runtime/gvisor/readiness.hpp"
#include "runtime/gvisor/runsc.hpp"
#include "runtime/gvisor/sandbox.hpp"
#include "runtime/gvisor/stdio_tail.hpp"
#include "runtime/gvisor/trial.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace ate;
using namespace ate::runtime::gvisor;

namespace {

v1alpha1::SnapshotManifest good_manifest() {
  v1alpha1::SnapshotManifest manifest;
  manifest.set_version(1);
  manifest.set_scope("FULL");
  manifest.set_sandbox_class(v1alpha1::SandboxClass::gvisor);
  (*manifest.mutable_assets())["runsc"] = "sha256:ab";
  (*manifest.mutable_runtime())["network"] = "sandbox";
  (*manifest.mutable_runtime())["overlay"] = "root:dir";
  (*manifest.mutable_runtime())["platform"] = "systrap";
  manifest.add_cpu_features("avx2");
  manifest.add_cpu_features("sse4_2");
  manifest.set_oci_spec(R"({"mounts":[]})");
  return manifest;
}

}  // namespace

TEST_CASE("runsc errors: the last log message, its first line, escaped and bounded") {
  const std::string log =
      "{\"msg\":\"first\",\"level\":\"error\"}\n"
      "{\"msg\":\"restoring: \\\"a\\\": EOF:\\ngoroutine 16\",\"level\":\"error\"}\n";
  REQUIRE(error_text(log, "ignored") == "restoring: \"a\": EOF:");
  REQUIRE(error_text("", "usage\nbad flag: -x\n") == "bad flag: -x");
  REQUIRE(error_text("no json", "printed") == "printed");
  REQUIRE(error_text("", "").empty());
  REQUIRE(error_text("", "\x1b[31mred") == error_text("", "\x1b[31mred"));
  REQUIRE(error_text("", "\x1b[31mred").find('\x1b') == std::string::npos);
  REQUIRE(error_text("", std::string(1 << 20, 'x')).size() < 2000);
  REQUIRE(error_text(R"({"msg":"cut off \)", "") == "cut off \\");
}

TEST_CASE("runsc errors: a full disk is told apart, a retry only for the EOF class") {
  Outcome outcome{.exit_code = 128, .error = "closing state file failed: no space left on device"};
  REQUIRE(command_error("runsc checkpoint", outcome).code() == Errc::DiskFull);
  REQUIRE_FALSE(is_transient_restore_failure(outcome));
  outcome.error = R"(restoring: urpc method \"containerManager.Restore\" failed: EOF)";
  REQUIRE(command_error("runsc restore", outcome).code() == Errc::RuntimeFailed);
  REQUIRE(is_transient_restore_failure(outcome));
  outcome = {.signal = SIGKILL};
  REQUIRE(command_error("x", outcome).message() == "x failed (killed by signal 9)");
}

TEST_CASE("signals: names and numbers as images write them") {
  REQUIRE(parse_signal("SIGTERM") == SIGTERM);
  REQUIRE(parse_signal("INT") == SIGINT);
  REQUIRE(parse_signal("3") == SIGQUIT);
  REQUIRE(parse_signal("SIGRTMIN+3") == 37);
  for (const char* none : {"", "0", "65", "-1", "SIGNONE", "9x", "RTMIN+31", "RTMIN+"}) {
    INFO(none);
    REQUIRE(parse_signal(none) == 0);
  }
}

TEST_CASE("network counters: received and sent bytes of the right interface") {
  const std::string text =
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes ...\n"
      "  xeth0:      7       1    0    0    0     0          0         0        7       1 0\n"
      "    lo:      10       1    0    0    0     0          0         0       10       1 0\n"
      "  eth0:    1500      12    0    0    0     0          0         0     2500      20 0 0\n";
  REQUIRE(interface_bytes(text, "eth0") == 4000);
  REQUIRE(interface_bytes(text, "lo") == 20);
  REQUIRE(interface_bytes(text, "eth1") == 0);
  REQUIRE(interface_bytes("eth0:", "eth0") == 0);
  REQUIRE(interface_bytes("", "eth0") == 0);
}

TEST_CASE("readiness: the first attempt at once, then growing up to the period") {
  const std::chrono::milliseconds period(50);
  const std::vector<int> expected = {0, 1, 2, 4, 8, 16, 32, 50, 50};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(probe_delay(static_cast<int>(i), period).count() == expected[i]);
  }
  REQUIRE(probe_delay(1'000'000, period) == period);
  REQUIRE(probe_delay(-1, period).count() == 0);
}

TEST_CASE("deadlines grow with what is moved") {
  runtime::GvisorDeadlines deadlines;
  REQUIRE(transfer_deadline(deadlines, 0) == deadlines.save);
  REQUIRE(transfer_deadline(deadlines, 500LL << 20) > deadlines.save + std::chrono::seconds(9));
}

TEST_CASE("compatibility: what fits, and each field that does not") {
  // case T31
  REQUIRE(check_manifest(good_manifest()));

  struct Row {
    void (*change)(v1alpha1::SnapshotManifest&);
    Errc code;
    std::string field;
  };

  const std::vector<Row> rows = {
      {[](auto& m) { m.set_version(3); }, Errc::SnapshotIncompatible, "version"},
      {[](auto& m) { m.set_sandbox_class(v1alpha1::SandboxClass::microvm); },
       Errc::SnapshotIncompatible, "sandboxClass"},
      {[](auto& m) { m.set_scope("DATA"); }, Errc::SnapshotIncompatible, "scope"},
      {[](auto& m) { (*m.mutable_runtime())["network"] = "host"; }, Errc::SnapshotIncompatible,
       "runtime.network"},
      {[](auto& m) { (*m.mutable_runtime())["overlay"] = "none"; }, Errc::SnapshotIncompatible,
       "runtime.overlay"},
      {[](auto& m) { (*m.mutable_runtime())["platform"] = "magic"; }, Errc::SnapshotIncompatible,
       "runtime.platform"},
      {[](auto& m) { m.mutable_assets()->clear(); }, Errc::SnapshotCorrupt, "assets.runsc"},
      {[](auto& m) { m.set_oci_spec("{"); }, Errc::SnapshotCorrupt, "ociSpec"},
  };
  for (const Row& row : rows) {
    v1alpha1::SnapshotManifest manifest = good_manifest();
    row.change(manifest);
    const Status status = check_manifest(manifest);
    INFO(row.field);
    REQUIRE_FALSE(status);
    REQUIRE(status.error().code() == row.code);
    REQUIRE(status.error().field() == row.field);
  }
}

TEST_CASE("compatibility: a CPU feature that the host lacks is named, more are fine") {
  // case T31
  REQUIRE(check_cpu(good_manifest(), {"avx2", "avx512f", "sse4_2"}));
  const Status status = check_cpu(good_manifest(), {"sse4_2"});
  REQUIRE_FALSE(status);
  REQUIRE(status.error().code() == Errc::SnapshotIncompatible);
  REQUIRE(status.error().field() == "cpuFeatures");
  REQUIRE(status.error().message().find("avx2") != std::string::npos);
}

TEST_CASE("last words: what this incarnation wrote, whole lines, bounded, escaped") {
  const test::TempDir dir;
  const std::string path = dir.file("app.stderr");
  REQUIRE(last_words(path, 0, 100).empty());
  test::write_file(path, "old words\nTraceback\nValueError: \x01\n");
  REQUIRE(size_of(path) == 34);
  const std::string words = last_words(path, 10, 100);
  REQUIRE(words.starts_with("Traceback"));
  REQUIRE(words.find('\x01') == std::string::npos);
  REQUIRE(last_words(path, 34, 100).empty());
  REQUIRE(last_words(path, 0, 16).starts_with("ValueError"));
  test::write_file(path, std::string(100, 'x'));
  REQUIRE(last_words(path, 0, 10) == std::string(10, 'x'));
}

TEST_CASE("self-test: the root file system of a dynamic program holds what it loads") {
  const test::TempDir dir;
  const std::string root = dir.file("rootfs");
  REQUIRE(make_trial_rootfs(root, "/proc/self/exe"));
  REQUIRE(std::filesystem::file_size(root + "/selftest") ==
          std::filesystem::file_size("/proc/self/exe"));
  // It runs by itself: with the loader named by hand, no library is found outside.
  std::string loader;
  std::size_t libraries = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    libraries += name.find(".so") != std::string::npos ? 1 : 0;
    if (name.starts_with("ld-linux") || name.starts_with("ld-musl")) {
      loader = entry.path().string();
    }
  }
  if (libraries == 0) {
    return;  // this test is a static program
  }
  REQUIRE_FALSE(loader.empty());
  const std::string list = "LD_LIBRARY_PATH=" + root + "/lib/x86_64-linux-gnu:" + root +
                           "/usr/lib/x86_64-linux-gnu:" + root + "/lib/aarch64-linux-gnu " +
                           loader + " --inhibit-cache --list " + root + "/selftest";
  FILE* const pipe = ::popen(list.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string line(4096, '\0');
  while (std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr) {
    INFO(line.c_str());
    REQUIRE(line.find("not found") == std::string::npos);
    const std::size_t arrow = line.find("=> /");
    REQUIRE((arrow == std::string::npos || line.compare(arrow + 3, root.size(), root) == 0));
  }
  REQUIRE(::pclose(pipe) == 0);
}

TEST_CASE("control socket: what the sandbox answers is read strictly") {
  const Result<core::JsonValue> nine = read_answer(R"({"success":true,"err":"","result":9})");
  REQUIRE(nine);
  CHECK(nine->as_integer() == 9);
  const Result<core::JsonValue> none = read_answer(R"({"success":true,"err":"","result":null})");
  REQUIRE(none);
  CHECK_FALSE(none->as_integer());
  const Result<core::JsonValue> refused =
      read_answer(R"({"success":false,"err":"container \"x\" not found\u001b[31m","result":null})");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().find("container \"x\" not found") != std::string::npos);
  CHECK(refused.error().message().find('\x1b') == std::string::npos);
  for (const char* bad : {"", "{}", "[]", "true", R"({"success":1,"result":9})", R"({"result":9})",
                          R"({"success":true,"success":true,"result":9})"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_answer(bad));
  }
}

TEST_CASE("exec: a command's tree is its descendants and its group, nobody else's") {
  const std::vector<GuestProcess> all = {
      {.pid = 1, .parent = 0, .group = 1},  // another container's would not be listed
      {.pid = 5, .parent = 0, .group = 5},  // a command
      {.pid = 6, .parent = 5, .group = 5},  {.pid = 7, .parent = 6, .group = 7},
      {.pid = 8, .parent = 1, .group = 5},  // its parent has gone, its group tells
      {.pid = 9, .parent = 0, .group = 9},  // another command
      {.pid = 10, .parent = 9, .group = 9}, {.pid = 11, .parent = 1, .group = 1}};
  CHECK(process_tree(all, 5) == std::vector<std::int64_t>{5, 6, 7, 8});
  CHECK(process_tree(all, 9) == std::vector<std::int64_t>{9, 10});
  CHECK(process_tree({}, 5) == std::vector<std::int64_t>{5});
}

TEST_CASE("exec: a command is found by its place among those without a parent") {
  const std::vector<GuestProcess> all = {{.pid = 40, .parent = 0, .group = 40},
                                         {.pid = 44, .parent = 0, .group = 44},
                                         {.pid = 45, .parent = 44, .group = 44},
                                         {.pid = 47, .parent = 0, .group = 47}};
  CHECK(command_number(all, 3, {6}) == 44);
  CHECK(command_number(all, 6, {3}) == 47);
  // One more or less than is known: better nobody than somebody else.
  CHECK(command_number(all, 3, {}) == 0);
  CHECK(command_number(all, 3, {6, 9}) == 0);
  CHECK(command_number({}, 3, {}) == 0);
}

TEST_CASE("compatibility: each container's spec of several is looked at") {
  v1alpha1::SnapshotManifest manifest = good_manifest();
  manifest.add_containers()->set_oci_spec(R"({"mounts":[]})");
  REQUIRE(check_manifest(manifest));
  manifest.add_containers()->set_oci_spec("{");
  REQUIRE_FALSE(check_manifest(manifest));
}
