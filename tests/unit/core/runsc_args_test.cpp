#include "ate/core/runsc_args.hpp"

#include <string>
#include <vector>

#include "ate/core/cgroup_plan.hpp"
#include "support/catch.hpp"

using namespace ate;

namespace {

core::RunscGlobals globals() {
  return {.executable = "/assets/runsc",
          .root = "/run/a/1",
          .log = "/run/a/1/runsc.log",
          .panic_log = "/run/a/1/panic.log",
          .platform = "systrap",
          .overlay_dir = "/state/overlay/1",
          .ignore_cgroups = true};
}

std::string joined(const core::Argv& argv) {
  std::string text;
  for (const std::string& word : argv) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

const std::string kGlobals =
    "/assets/runsc --root=/run/a/1 --log=/run/a/1/runsc.log --log-format=json "
    "--panic-log=/run/a/1/panic.log --platform=systrap --network=sandbox "
    "--overlay2=root:dir=/state/overlay/1 --host-uds=none --host-fifo=none ";

}  // namespace

TEST_CASE("runsc args: each command, the same globals on all") {
  const core::RunscGlobals g = globals();
  const std::string all = kGlobals + "--ignore-cgroups=true ";
  const core::RunscContainer root{.id = core::kRunscContainerId, .bundle = "/b", .pid_file = "/p"};
  const core::RunscContainer member{
      .id = core::runsc_member_id("helper"), .bundle = "/b-helper", .pid_file = {}};
  REQUIRE(joined(core::runsc_run(g, root)) == all + "run -detach -bundle=/b -pid-file=/p actor");
  REQUIRE(joined(core::runsc_run(g, member)) == all + "run -detach -bundle=/b-helper c-helper");
  REQUIRE(joined(core::runsc_restore(g, root, "/i")) ==
          all + "restore -detach -bundle=/b -pid-file=/p -image-path=/i actor");
  REQUIRE(joined(core::runsc_restore(g, member, "/i")) ==
          all + "restore -detach -bundle=/b-helper -image-path=/i c-helper");
  REQUIRE(joined(core::runsc_delete(g, member.id)) == all + "delete -force c-helper");
  REQUIRE(joined(core::runsc_exec(g, member.id, "/j", "/p")) ==
          all + "exec -process=/j -internal-pid-file=/p c-helper");
  REQUIRE(joined(core::runsc_pause(g)) == all + "pause actor");
  REQUIRE(joined(core::runsc_resume(g)) == all + "resume actor");
  REQUIRE(joined(core::runsc_checkpoint(g, "/i")) ==
          all + "checkpoint -leave-running -compression=none -image-path=/i actor");
  REQUIRE(joined(core::runsc_kill(g, "actor", 15)) == all + "kill actor 15");
  REQUIRE(joined(core::runsc_probe("/r", {"help", "restore"})) == "/r help restore");
}

TEST_CASE("runsc args: with enforcement runsc sees cgroups") {
  core::RunscGlobals g = globals();
  g.ignore_cgroups = false;
  REQUIRE(joined(core::runsc_pause(g)) == kGlobals + "pause actor");
}

TEST_CASE("runsc args: a quota of the root file system") {
  core::RunscGlobals g = globals();
  g.overlay_bytes = 64LL << 20;
  REQUIRE(core::runsc_pause(g)[7] == "--overlay2=root:dir=/state/overlay/1,size=67108864");
}

TEST_CASE("runsc args: a value can't become a flag or another argument") {
  core::RunscGlobals g = globals();
  g.overlay_dir = "/x --debug";
  const core::Argv argv = core::runsc_run(g, {.id = "actor", .bundle = "-b", .pid_file = {}});
  REQUIRE(argv[7] == "--overlay2=root:dir=/x --debug");
  REQUIRE(argv[argv.size() - 2] == "-bundle=-b");
}

TEST_CASE("cgroup plan: limits as writes, in order") {
  const auto text = [](const core::CgroupLimits& limits) {
    std::string all;
    for (const core::CgroupWrite& write : core::cgroup_writes(limits)) {
      all += write.file + "=" + write.value + (write.optional ? "?" : "") + ";";
    }
    return all;
  };
  REQUIRE(text({}).empty());
  REQUIRE(text({.memory_bytes = 1073741824, .cpu_milli = 1000, .pids = 4096}) ==
          "memory.max=1073741824;memory.swap.max=0?;memory.oom.group=1;cpu.max=100000 "
          "100000;pids.max=4096;");
  REQUIRE(text({.memory_bytes = 0, .cpu_milli = 250, .pids = 0}) == "cpu.max=25000 100000;");
}

TEST_CASE("cgroup plan: quota has the kernel's floor and does not overflow") {
  REQUIRE(core::cpu_quota_micros(1) == 1000);
  REQUIRE(core::cpu_quota_micros(10) == 1000);
  REQUIRE(core::cpu_quota_micros(11) == 1100);
  REQUIRE(core::cpu_quota_micros(INT64_MAX) > 0);
}
