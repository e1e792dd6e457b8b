// Real cgroups, namespaces and mounts, in a mount namespace of the test's own.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>

#include "ate/os/cgroup.hpp"
#include "ate/os/fs.hpp"
#include "ate/os/mount.hpp"
#include "ate/os/process.hpp"
#include "ate/util/ids.hpp"
#include "support/catch.hpp"
#include "support/small_disk.hpp"
#include "support/temp_dir.hpp"

using namespace ate;

namespace {

/// A cgroup of our own on a private mount; gone at the end.
class TestCgroup {
 public:
  TestCgroup() {
    REQUIRE(os::mount_private_cgroup2(dir_.file("mount")));
    REQUIRE(os::mount_private_cgroup2(dir_.file("mount")));  // again: nothing more to do
    root_ =
        os::Cgroup::open(dir_.file("mount")).value().make_child("ate-test-" + random_hex(8), {});
    REQUIRE(root_);
  }

  ~TestCgroup() {
    static_cast<void>(root_->kill());
    wait_empty();
    static_cast<void>(root_->remove());
    static_cast<void>(os::unmount_detach(dir_.file("mount")));
  }

  TestCgroup(const TestCgroup&) = delete;
  TestCgroup& operator=(const TestCgroup&) = delete;
  TestCgroup(TestCgroup&&) = delete;
  TestCgroup& operator=(TestCgroup&&) = delete;

  [[nodiscard]] const os::Cgroup& root() const { return *root_; }

