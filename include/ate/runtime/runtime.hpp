#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/core/exec.hpp"
#include "ate/util/fd.hpp"

namespace ate::v1alpha1 {
class ActorTemplateSpec;
class SnapshotManifest;
}  // namespace ate::v1alpha1

namespace ate::runtime {

/// Times the stages of an operation; names end up in Operation.stages and in docs/lifecycle.md.
/// `own` stages are the daemon's, the rest is time inside runsc or the VMM.
class StageSink {
 public:
  virtual ~StageSink() = default;
  virtual void record(std::string name, std::chrono::nanoseconds duration) = 0;
};

/// The budget of a worker and what its guest gets (core/sizing).
struct WorkerLimits {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t pids = 0;
  std::int64_t guest_memory_bytes = 0;
  std::int32_t guest_vcpus = 0;
};

/// Everything that names one incarnation of an actor's sandbox.
struct Incarnation {
  std::string atespace;
  std::string name;
  std::string uid;
  std::string template_name;
  std::int64_t template_generation = 0;
  std::int64_t serial = 0;
  std::string worker;  // worker name = cgroup directory below the root
  WorkerLimits limits;
};

/// An image of the template, resolved and unpacked.
struct ContainerImage {
  std::string container;
  std::string digest;
  std::string rootfs;
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::string> env;
  std::string user;
  std::string working_dir;
  std::string stop_signal;
};

struct BootPlan {
  Incarnation incarnation;
  std::shared_ptr<const v1alpha1::ActorTemplateSpec> spec;
  std::vector<ContainerImage> images;
  std::map<std::string, std::string> assets;   // asset name -> sha256:<hex>, in the asset store
  std::map<std::string, std::string> options;  // platform, ...
  std::string secrets_dir;                     // the only place of env.valueFrom.file
  std::map<std::string, std::string> volumes;  // durable volume -> its directory on the host
};

struct RestorePlan {
  Incarnation incarnation;
  std::shared_ptr<const v1alpha1::ActorTemplateSpec> spec;  // for probes and system-info only
  std::string directory;                                    // of the snapshot
  std::shared_ptr<const v1alpha1::SnapshotManifest> manifest;
  std::vector<ContainerImage> images;          // rootfs paths by the manifest's digests
  std::map<std::string, std::string> volumes;  // durable volume -> its directory on the host
};

/// How a sandbox ended. With several containers: what the end of the one did that mattered.
struct SandboxExit {
  enum class Cause : std::uint8_t { Exited, Killed, CgroupOom, SandboxCrash, Unknown };
  Cause cause = Cause::Unknown;
  int exit_code = 0;
  int signal = 0;
  std::string detail;     // what was seen; bounded, escaped
  std::string container;  // whose end it was, where one container's end was it
};

/// One container of a live sandbox, as status.containers shows it.
struct ContainerView {
  enum class State : std::uint8_t { Running, Waiting, Exited };
  std::string name;
  State state = State::Running;
  bool sidecar = false;
  bool ready = false;
  std::optional<int> exit_code;  // of its last end
  std::int64_t restarts = 0;     // of a sidecar, in place
  std::string message;           // bounded, escaped
};

using core::ExecOutput;
using core::ExecPlan;

/// What is stored to find a sandbox again.
struct Identity {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
  std::string netns_id;
};

/// One live guest, owned by exactly one engine entry. The destructor closes descriptors and never
/// kills: `destroy` is the explicit step. Every call has a deadline of its own.
class Sandbox {
 public:
  virtual ~Sandbox() = default;
  [[nodiscard]] virtual Identity identity() const = 0;
  /// Opens when the readiness gate of the template does (at once without one). NotReady after its
  /// timeout; ends early with RuntimeFailed when the sandbox died.
  [[nodiscard]] virtual async::Task<Status> ready(StageSink& stages) = 0;
  /// Freezes the guest and saves it into `directory` (empty, 0700, on the snapshots' file system).
  /// The guest stays paused and alive, also on failure: follow with unpause() or destroy(). Fills
  /// the manifest's runtime part (assets, cpu features, oci spec, runtime map), not its files.
  [[nodiscard]] virtual async::Task<Status> checkpoint(
      std::string directory, std::shared_ptr<v1alpha1::SnapshotManifest> manifest,
      StageSink& stages) = 0;
  [[nodiscard]] virtual async::Task<Status> unpause() = 0;
  /// Signal (number in 1..64) to the first process of a container; "" = the only one.
  [[nodiscard]] virtual async::Task<Status> signal(int signo, std::string container) = 0;
  /// Connected non-blocking TCP socket to a port of the actor.
  [[nodiscard]] virtual async::Task<Result<UniqueFd>> dial(std::uint16_t port,
                                                           std::chrono::milliseconds timeout) = 0;
  /// Completes when the sandbox has ended, whoever ended it. May be awaited by several.
  [[nodiscard]] virtual async::Task<SandboxExit> exited() = 0;
  /// All of the template's containers as they are now, in its order.
  [[nodiscard]] virtual std::vector<ContainerView> containers() const = 0;
  /// Completes when containers() has changed since the last call; false: the actor's end has come,
  /// nothing more will. One may wait.
  [[nodiscard]] virtual async::Task<bool> containers_changed() = 0;
  /// Runs a process to its end or its timeout, when it is killed with what it started. InvalidValue
  /// when it can't be started; StateConflict when the sandbox ended or was saved meanwhile.
  [[nodiscard]] virtual async::Task<Result<ExecOutput>> exec(ExecPlan plan) = 0;
  /// Bytes of guest memory a checkpoint would write, roughly; for the disk space check. 0 =
  /// unknown.
  [[nodiscard]] virtual async::Task<std::int64_t> resident_bytes() = 0;
  /// Monotonic count of bytes the actor's interface moved (idle policy).
  [[nodiscard]] virtual std::uint64_t network_bytes() = 0;
  /// Kills every process of the incarnation, waits until all are reaped, removes cgroup leaf, run
  /// directory and overlay. Idempotent. Network teardown may go on after it returns. Unless
  /// `graceful` is zero, first sends each container its stop signal and waits that long for all.
  [[nodiscard]] virtual async::Task<Status> destroy(std::chrono::milliseconds graceful) = 0;
};

/// Something of ours found on the host at start: a cgroup leaf, netns pair, run directory, process,
/// mount.
struct Leftover {
  std::string kind;  // cgroup | netns | uplink | rundir | process | overlay
  std::string id;    // what purge() needs
  std::string uid;   // actor's, when it can be told
  std::int64_t serial = 0;
  bool live = false;  // processes are in it
};

/// State of the self-test of a runtime binary.
struct Health {
  enum class State : std::uint8_t { Pending, Running, Passed, Failed };
  State state = State::Pending;
  std::string detail;  // why it failed, for a person
};

/// One sandbox class. The engine sees the world only through this.
class Runtime {
 public:
  virtual ~Runtime() = default;
  [[nodiscard]] virtual std::string class_name() const = 0;
  /// Imports the assets of a SandboxConfig, probes the binary, runs or recalls the self-test keyed
  /// by (sha256, kernel, CPU features). Long; never holds up /healthz.
  [[nodiscard]] virtual async::Task<Status> self_test(
      std::map<std::string, std::string> assets, std::map<std::string, std::string> options) = 0;
  /// What of a guest made now depends on the runtime: asset digests, CPU features, modes. Part of
  /// the key of golden snapshots.
  [[nodiscard]] virtual async::Task<Result<std::map<std::string, std::string>>> fingerprint(
      std::map<std::string, std::string> assets, std::map<std::string, std::string> options) = 0;
  /// Checks by the manifest alone whether this host can restore it: SnapshotIncompatible with the
  /// field and both values; SnapshotCorrupt.
  [[nodiscard]] virtual Status can_restore(const v1alpha1::SnapshotManifest& manifest) const = 0;
  /// Id of a netns pair (and of whatever else must be recorded before acting) for the next boot or
  /// restore.
  [[nodiscard]] virtual async::Task<Result<Identity>> reserve() = 0;
  /// Gives a reservation back that was not used.
  [[nodiscard]] virtual async::Task<void> release(Identity reserved) = 0;
  /// Starts a sandbox. On failure everything that was made is gone again.
  [[nodiscard]] virtual async::Task<Result<std::unique_ptr<Sandbox>>> boot(BootPlan plan,
                                                                           Identity reserved,
                                                                           StageSink& stages) = 0;
  [[nodiscard]] virtual async::Task<Result<std::unique_ptr<Sandbox>>> restore(
      RestorePlan plan, Identity reserved, StageSink& stages) = 0;
  /// What of ours is on this host. Blocking work runs on the pool.
  [[nodiscard]] virtual async::Task<Result<std::vector<Leftover>>> observe() = 0;
  /// Ends and removes it. Idempotent.
  [[nodiscard]] virtual async::Task<Status> purge(Leftover leftover) = 0;
  /// Removes what an actor owns on disk beside snapshots (logs, overlay): after delete.
  [[nodiscard]] virtual async::Task<Status> forget_actor(std::string uid) = 0;
  /// Waits for background teardown, then gives up what was made ahead. Sandboxes go on running.
  /// The default does nothing.
  [[nodiscard]] virtual async::Task<void> shutdown();
};

}  // namespace ate::runtime
