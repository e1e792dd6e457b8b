#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/core/admission.hpp"
#include "ate/core/exec.hpp"
#include "ate/util/clock.hpp"
#include "ate/util/fd.hpp"
#include "ate/util/log.hpp"

namespace ate::v1alpha1 {
class Actor;
class ActorTemplate;
class Capacity;
class Event;
class GoldenStatus;
class Operation;
class Snapshot;
class SnapshotMetadata;
class Worker;
class WorkerPool;
}  // namespace ate::v1alpha1

namespace ate::store {
class Store;
struct Loaded;
}  // namespace ate::store

namespace ate::artifacts {
class SnapshotStore;
class VolumeStore;
}  // namespace ate::artifacts

namespace ate::runtime {
class Runtime;
}  // namespace ate::runtime

namespace ate::engine {

class Templates;
class WorkerGroups;

/// Limits and periods; all from NodeConfig or fixed by design.md section 4.
struct Options {
  std::chrono::milliseconds operation_wait{60'000};  // a verb answers 202 after this
  std::chrono::milliseconds park_limit{30'000};
  std::size_t parked_total = 1024;
  std::size_t parked_per_actor = 64;
  std::chrono::milliseconds dial_timeout{5'000};
  std::chrono::milliseconds tick{1'000};  // of housekeeping
  // Output of actors: their log directories (unset: none), what is kept of each file, how often
  // they are looked at. An actor that floods is looked at more often.
  std::function<std::string(const std::string& uid)> log_directory;
  std::int64_t log_bytes = 16LL << 20;
  std::chrono::milliseconds log_period{250};
  // History: how many, and for how long (0 = no age is too old). Requests with an Idempotency-Key
  // are kept for 24 h.
  std::size_t keep_operations = 10'000;
  std::size_t keep_events = 100'000;
  std::chrono::milliseconds keep_operations_for{0};
  std::chrono::milliseconds keep_events_for{0};
  std::chrono::milliseconds keep_requests_for{std::chrono::hours(24)};
  std::string boot_id;
  std::string secrets_dir;  // where env.valueFrom.file may lead
  bool enforcement = true;
  std::string cgroup_root;  // shown in workers
  core::OverheadTerms gvisor_overhead{.fixed_bytes = 72LL << 20};
  core::OverheadTerms microvm_overhead{12LL << 20, 1LL << 20, 1.0};
  core::HostCapacity host_capacity;  // zero: not known, budgets are the pools' limits alone
  core::Overcommit overcommit;
  bool require_actor_limits = false;
  /// Outlives the engine; null: no cgroups are read, budgets are the pools' limits alone.
  const WorkerGroups* worker_groups = nullptr;
  /// Renders the error of a failed operation as it is stored and served: (error, instance, request
  /// id) -> problem document (api::problem_document). Unset: type-less document with the detail.
  std::function<std::string(const Error&, const std::string&, const std::string&)> render_error;
};

struct ActorKey {
  std::string atespace;
  std::string name;  // or uid
};

/// Who asked; ends up in the operation and in the audit line.
struct Caller {
  std::string request_id;
  std::uint32_t uid = 0;
};

/// A connection to a port of an actor.
struct Connected {
  UniqueFd socket;
  std::shared_ptr<async::Event> ended;  // set when the sandbox has ended; nothing comes any more
};

struct VerbOptions {
  std::string scope;                               // of a pause or suspend; "" = template's
  bool keep_volumes = false;                       // revert: the live durable volumes stay
  bool boot = false;                               // resume {boot: true}
  std::optional<std::chrono::milliseconds> grace;  // suspend/pause/delete with a graceful end
  std::optional<std::string> if_match;
  bool wait = true;                                            // false = Prefer: respond-async
  std::shared_ptr<const v1alpha1::SnapshotMetadata> metadata;  // of a new live snapshot; or null
};

/// Answer of a verb: the actor when it ended within the wait, and the operation in any case.
struct VerbResult {
  bool finished = false;                         // false -> 202 + Location of the operation
  bool noop = false;                             // already there: 200, no new operation
  std::shared_ptr<const v1alpha1::Actor> actor;  // null after delete
  std::string operation;                         // "" when noop
  std::string snapshot;                          // id of the one that make_snapshot made
};

struct ActorQuery {
  std::string atespace;  // "" = all
  std::vector<std::string> states;
  std::string template_name;
  std::vector<std::pair<std::string, std::string>> labels;
  std::string after;  // page token: key of the last item
  std::size_t limit = 100;
};

struct ActorPage {
  std::vector<std::shared_ptr<const v1alpha1::Actor>> items;  // by atespace, name
  std::string next;
};

/// The life of all actors: one writer per actor, journal before act, reconcile at start, idle
/// policy, restart back-off, waking on demand. Reads never wait for a lifecycle operation.
class Engine {
 public:
  Engine(async::Context& context, store::Store& store, Templates& templates,
         artifacts::SnapshotStore& snapshots, artifacts::VolumeStore& volumes,
         std::map<std::string, runtime::Runtime*> runtimes, const Clock& clock, const Log& log,
         Options options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  Engine(Engine&&) = delete;
  Engine& operator=(Engine&&) = delete;

  /// Takes over what the store holds. Before serving.
  [[nodiscard]] Status load(const store::Loaded& loaded);
  /// Compares records with the host (core/reconcile) and ends, removes, marks; then opens the gate
  /// for verbs. Verbs that come sooner get Unavailable; reads are served.
  [[nodiscard]] async::Task<Status> reconcile();
  /// Idle policy, restart back-off, trimming; until cancelled.
  [[nodiscard]] async::Task<void> housekeeping();
  /// Keeps the output files of actors that run, start or end short; until cancelled.
  [[nodiscard]] async::Task<void> bound_logs();
  /// Keeps the golden snapshots of templates that ask for one; until cancelled.
  [[nodiscard]] async::Task<void> goldens();
  /// Refuses new verbs, waits for running operations at most `grace`. Running actors are left
  /// alone.
  [[nodiscard]] async::Task<void> stop(std::chrono::milliseconds grace);

  /// Next resource version; shared with the catalog.
  [[nodiscard]] std::int64_t next_version();

  // Actors. `json` is the request body.
  [[nodiscard]] async::Task<Result<std::shared_ptr<const v1alpha1::Actor>>> create(
      std::string atespace, std::string json, Caller caller);
  [[nodiscard]] Result<std::shared_ptr<const v1alpha1::Actor>> get(const ActorKey& key) const;
  [[nodiscard]] Result<ActorPage> list(const ActorQuery& query) const;
  [[nodiscard]] async::Task<Result<std::shared_ptr<const v1alpha1::Actor>>> patch(
      ActorKey key, std::string merge_patch, std::optional<std::string> if_match, Caller caller);
  [[nodiscard]] async::Task<Result<VerbResult>> resume(ActorKey key, VerbOptions options,
                                                       Caller caller);
  [[nodiscard]] async::Task<Result<VerbResult>> pause(ActorKey key, VerbOptions options,
                                                      Caller caller);
  [[nodiscard]] async::Task<Result<VerbResult>> suspend(ActorKey key, VerbOptions options,
                                                        Caller caller);
  /// Snapshot of a running actor, which goes on.
  [[nodiscard]] async::Task<Result<VerbResult>> make_snapshot(ActorKey key, VerbOptions options,
                                                              Caller caller);
  [[nodiscard]] async::Task<Result<VerbResult>> revert(ActorKey key, VerbOptions options,
                                                       Caller caller);
  [[nodiscard]] async::Task<Result<VerbResult>> remove(ActorKey key, bool force,
                                                       VerbOptions options, Caller caller);
  /// `container` must be named when the actor has several.
  [[nodiscard]] async::Task<Status> signal(ActorKey key, int signo, std::string container,
                                           Caller caller);
  /// Runs a command in the actor, which is resumed first like by connect().
  [[nodiscard]] async::Task<Result<core::ExecOutput>> exec(ActorKey key, core::ExecPlan plan);

  /// Connected socket to a port of the actor, resuming it first when it is PAUSED or SUSPENDED
  /// (single flight; parked at most park_limit, then NoFreeWorker/Unavailable with
  /// retryAfterSeconds). StateConflict for EXITED and CRASHED.
  [[nodiscard]] async::Task<Result<Connected>> connect(ActorKey key, std::uint16_t port);
  /// Marks activity for the idle policy. While a hold lives the actor is not idle.
  void touch(const std::string& uid);
  [[nodiscard]] std::shared_ptr<void> hold(const std::string& uid);
  /// A hold that keeps no actor from being idle: a tunnel may be silent for days. The grace of a
  /// suspend or pause waits for it like for the others.
  [[nodiscard]] std::shared_ptr<void> hold_tunnel(const std::string& uid);

  // Snapshots.
  [[nodiscard]] std::vector<std::shared_ptr<const v1alpha1::Snapshot>> snapshots(
      const std::optional<ActorKey>& actor) const;
  [[nodiscard]] Result<std::shared_ptr<const v1alpha1::Snapshot>> snapshot(
      const std::string& id) const;
  /// Reads every byte against the manifest. SnapshotCorrupt.
  [[nodiscard]] async::Task<Status> verify_snapshot(std::string id);
  /// InUse naming the actors that name it.
  [[nodiscard]] async::Task<Status> remove_snapshot(std::string id, Caller caller);

  /// Labels and tags: an RFC 7396 merge patch of `metadata`.
  [[nodiscard]] async::Task<Result<std::shared_ptr<const v1alpha1::Snapshot>>> patch_snapshot(
      std::string id, std::string merge_patch, Caller caller);

  // What collecting needs to know.
  /// Digests of images and binaries that guests, and starts on their way, run on, whatever names
  /// them.
  [[nodiscard]] std::set<std::string> in_use() const;
  /// False until it is known what a former daemon left.
  [[nodiscard]] bool is_ready() const;

  // Workers.
  [[nodiscard]] std::vector<std::shared_ptr<const v1alpha1::Worker>> workers() const;
  /// Fills in what the pool's status says of its workers.
  void describe(v1alpha1::WorkerPool& pool) const;
  [[nodiscard]] Result<std::shared_ptr<const v1alpha1::Worker>> worker(
      const std::string& name) const;
  /// What the pools have and could take; with `blueprint` also what an actor of it would get where,
  /// or why not.
  [[nodiscard]] v1alpha1::Capacity capacity(const v1alpha1::ActorTemplate* blueprint) const;

  // Operations and events: running ones from memory, finished ones from the store.
  [[nodiscard]] async::Task<Result<std::shared_ptr<const v1alpha1::Operation>>> operation(
      std::string id);
  /// Waits until the operation ended or `limit` passed, then returns it.
  [[nodiscard]] async::Task<Result<std::shared_ptr<const v1alpha1::Operation>>> wait_operation(
      std::string id, std::chrono::milliseconds limit);
  /// Completes when an event newer than `seen` was committed (or `limit` passed); returns the
  /// newest id.
  [[nodiscard]] async::Task<std::int64_t> wait_event(std::int64_t seen,
                                                     std::chrono::milliseconds limit);
  [[nodiscard]] std::int64_t last_event() const noexcept;

  /// For objects::References: true while an actor or snapshot names that generation.
  [[nodiscard]] bool template_in_use(const std::string& atespace, const std::string& name,
                                     std::int64_t generation) const;
  /// status.golden of a template; unset when it asks for none.
  [[nodiscard]] std::optional<v1alpha1::GoldenStatus> golden_status(
      const v1alpha1::ActorTemplate& source) const;
  /// Called by the catalog when a pool, template or sandbox config changed.
  void on_object_change();

  /// For /readyz: name -> (ok, detail).
  struct Check {
    std::string name;
    bool ok = false;
    std::string detail;
  };

  [[nodiscard]] std::vector<Check> checks() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ate::engine
