#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ate/async/reaper.hpp"
#include "ate/async/task.hpp"
#include "ate/core/runsc_args.hpp"
#include "ate/net/netns.hpp"
#include "ate/runtime/gvisor.hpp"
#include "runtime/gvisor/incarnation.hpp"
#include "runtime/gvisor/leaf.hpp"
#include "runtime/gvisor/runsc.hpp"

namespace ate::v1alpha1 {
class Readyz;
}  // namespace ate::v1alpha1

namespace ate::runtime::gvisor {

/// Recorded in each snapshot and checked before a restore.
inline constexpr const char* kNetworkMode = "sandbox";
inline constexpr const char* kOverlayMode = "root:dir";

/// Names an incarnation: (uid, serial).
using GuestKey = std::pair<std::string, std::int64_t>;

/// What every part of the runtime uses. One per runtime; outlives all guests.
struct Services {
  Services(async::Context& c, async::Reaper& r, net::NetnsFactory& n,
           const artifacts::AssetStore& a, const core::Paths& p, GvisorOptions o);

  async::Context& context;
  async::Reaper& reaper;
  net::NetnsFactory& netns;
  const artifacts::AssetStore& assets;
  const core::Paths& paths;
  GvisorOptions options;
  Runsc runsc;
  async::TaskScope watchers;  // each waits for the end of one sandbox, or brings it about
  async::TaskScope teardown;  // networks of sandboxes that are gone
  // What this process holds, so that observe() leaves it out. Touched on the loop only.
  std::set<GuestKey> alive;
  std::set<std::string> undead;  // actors of which a failed start left what would not end yet
  std::set<std::string> networks;
};

/// What one container is started from.
struct ContainerPlan {
  std::string name;  // as in the template; of the stdio files too
  std::string rootfs;
  std::function<Result<Binds>(const Layout&)> binds;
  std::function<Result<std::string>(const core::OciPaths&)> make_spec;
  int stop_signal = 15;
  bool sidecar = false;
  std::shared_ptr<const v1alpha1::Readyz> gate;  // null = none
  /// Had ended when the snapshot was taken: started anew beside those that are restored.
  bool cold = false;
  std::optional<int> exit_code;
  std::int64_t restarts = 0;
};

/// What a guest is started from.
struct StartPlan {
  Incarnation incarnation;
  net::NetnsPair netns;
  std::string runsc;  // path of the binary
  std::string platform;
  std::vector<ContainerPlan> containers;
  /// Of the root that several containers share; unset: there is one container, which is the root.
  std::function<Result<std::string>(const core::OciPaths&)> make_pause_spec;
  std::string image_path;  // snapshot directory; "" = boot
  std::int64_t image_bytes = 0;
  bool nat = false;                   // egress: nat
  std::int64_t disk_quota_bytes = 0;  // of each container's root file system; 0 = none
};

/// One container of a live guest.
struct GuestContainer {
  std::string name;
  std::string id;  // runsc's
  std::string bundle;
  std::string rootfs;
  std::string oci_spec;
  int stop_signal = 15;
  bool sidecar = false;
  std::shared_ptr<const v1alpha1::Readyz> gate;
  bool cold = false;
  std::int64_t log_start = 0;  // size of the stderr file when this incarnation began
  os::ProcessId gofer;
  // Its life.
  ContainerView::State state = ContainerView::State::Running;
  bool known_to_runsc = true;  // false: ended and deleted there
  bool ready = false;
  std::optional<int> exit_code;
  std::int64_t restarts = 0;
  std::int32_t streak = 0;  // restarts since it last ran for a while
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  std::string message;
};

struct Exec;  // exec.cpp

using ContainerPtr = std::shared_ptr<GuestContainer>;

/// A live sandbox: its processes, cgroup, network, files. Shared by the Sandbox that the engine
/// holds and by the coroutine that watches for its end. Its destructor closes descriptors only.
class Guest {
 public:
  Guest(Services& services, Incarnation incarnation, net::NetnsPair netns);

