#include "ate/core/oci_spec.hpp"

#include <string>
#include <vector>

#include "ate/v1alpha1/objects.pb.h"
#include "support/catch.hpp"
#include "support/golden.hpp"

using namespace ate;

namespace {

using Words = std::vector<std::string>;

core::OciPaths paths_of(const std::string& run) {
  core::OciPaths paths;
  paths.rootfs = "/var/lib/ate/images/sha256/ab/rootfs";
  paths.network_namespace = run + "/netns/0a1b2c3d.s";
  paths.bind_sources = {{core::kHosts, run + "/files/hosts"},
                        {core::kHostnameFile, run + "/files/hostname"},
                        {core::kResolvConf, run + "/files/resolv.conf"},
                        {"/run/ate", run + "/files/info"}};
  return paths;
}

core::OciPlan plan_of() {
  core::OciPlan plan;
  plan.image = {.entrypoint = {"/usr/bin/python3"},
                .cmd = {"-m", "http.server"},
                .env = {"PATH=/opt/bin:/bin", "LANG=C.UTF-8"},
                .working_dir = "/app"};
  plan.user = {.uid = 1000, .gid = 100, .additional_gids = {5, 27}, .home = "/home/agent"};
  plan.template_env = {"PORT=8080", "LANG=de_DE.UTF-8"};
  plan.paths = paths_of("/run/ate");
  return plan;
}

}  // namespace

TEST_CASE("oci spec: command replaces entrypoint and drops cmd, args replaces cmd") {
  const core::OciImage image{.entrypoint = {"/entry"}, .cmd = {"one", "two"}};

  struct Row {
    Words command;
    Words args;
    Words expected;
  };

  const std::vector<Row> rows = {
      {{}, {}, {"/entry", "one", "two"}},
      {{"/own"}, {}, {"/own"}},
      {{}, {"three"}, {"/entry", "three"}},
      {{"/own", "-v"}, {"three"}, {"/own", "-v", "three"}},
  };
  for (const Row& row : rows) {
    v1alpha1::Container container;
    container.mutable_command()->Assign(row.command.begin(), row.command.end());
    container.mutable_args()->Assign(row.args.begin(), row.args.end());
    const Result<Words> args = core::oci_args(image, container, 0);
    REQUIRE(args);
    REQUIRE(*args == row.expected);
  }
}

TEST_CASE("oci spec: nothing to run is an error that names the field") {
  const Result<Words> args = core::oci_args(core::OciImage{}, v1alpha1::Container(), 2);
  REQUIRE_FALSE(args);
  REQUIRE(args.error().code() == Errc::InvalidValue);
  REQUIRE(args.error().field() == "spec.containers[2].command");
}

