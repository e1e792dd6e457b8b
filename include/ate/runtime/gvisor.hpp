#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ate/async/reaper.hpp"
#include "ate/async/task.hpp"
#include "ate/runtime/runtime.hpp"
#include "ate/runtime/selftest.hpp"

namespace ate::artifacts {
class AssetStore;
}  // namespace ate::artifacts

namespace ate::core {
class Paths;
}  // namespace ate::core

namespace ate::net {
class Egress;
class NetnsFactory;
}  // namespace ate::net

namespace ate::runtime {

/// Deadlines of single runsc commands (docs/lifecycle.md). Saving and restoring get
/// `bytes / bytes_per_second` on top, because they grow with the guest.
struct GvisorDeadlines {
  std::chrono::milliseconds control{5000};  // pause, resume, kill, probes
  std::chrono::milliseconds start{20000};   // create + start
  std::chrono::milliseconds save{30000};    // checkpoint, restore
  std::int64_t bytes_per_second = 50LL << 20;
  std::chrono::milliseconds reap{30000};  // from SIGKILL until everything is reaped
};

/// What the runtime needs beside its services. Built in daemon/compose.cpp.
struct GvisorOptions {
  /// true: limits are written to each leaf and runsc works with cgroups. false: runsc gets
  /// --ignore-cgroups.
  bool enforcement = false;
  /// Directory of a cgroup2 file system below which `<worker>/<serial>` leaves are made. With
  /// `enforcement` it offers cpu, memory, pids. Without it serves membership, cgroup.kill and
  /// CLONE_INTO_CGROUP only; empty = none can be had: pid + start time instead.
  std::string cgroup_root;
  /// Where the self-test keeps what it found (<stateDir>/selftest.json).
  std::string selftest_file;
  /// Program of the self-test and its arguments: the daemon's own static binary, which is copied
  /// into a root file system of its own together with the libraries it needs, if any.
  std::string selftest_program = "/proc/self/exe";
  std::vector<std::string> selftest_args = {"selftest-workload"};
  /// The way out for actors with `egress: nat`; null: there is none.
  net::Egress* egress = nullptr;
  GvisorDeadlines deadlines;
  /// Bytes kept of what a runsc command prints.
  std::size_t output_limit = 64 * 1024;
};

/// The gVisor runtime (design.md section 5). All references outlive it. Before it is destroyed,
/// `Runtime::shutdown` is awaited; sandboxes go on running.
[[nodiscard]] std::unique_ptr<Runtime> make_gvisor(async::Context& context, async::Reaper& reaper,
                                                   net::NetnsFactory& netns,
                                                   const artifacts::AssetStore& assets,
                                                   const core::Paths& paths, GvisorOptions options);

}  // namespace ate::runtime