  Services& services;
  Incarnation incarnation;
  net::NetnsPair netns;
  Layout layout;
  Leaf leaf;
  core::RunscGlobals globals;
  std::vector<ContainerPtr> containers;
  std::string pause_spec;  // "" = one container, which is the sandbox's root
  SandboxProcesses processes;
  UniqueFd net_counters;  // /proc/<sandbox>/net/dev: the sandbox side of the veth
  async::Mutex control;   // one runsc command at a time
  async::Mutex
      shape;  // which containers there are: a save and a sidecar's restart exclude each other
  async::Event changed;    // something that containers() tells
  async::Event ended;      // the actor's end, whatever of the sandbox still runs
  async::Event all_ended;  // of the containers, or of the sandbox
  SandboxExit exit;
  std::vector<std::shared_ptr<Exec>> execs;  // commands that run in it
  std::int64_t exec_number = 0;
  bool killing = false;
  bool gofer_lost = false;  // the gofer ended first: we ended the sandbox for it
  bool paused = false;
  bool dead = false;  // its processes are reaped: they can't be waited for again
  bool gone = false;  // destroy() has done its work

  [[nodiscard]] bool pod() const noexcept { return !pause_spec.empty(); }
};

using GuestPtr = std::shared_ptr<Guest>;

/// A pair from the factory, and its way back; both keep Services::networks right.
[[nodiscard]] async::Task<Result<net::NetnsPair>> acquire_network(Services& services);
[[nodiscard]] async::Task<void> release_network(Services& services, net::NetnsPair pair);
/// Its way out, for `egress: nat`. Taken away by release_network.
[[nodiscard]] async::Task<Status> open_egress(Services& services, net::NetnsPair pair);

/// Makes everything and starts runsc. On failure nothing is left (the network goes in the
/// background).
[[nodiscard]] async::Task<Result<GuestPtr>> start_guest(Services& services, StartPlan plan,
                                                        StageSink& stages);
/// Kills all processes, waits until they are reaped, removes cgroup, files, overlay; network in the
/// background. Idempotent.
[[nodiscard]] async::Task<Status> end_guest(GuestPtr guest);
/// A control command on the guest; serialised.
[[nodiscard]] async::Task<Result<Outcome>> control(GuestPtr guest, std::string what,
                                                   core::Argv argv,
                                                   std::chrono::milliseconds deadline);
/// The command that starts a container in the guest's cgroup, anew or from `image_path`.
[[nodiscard]] Command start_command(const Guest& guest, const core::RunscContainer& container,
                                    const std::string& image_path, std::int64_t image_bytes);
/// For everybody who waits for what containers() tells.
void tell_change(Guest& guest);
/// The container of that name; InvalidValue names those there are.
[[nodiscard]] Result<ContainerPtr> find_container(const Guest& guest, const std::string& name);
/// The actor's end is known: the first one that tells wins.
void tell_end(Guest& guest, SandboxExit exit);

/// pause + checkpoint -leave-running; the guest stays paused.
[[nodiscard]] async::Task<Status> save_guest(GuestPtr guest, std::string directory,
                                             StageSink& stages);
[[nodiscard]] async::Task<Status> unpause_guest(GuestPtr guest);
/// Bytes that a checkpoint would write: what the files hold that the guest's memory and its overlay
/// live in. Blocking.
[[nodiscard]] std::int64_t resident_bytes(const Guest& guest);
/// "exited with code 3: last words" for messages.
[[nodiscard]] std::string describe_end(const Guest& guest);
/// What of it a container wrote last on its stderr; "" when nothing.
[[nodiscard]] std::string last_words_of(const Guest& guest, const GuestContainer& container);
/// Deadline of something that moves `bytes`.
[[nodiscard]] std::chrono::milliseconds transfer_deadline(const GvisorDeadlines& deadlines,
                                                          std::int64_t bytes);

/// Times one stage: from construction to done().
class StageTimer {
 public:
  StageTimer(StageSink& sink, std::string name);
  void done();

 private:
  StageSink& sink_;
  std::string name_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ate::runtime::gvisor