TEST_CASE("oci spec: template env wins over the image's, defaults fill in") {
  REQUIRE(core::oci_env(plan_of()) == Words{"PATH=/opt/bin:/bin", "LANG=de_DE.UTF-8", "PORT=8080",
                                            "HOME=/home/agent", "HOSTNAME=actor"});
  core::OciPlan bare;
  bare.image.env = {"no equals sign", "=no name", "HOME=/x"};
  REQUIRE(core::oci_env(bare) ==
          Words{"HOME=/x", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOSTNAME=actor"});
}

TEST_CASE("oci spec: golden, a user's image without enforcement") {
  const Result<std::string> spec = core::build_oci_spec(plan_of(), v1alpha1::Container());
  REQUIRE(spec);
  REQUIRE(*spec == test::golden(ATE_GOLDEN_DIR, "oci_spec/user.json", *spec));
}

TEST_CASE("oci spec: golden, root with limits, and text that needs escapes") {
  core::OciPlan plan = plan_of();
  plan.user = {};
  plan.template_env = {"TEXT=\"quoted\" \\ line\nnext \x01\x7f", "BROKEN=\xff\xc3(\xe2\x82"};
  plan.paths.cgroups_path = "/ate.slice/small-0/3";
  plan.paths.limits = {.memory_bytes = 1LL << 30, .cpu_milli = 1500, .pids = 4096};
  v1alpha1::Container container;
  container.add_command("/bin/sh");
  container.set_working_dir("relative");
  const Result<std::string> spec = core::build_oci_spec(plan, container);
  REQUIRE(spec);
  REQUIRE(*spec == test::golden(ATE_GOLDEN_DIR, "oci_spec/root.json", *spec));
}

TEST_CASE("oci spec: mount points that would break the guest are refused") {
  for (const char* destination : {"/", "relative", "/a/../b", "/a//b", "/a/", "/proc", "/proc/x",
                                  "/dev/shm", "/sys/fs", "/a/./b"}) {
    core::OciPlan plan = plan_of();
    plan.paths.bind_sources[destination] = "/x";
    const Result<std::string> spec = core::build_oci_spec(plan, v1alpha1::Container());
    INFO(destination);
    REQUIRE_FALSE(spec);
    REQUIRE(spec.error().code() == Errc::InvalidValue);
  }
  core::OciPlan fine = plan_of();
  fine.paths.bind_sources["/device"] = "/x";
  REQUIRE(core::build_oci_spec(fine, v1alpha1::Container()));
}

TEST_CASE("oci spec: a restore replaces paths, limits and nothing else") {
  // case T17: the spec of a snapshot of a restored actor is the restored spec.
  const Result<std::string> saved = core::build_oci_spec(plan_of(), v1alpha1::Container());
  REQUIRE(saved);
  core::OciPaths next = paths_of("/run/other \"place\"");
  next.rootfs = "/srv/rootfs";
  next.cgroups_path = "/ate.slice/large-1/9";
  next.limits = {.memory_bytes = 4096, .cpu_milli = 250, .pids = 0};
  const Result<std::string> moved = core::with_runtime_paths(*saved, next);
  REQUIRE(moved);
  core::OciPlan expected = plan_of();
  expected.paths = next;
  const Result<std::string> built = core::build_oci_spec(expected, v1alpha1::Container());
  REQUIRE(built);
  REQUIRE(*moved == *built);
  const Result<std::string> back = core::with_runtime_paths(*moved, plan_of().paths);
  REQUIRE(back);
  REQUIRE(*back == *saved);
}

TEST_CASE("oci spec: text of a user can't pose as a path of the spec") {
  core::OciPlan plan = plan_of();
  plan.template_env = {R"(X=","root":{"path":"/etc"},"mounts":[],"x":")"};
  const Result<std::string> saved = core::build_oci_spec(plan, v1alpha1::Container());
  REQUIRE(saved);
  const Result<std::string> same = core::with_runtime_paths(*saved, plan.paths);
  REQUIRE(same);
  REQUIRE(*same == *saved);
}

TEST_CASE("oci spec: a spec of a snapshot that is broken or does not fit says so") {
  const Result<std::string> good = core::build_oci_spec(plan_of(), v1alpha1::Container());
  REQUIRE(good);
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), good->substr(0, good->size() / 2),
        *good + "x", std::string(R"({"root":{"path":"\u12"}})"), deep}) {
    const Result<std::string> result = core::with_runtime_paths(text, plan_of().paths);
    REQUIRE_FALSE(result);
    REQUIRE(result.error().code() == Errc::SnapshotCorrupt);
  }
  core::OciPaths without = plan_of().paths;
  without.bind_sources.erase("/run/ate");
  const Result<std::string> result = core::with_runtime_paths(*good, without);
  REQUIRE_FALSE(result);
  REQUIRE(result.error().code() == Errc::SnapshotIncompatible);
  REQUIRE(result.error().field() == "ociSpec.mounts");
}

TEST_CASE("oci spec: bind destinations in order") {
  const Result<std::string> spec = core::build_oci_spec(plan_of(), v1alpha1::Container());
  REQUIRE(spec);
  const Result<Words> destinations = core::bind_destinations(*spec);
  REQUIRE(destinations);
  REQUIRE(*destinations == Words{"/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/run/ate"});
  const Result<Words> escaped = core::bind_destinations(
      R"({"mounts":[{"type":"bind","source":"x","destination":"/\u00fc\ud83d\ude00\n"}]})");
  REQUIRE(escaped);
  REQUIRE(*escaped == Words{"/\xc3\xbc\xf0\x9f\x98\x80\n"});
}