  void wait_empty() const {
    const UniqueFd events = root_->events().value();
    while (os::populated(events).value()) {
      pollfd waiting{events.get(), POLLPRI, 0};
      REQUIRE(::poll(&waiting, 1, 10'000) == 1);
    }
  }

 private:
  test::TempDir dir_;
  Result<os::Cgroup> root_ = fail(Errc::Internal, "not made");
};

os::SpawnPlan shell(const std::string& script) {
  os::SpawnPlan plan;
  plan.executable = "/bin/sh";
  plan.argv = {"sh", "-c", script};
  plan.env = {"PATH=/usr/bin:/bin"};
  return plan;
}

std::string output_of(os::SpawnPlan plan) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd read_end(std::move(ends[0]));
  UniqueFd write_end(std::move(ends[1]));
  plan.fds.emplace_back(write_end.get(), 1);
  const Result<os::Process> process = os::spawn(plan);
  REQUIRE(process);
  write_end.reset();
  std::string out = os::read_descriptor(read_end.get(), 1 << 20, "pipe").value();
  siginfo_t info{};
  REQUIRE(::waitid(P_PIDFD, static_cast<id_t>(process->pidfd.get()), &info, WEXITED) == 0);
  return out;
}

}  // namespace

TEST_CASE("cgroup: a child starts inside; kill ends all below; removal wants it empty") {
  const TestCgroup tree;
  const os::Cgroup worker = tree.root().make_child("worker", {}).value();
  const os::Cgroup leaf = worker.make_child("1", {}).value();
  REQUIRE(os::is_cgroup2(leaf.path()).value());
  os::SpawnPlan plan = shell("sleep 1000 & sleep 1000");
  plan.cgroup_fd = leaf.fd();
  const Result<os::Process> process = os::spawn(plan);
  REQUIRE(process);
  const std::vector<pid_t> pids = leaf.processes().value();
  REQUIRE(std::find(pids.begin(), pids.end(), process->id.pid) != pids.end());
  REQUIRE(tree.root().processes().value().empty());
  REQUIRE(tree.root().all_processes().value().size() == pids.size());
  REQUIRE(worker.populated().value());
  REQUIRE(worker.remove().error().code() == Errc::InUse);
  REQUIRE(worker.kill());
  siginfo_t info{};
  REQUIRE(::waitid(P_PIDFD, static_cast<id_t>(process->pidfd.get()), &info, WEXITED) == 0);
  REQUIRE(info.si_status == SIGKILL);
  tree.wait_empty();
  const UniqueFd events = leaf.events().value();
  REQUIRE(worker.remove());
  REQUIRE(worker.remove());
  REQUIRE_FALSE(os::exists(worker.path()));
  REQUIRE_FALSE(os::populated(events).value());
  REQUIRE(leaf.kill());
  REQUIRE(tree.root().open_child("worker").error().code() == Errc::NotFound);
}

TEST_CASE("cgroup: a plan for a removed cgroup is an error, nothing is started") {
  const TestCgroup tree;
  const os::Cgroup leaf = tree.root().make_child("gone", {}).value();
  REQUIRE(leaf.remove());
  os::SpawnPlan plan = shell("exit 0");
  plan.cgroup_fd = leaf.fd();
  const Result<os::Process> process = os::spawn(plan);
  REQUIRE_FALSE(process);
  REQUIRE(process.error().message().find("in its cgroup") != std::string::npos);
}

TEST_CASE("spawn: drop_chown takes CAP_CHOWN from the child for good") {
  const test::TempDir dir;
  test::write_file(dir.file("f"), "");
  os::SpawnPlan plan = shell("chown 65534 " + dir.file("f") + " 2>/dev/null && echo changed; true");
  plan.drop_chown = true;
  REQUIRE(output_of(plan).empty());
  plan.drop_chown = false;
  REQUIRE(output_of(plan) == "changed\n");
}

TEST_CASE("spawn: netns_fd is where the child lives, ours stays") {
  UniqueFd other;
  std::thread maker([&other] {
    if (::unshare(CLONE_NEWNET) == 0) {
      other = UniqueFd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    }
  });
  maker.join();
  REQUIRE(other);
  os::SpawnPlan plan = shell("readlink /proc/self/ns/net");
  const std::string ours = output_of(plan);
  plan.netns_fd = other.get();
  const std::string theirs = output_of(plan);
  REQUIRE(theirs != ours);
  plan.netns_fd = -1;
  REQUIRE(output_of(plan) == ours);
}

TEST_CASE("mounts: bind, listed, unmounted from the top; not mounted is fine") {
  const test::TempDir dir;
  REQUIRE(os::make_dir(dir.file("a b"), 0700));
  REQUIRE(os::make_dir(dir.file("source"), 0700));
  test::write_file(dir.file("source/f"), "x");
  REQUIRE(os::bind_mount(dir.file("source"), dir.file("a b")));
  REQUIRE(os::bind_mount(dir.file("source"), dir.file("a b")));
  REQUIRE(os::exists(dir.file("a b/f")));
  REQUIRE(os::list_mounts("/proc", dir.path()).value().size() == 2);
  REQUIRE(os::unmount_below("/proc", dir.path()));
  REQUIRE(os::list_mounts("/proc", dir.path()).value().empty());
  REQUIRE(os::unmount_detach(dir.file("a b")));
  REQUIRE(os::unmount_detach(dir.file("missing")));
}

TEST_CASE("remove_tree: stops at a mount, what is mounted stays whole") {
  const test::TempDir dir;
  REQUIRE(os::make_dirs(dir.file("run/a/rootfs"), 0700));
  REQUIRE(os::make_dir(dir.file("image"), 0700));
  test::write_file(dir.file("image/precious"), "x");
  REQUIRE(os::bind_mount(dir.file("image"), dir.file("run/a/rootfs")));
  const Status refused = os::remove_tree(dir.file("run"));
  REQUIRE(refused.error().code() == Errc::InUse);
  REQUIRE(os::remove_tree(dir.file("run/a/rootfs")).error().code() == Errc::InUse);
  REQUIRE(os::exists(dir.file("image/precious")));
  REQUIRE(os::unmount_below("/proc", dir.file("run")));
  REQUIRE(os::remove_tree(dir.file("run")));
  REQUIRE(os::exists(dir.file("image/precious")));
}

TEST_CASE("remove_tree: deeper than PATH_MAX and than descriptors") {
  const test::TempDir mount;
  const test::SmallDisk dir(mount.path(), "64m");  // a disk would take half a minute to make this
  REQUIRE(os::make_dir(dir.file("deep"), 0700));
  UniqueFd at = os::open_dir(dir.file("deep")).value();
  constexpr int kDepth = 1500;  // 15,000 bytes of path
  for (int i = 0; i < kDepth; ++i) {
    REQUIRE(::mkdirat(at.get(), "directory", 0700) == 0);
    UniqueFd file(::openat(at.get(), "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    REQUIRE(file);
    at = UniqueFd(::openat(at.get(), "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(at);
  }
  at.reset();
  REQUIRE(os::remove_tree(dir.file("deep")));
  REQUIRE_FALSE(os::exists(dir.file("deep")));
}

TEST_CASE("remove_tree: wider than one batch of directories") {
  const test::TempDir mount;
  const test::SmallDisk dir(mount.path(), "64m");  // a disk would take half a minute to make this
  REQUIRE(os::make_dir(dir.file("wide"), 0700));
  constexpr int kWidth = 4200;
  for (int i = 0; i < kWidth; ++i) {
    const std::string sub = dir.file("wide/" + std::to_string(i));
    REQUIRE(::mkdir(sub.c_str(), 0700) == 0);
    REQUIRE(::symlink("x", (sub + "/l").c_str()) == 0);
  }
  REQUIRE(os::remove_tree(dir.file("wide")));
  REQUIRE_FALSE(os::exists(dir.file("wide")));
}
