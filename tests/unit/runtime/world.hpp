#pragma once

#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ate/artifacts/artifacts.hpp"
#include "ate/async/reaper.hpp"
#include "ate/core/cgroup_plan.hpp"
#include "ate/core/paths.hpp"
#include "ate/net/netns.hpp"
#include "ate/os/cgroup.hpp"
#include "ate/os/fs.hpp"
#include "ate/runtime/gvisor.hpp"
#include "ate/util/ids.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

namespace ate::test {

/// Records the names of stages.
class Stages final : public runtime::StageSink {
 public:
  void record(std::string name, std::chrono::nanoseconds duration) override {
    names.push_back(name);
    last = duration;
  }

  std::vector<std::string> names;
  std::chrono::nanoseconds last{0};
};

/// Directories that outlive a daemon: what a Host is opened on, several times in a test.
struct Ground {
  Ground() : cgroup_mount(dir.file("cgroup")) {
    std::filesystem::create_directories(dir.file("images/app/rootfs/etc"));
    std::filesystem::create_directories(dir.file("images/app/rootfs/tmp"));
    std::filesystem::copy_file(ATE_TEST_WORKLOAD, rootfs() + "/workload");
    const Status mounted = os::mount_private_cgroup2(cgroup_mount);
    if (mounted) {
      cgroup_root = cgroup_mount + "/ate-test-" + random_hex(8);
      REQUIRE(os::make_dir(cgroup_root, 0755));
    }
  }

  ~Ground() {
    if (!cgroup_root.empty()) {
      static_cast<void>(::rmdir(cgroup_root.c_str()));
    }
    static_cast<void>(::umount2(cgroup_mount.c_str(), MNT_DETACH));
  }

  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;
  Ground(Ground&&) = delete;
  Ground& operator=(Ground&&) = delete;

  [[nodiscard]] std::string rootfs() const { return dir.file("images/app/rootfs"); }

  TempDir dir;
  std::string cgroup_mount;
  std::string cgroup_root;
};

/// A directory on the host's own cgroup v2 tree with controllers to give, for tests of enforcement.
/// `root` is "" with the reason in `missing` where there is none.
struct EnforcedTree {
  EnforcedTree() {
    const Result<os::Cgroup> top = os::Cgroup::open("/sys/fs/cgroup");
    const Result<bool> v2 = os::is_cgroup2("/sys/fs/cgroup");
    if (!top || !v2 || !*v2) {
      missing = "/sys/fs/cgroup is no cgroup v2";
      return;
    }
    if (const Status enabled = top->enable(core::cgroup_controllers()); !enabled) {
      missing = enabled.error().message();
      return;
    }
    const Result<os::Cgroup> made = top->make_child("ate-test-" + random_hex(8), {});
    if (!made) {
      missing = made.error().message();
      return;
    }
    if (const Status enabled = made->enable(core::cgroup_controllers()); !enabled) {
      missing = enabled.error().message();
      return;
    }
    root = made->path();
  }

  ~EnforcedTree() {
    if (const Result<os::Cgroup> group = os::Cgroup::open(root); group) {
      static_cast<void>(group->remove());
    }
  }

  EnforcedTree(const EnforcedTree&) = delete;
  EnforcedTree& operator=(const EnforcedTree&) = delete;
  EnforcedTree(EnforcedTree&&) = delete;
  EnforcedTree& operator=(EnforcedTree&&) = delete;

  std::string root;
  std::string missing;
};

/// One daemon's worth of services around the runtime.
struct Host {
  Host(async::Context& c, const Ground& g, runtime::GvisorOptions options)
      : context(c),
        ground(g),
        paths(g.dir.file("state"), g.dir.file("run")),
        reaper(c),
        netns(c, paths.netns(), 0),
        assets(c, paths.assets()) {
    REQUIRE(os::make_dirs(paths.state_dir(), 0710));
    REQUIRE(os::make_dirs(paths.run_dir(), 0710));
    REQUIRE(os::make_dirs(paths.actors(), 0710));
    REQUIRE(os::make_dirs(paths.run_actors(), 0710));
    REQUIRE(assets.prepare());
    REQUIRE(netns.prepare());
    options.selftest_file = paths.state_dir() + "/selftest";
    options.selftest_program = ATE_TEST_SELFTEST_GUEST;
    runtime = runtime::make_gvisor(c, reaper, netns, assets, paths, std::move(options));
  }

  async::Task<void> close() {
    co_await runtime->shutdown();
    co_await netns.drain();
  }

  async::Context& context;
  const Ground& ground;
  core::Paths paths;
  async::Reaper reaper;
  net::NetnsFactory netns;
  artifacts::AssetStore assets;
  std::unique_ptr<runtime::Runtime> runtime;
};

inline runtime::GvisorOptions options_of(const Ground& ground) {
  runtime::GvisorOptions options;
  options.cgroup_root = ground.cgroup_root;
  return options;
}

/// A template of one container that runs the workload.
inline std::shared_ptr<v1alpha1::ActorTemplateSpec> workload_spec() {
  auto spec = std::make_shared<v1alpha1::ActorTemplateSpec>();
  v1alpha1::Container& container = *spec->add_containers();
  container.set_name("app");
  container.add_command("/workload");
  v1alpha1::Readyz& gate = *container.mutable_readyz();
  gate.mutable_http()->set_port(8080);
  gate.mutable_http()->set_path("/readyz");
  gate.set_timeout("5s");
  v1alpha1::EnvVar& variable = *container.add_env();
  variable.set_name("COLOUR");
  variable.set_value("blue");
  v1alpha1::Volume& info = *spec->add_volumes();
  info.set_name("info");
  info.mutable_system_info();
  v1alpha1::VolumeMount& mount = *container.add_volume_mounts();
  mount.set_name("info");
  mount.set_mount_path("/run/ate");
  return spec;
}

inline runtime::Incarnation incarnation_of(const std::string& uid, std::int64_t serial) {
  runtime::Incarnation out;
  out.atespace = "default";
  out.name = "c1";
  out.uid = uid;
  out.template_name = "counter";
  out.template_generation = 2;
  out.serial = serial;
  out.worker = "small-0";
  return out;
}

inline runtime::BootPlan boot_plan(const Ground& ground, const std::string& digest,
                                   const std::string& uid, std::int64_t serial,
                                   std::shared_ptr<v1alpha1::ActorTemplateSpec> spec) {
  runtime::BootPlan plan;
  plan.incarnation = incarnation_of(uid, serial);
  plan.spec = std::move(spec);
  runtime::ContainerImage image;
  image.container = "app";
  image.digest = "sha256:image";
  image.rootfs = ground.rootfs();
  image.working_dir = "/tmp";
  plan.images.push_back(image);
  plan.assets["runsc"] = digest;
  return plan;
}

/// Body of a GET on the actor; "" when it failed. Blocks at most 2 s, on the pool.
inline async::Task<std::string> get(Host& host, runtime::Sandbox& sandbox, std::string target) {
  Result<UniqueFd> socket = co_await sandbox.dial(8080, std::chrono::milliseconds(500));
  if (!socket) {
    co_return std::string();
  }
  auto fd = std::make_shared<UniqueFd>(std::move(*socket));
  auto job = [fd, target]() {
    const std::string request = "GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n";
    std::string reply;
    if (::send(fd->get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
      return reply;
    }
    for (;;) {
      pollfd entry{.fd = fd->get(), .events = POLLIN, .revents = 0};
      char buffer[4096];
      if (::poll(&entry, 1, 2000) != 1) {
        break;
      }
      const ssize_t got = ::read(fd->get(), buffer, sizeof buffer);
      if (got <= 0) {
        break;
      }
      reply.append(buffer, static_cast<std::size_t>(got));
    }
    const std::size_t body = reply.find("\r\n\r\n");
    return body == std::string::npos ? std::string() : reply.substr(body + 4);
  };
  co_return co_await async::run_blocking(host.context, job);
}

/// What must be the same before and after: mounts, descriptors, children, cgroups, files of ours.
struct Traces {
  std::multiset<std::string> mounts;
  std::multiset<std::string> descriptors;
  std::multiset<std::string> children;
  std::multiset<std::string> files;
};

/// What is only in one of them, for a message.
inline std::vector<std::string> differences(const Traces& before, const Traces& after) {
  std::vector<std::string> out;
  const auto compare = [&out](const std::multiset<std::string>& a,
                              const std::multiset<std::string>& b) {
    std::vector<std::string> words;
    std::set_difference(b.begin(), b.end(), a.begin(), a.end(), std::back_inserter(words));
    for (const std::string& word : words) {
      out.push_back("new: " + word);
    }
    words.clear();
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(words));
    for (const std::string& word : words) {
      out.push_back("gone: " + word);
    }
  };
  compare(before.mounts, after.mounts);
  compare(before.descriptors, after.descriptors);
  compare(before.children, after.children);
  compare(before.files, after.files);
  return out;
}

inline Traces look(const Ground& ground) {
  namespace fs = std::filesystem;
  Traces out;
  std::ifstream mountinfo("/proc/self/mountinfo");
  for (std::string line; std::getline(mountinfo, line);) {
    out.mounts.insert(line);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    // Inode numbers of sockets, pipes and of the directory being read differ each time.
    if (!gone && target.find("/proc/") != 0) {
      out.descriptors.insert(target.substr(0, target.find('[')));
    }
  }
  std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  for (std::string pid; children >> pid;) {
    out.children.insert(pid);
  }
  for (const std::string& top :
       {ground.dir.file("run"), ground.dir.file("state"), ground.rootfs(), ground.cgroup_root}) {
    std::error_code missing;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top, missing)) {
      std::error_code no_size;
      const bool regular = fs::is_regular_file(fs::symlink_status(entry.path(), no_size));
      out.files.insert(entry.path().string() +
                       (regular ? " " + std::to_string(fs::file_size(entry.path(), no_size)) : ""));
    }
  }
  return out;
}

}  // namespace ate::test
