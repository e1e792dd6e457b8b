#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ate/artifacts/artifacts.hpp"
#include "ate/artifacts/volumes.hpp"
#include "ate/core/lifecycle.hpp"
#include "ate/core/reconcile.hpp"
#include "ate/core/start.hpp"
#include "ate/engine/engine.hpp"
#include "ate/engine/templates.hpp"
#include "ate/runtime/runtime.hpp"
#include "ate/store/store.hpp"
#include "ate/util/failpoint.hpp"
#include "engine/actors.hpp"
#include "engine/golden.hpp"
#include "engine/journal.hpp"
#include "engine/marked_ids.hpp"
#include "engine/run.hpp"
#include "engine/snapshot_rows.hpp"
#include "engine/workers.hpp"

namespace ate::engine {

using EntryPtr = std::shared_ptr<Entry>;
using RunPtr = std::shared_ptr<Run>;
using GuestPtr = std::shared_ptr<Guest>;

/// One write of one actor: the edit of its record and all that goes with it into the transaction.
struct Change {
  std::function<void(v1alpha1::ActorRecord&)> edit;
  RunPtr run;             // its row is written
  bool ends_run = false;  // with this commit the operation is over
  std::optional<Error> error;
  std::vector<std::shared_ptr<const v1alpha1::Snapshot>> put_snapshots;
  std::vector<std::string> drop_snapshots;
  std::string event;  // a type beside actor.state
  std::string message;
  bool remove = false;  // the row goes
  /// When the commit fails, memory goes on with it all the same and it is saved later: for what
  /// has happened already.
  bool even_unsaved = false;
};

/// What a start is made of; filled on the way.
struct Start {
  core::State origin = core::State::Suspended;
  core::Source source = core::Source::Boot;
  std::shared_ptr<const v1alpha1::ActorTemplate> blueprint;
  runtime::Runtime* runtime = nullptr;
  std::string snapshot;                     // that was selected; "" = none
  artifacts::SnapshotStore::Opened opened;  // the one whose memory is restored
  core::StartChoice choice;
  core::VolumeMarks marks;                  // before
  artifacts::SnapshotStore::Opened copies;  // the one whose volumes come back first
  std::vector<artifacts::Volume> volumes;   // as they are
  bool touched = false;                     // from here on the live volumes may have changed
  Slot slot;
  runtime::Identity reserved;
  bool reserved_open = false;  // has to be released when it is not used
  std::int64_t serial = 0;
  std::int32_t spare = 0;                 // fitting workers that have to stay free beside its own
  std::optional<core::BakedSize> size;    // of the guest; unset = what the worker gives
  std::shared_ptr<const MarkedIds> held;  // the golden snapshot it reads
  std::shared_ptr<const std::vector<std::string>> in_use;  // its guest takes it over
  bool bad_memory = false;  // the snapshot that gives it is what was found at fault
  std::shared_ptr<const v1alpha1::SandboxConfig> config;
  std::vector<runtime::ContainerImage> images;
};

struct Engine::State : std::enable_shared_from_this<Engine::State> {
  State(async::Context& context_in, store::Store& store_in, Templates& templates_in,
        artifacts::SnapshotStore& snapshots_in, artifacts::VolumeStore& volumes_in,
        std::map<std::string, runtime::Runtime*> runtimes_in, const Clock& clock_in,
        const Log& log_in, Options options_in);

  // journal side (changes.cpp)
  [[nodiscard]] async::Task<Status> change(EntryPtr entry, Change change);
  void swap_in(const EntryPtr& entry, const std::shared_ptr<const v1alpha1::ActorRecord>& record,
               const Change& change);
  void end_run(const RunPtr& run, const std::optional<Error>& error);
  [[nodiscard]] async::Task<void> save_dirty();
  [[nodiscard]] std::shared_ptr<Live> live(const EntryPtr& entry);
  void maybe_rest(const EntryPtr& entry);

  // verbs.cpp
  [[nodiscard]] Status open_for_verbs() const;
  [[nodiscard]] Result<EntryPtr> find(const ActorKey& key) const;
  [[nodiscard]] async::Task<Result<VerbResult>> verb(core::Command command, ActorKey key,
                                                     VerbOptions options, Caller caller);
  [[nodiscard]] async::Task<Result<RunPtr>> enter(core::Command command, ActorKey key,
                                                  VerbOptions options, Caller caller,
                                                  std::shared_ptr<VerbResult> result);
  [[nodiscard]] async::Task<Result<VerbResult>> await_run(EntryPtr entry, RunPtr run,
                                                          VerbOptions options);
  [[nodiscard]] RunPtr make_run(const EntryPtr& entry, core::Command command, Caller caller) const;
  [[nodiscard]] RunPtr start_run(const EntryPtr& entry, core::Command command,
                                 const core::Decision& decision, VerbOptions options,
                                 Caller caller);
  [[nodiscard]] async::Task<void> execute(EntryPtr entry, RunPtr run, core::Decision decision,
                                          VerbOptions options);
  [[nodiscard]] async::Task<Status> dispatch(EntryPtr entry, RunPtr run, core::Decision decision,
                                             VerbOptions options);
  void after_run(const EntryPtr& entry, const RunPtr& run, const Status& status);
  /// From here on other verbs may begin; false when it had let go of the actor before.
  bool let_go(const EntryPtr& entry, const RunPtr& run);
  [[nodiscard]] async::Task<void> cancel_run(EntryPtr entry, RunPtr run);

  // create.cpp
  [[nodiscard]] SnapshotRows::Row forkable(const std::string& id) const;
  [[nodiscard]] async::Task<Result<std::shared_ptr<const v1alpha1::Actor>>> create(
      std::string atespace, std::string json, Caller caller);
  [[nodiscard]] async::Task<Result<std::shared_ptr<const v1alpha1::Actor>>> patch(
      ActorKey key, std::string merge_patch, std::optional<std::string> if_match, Caller caller);
  [[nodiscard]] Status move_generation(const EntryPtr& entry, v1alpha1::Actor& actor) const;

  // resume.cpp
  [[nodiscard]] async::Task<Status> run_resume(EntryPtr entry, RunPtr run, core::Decision decision);
  [[nodiscard]] async::Task<Status> prepare_start(EntryPtr entry, RunPtr run,
                                                  std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<Status> open_source(EntryPtr entry, RunPtr run,
                                                std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<Status> select_source(EntryPtr entry, RunPtr run,
                                                  std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<Status> open_memory(std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<Result<artifacts::SnapshotStore::Opened>> open_row(std::string id);
  [[nodiscard]] async::Task<Status> take_worker(EntryPtr entry, std::shared_ptr<Start> start);
  void mark_in_use(Start& start);
  [[nodiscard]] async::Task<Status> begin_start(EntryPtr entry, RunPtr run,
                                                std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<Status> fetch_images(std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<Status> launch(EntryPtr entry, RunPtr run,
                                           std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<Result<std::unique_ptr<runtime::Sandbox>>> launch_sandbox(
      EntryPtr entry, RunPtr run, std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<Status> commit_running(EntryPtr entry, RunPtr run,
                                                   std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<void> undo_start(EntryPtr entry, RunPtr run,
                                             std::shared_ptr<Start> start, Error error);
  [[nodiscard]] async::Task<void> drop_start(EntryPtr entry, std::shared_ptr<Start> start);
  /// Ends the guest that a start led to, or gives back what it had taken for one.
  [[nodiscard]] async::Task<void> end_start(EntryPtr entry, std::shared_ptr<Start> start);

  struct Save;
  // volumes.cpp
  /// Of its generation; null when that is gone.
  [[nodiscard]] std::shared_ptr<const v1alpha1::ActorTemplate> blueprint_of(
      const EntryPtr& entry) const;
  [[nodiscard]] Status check_save_scope(const EntryPtr& entry, const Save& save) const;
  [[nodiscard]] core::Scope scope_of(const EntryPtr& entry, core::State transient,
                                     const std::string& asked) const;
  [[nodiscard]] std::vector<std::string> volume_names(const EntryPtr& entry) const;
  /// Brings the live volumes to where the start begins, and makes what is missing.
  [[nodiscard]] async::Task<Status> ready_volumes(EntryPtr entry, RunPtr run,
                                                  std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<Status> bring_back(EntryPtr entry, RunPtr run,
                                               std::shared_ptr<Start> start);
  /// Ends the guest in good order: a snapshot of its volumes only has no use for it.
  [[nodiscard]] async::Task<Status> stop_guest(RunPtr run, std::shared_ptr<Save> save);
  [[nodiscard]] async::Task<Status> save_volumes(RunPtr run, std::shared_ptr<Save> save,
                                                 std::string directory);
  /// Removes what an interrupted restore left.
  [[nodiscard]] async::Task<void> tidy_volumes(std::string uid);

  // budgets.cpp
  [[nodiscard]] async::Task<void> refresh_budgets();
  [[nodiscard]] async::Task<Result<Slot>> take_slot(core::Demand demand, std::string uid);

  // snapshot_ops.cpp
  [[nodiscard]] async::Task<Status> run_save(EntryPtr entry, RunPtr run, core::Decision decision,
                                             VerbOptions options);
  [[nodiscard]] async::Task<void> drain_holds(EntryPtr entry, RunPtr run,
                                              std::chrono::milliseconds grace);
  [[nodiscard]] async::Task<Status> commit_paused(EntryPtr entry, RunPtr run, std::string scope);
  [[nodiscard]] async::Task<Status> prepare_save(EntryPtr entry, RunPtr run,
                                                 std::shared_ptr<Save> save);
  [[nodiscard]] async::Task<Status> write_snapshot(EntryPtr entry, RunPtr run,
                                                   std::shared_ptr<Save> save);
  [[nodiscard]] async::Task<Status> capture(RunPtr run, std::shared_ptr<Save> save,
                                            std::string directory);
  [[nodiscard]] async::Task<Status> seal(RunPtr run, std::shared_ptr<Save> save);
  [[nodiscard]] async::Task<Status> flip(EntryPtr entry, RunPtr run, std::shared_ptr<Save> save);
  /// Returns what the caller is told: `error`, or that the guest ended by itself.
  [[nodiscard]] async::Task<Error> undo_save(EntryPtr entry, RunPtr run, std::shared_ptr<Save> save,
                                             Error error);
  void discard(std::vector<std::string> ids);
  [[nodiscard]] async::Task<void> collect(std::string id);
  [[nodiscard]] async::Task<Status> verify_snapshot(std::string id);

  // references.cpp
  [[nodiscard]] std::vector<std::string> users_of(const v1alpha1::Snapshot& snapshot) const;
  /// Whether anybody but `but` would be without it.
  [[nodiscard]] bool needed(const v1alpha1::Snapshot& row, const std::string& but) const;
  /// Of what `entry` is about to give up: what then nobody names.
  [[nodiscard]] std::shared_ptr<const MarkedIds> release(const EntryPtr& entry,
                                                         const std::vector<std::string>& ids);
  [[nodiscard]] async::Task<void> collect_orphans();
  [[nodiscard]] async::Task<Status> drop_row(SnapshotRows::Row row);
  [[nodiscard]] async::Task<Status> remove_snapshot(std::string id, Caller caller);

  // golden.cpp
  void load_goldens();
  void kick_goldens();
  [[nodiscard]] async::Task<void> tend_goldens();
  [[nodiscard]] std::map<Generation, std::shared_ptr<const v1alpha1::ActorTemplate>>
  wanted_goldens() const;
  [[nodiscard]] async::Task<void> refresh_goldens();
  [[nodiscard]] async::Task<Result<std::pair<std::string, core::BakedSize>>> golden_key(
      std::shared_ptr<const v1alpha1::ActorTemplate> source);
  [[nodiscard]] std::optional<Generation> next_golden() const;
  [[nodiscard]] async::Task<bool> drop_golden(Generation generation);
  [[nodiscard]] async::Task<bool> drop_golden_row(std::string id);
  /// Of the actor's template generation; null when there is none.
  [[nodiscard]] const Golden* golden_of(const EntryPtr& entry) const;
  /// Id of the one that it may start from now; "" = none.
  [[nodiscard]] std::string usable_golden(const EntryPtr& entry) const;
  /// The same when none is usable yet: it may be on its way.
  [[nodiscard]] async::Task<Result<std::string>> await_golden(EntryPtr entry, RunPtr run);
  [[nodiscard]] core::Facts facts_now(const EntryPtr& entry) const;
  void distrust_golden(const EntryPtr& entry, const Start& start, const Error& error);
  [[nodiscard]] std::optional<v1alpha1::GoldenStatus> golden_status(
      const v1alpha1::ActorTemplate& source) const;

  // golden_build.cpp
  struct Build;
  [[nodiscard]] EntryPtr hidden_actor(const v1alpha1::ActorTemplate& source, const std::string& uid,
                                      std::int64_t serial) const;
  [[nodiscard]] async::Task<void> build_golden(Generation generation);
  [[nodiscard]] async::Task<Status> try_build(std::shared_ptr<Build> build);
  [[nodiscard]] async::Task<Status> save_golden(std::shared_ptr<Build> build, EntryPtr entry,
                                                std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<Status> launch_hidden(EntryPtr entry, RunPtr run,
                                                  std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<void> end_hidden(EntryPtr entry, RunPtr run,
                                             std::shared_ptr<Start> start);
  [[nodiscard]] async::Task<Status> try_golden(std::shared_ptr<Build> build);
  [[nodiscard]] async::Task<Status> commit_golden(std::shared_ptr<Build> build);
  [[nodiscard]] async::Task<void> give_up_golden(std::shared_ptr<Build> build, Error error);

  // live_snapshot.cpp
  [[nodiscard]] async::Task<Status> run_live(EntryPtr entry, RunPtr run, VerbOptions options);
  [[nodiscard]] async::Task<Status> take_live(RunPtr run, std::shared_ptr<Save> save);
  [[nodiscard]] async::Task<Status> commit_live(
      RunPtr run, std::shared_ptr<Save> save,
      std::shared_ptr<const v1alpha1::SnapshotMetadata> metadata);
  [[nodiscard]] async::Task<void> give_up_live(RunPtr run, std::shared_ptr<Save> save, Error error);
  [[nodiscard]] async::Task<Status> commit_alone(RunPtr run, std::optional<Error> error,
                                                 std::shared_ptr<const v1alpha1::Snapshot> row,
                                                 std::shared_ptr<v1alpha1::Event> event);

  // remove.cpp
  [[nodiscard]] async::Task<Status> run_revert(EntryPtr entry, RunPtr run, core::Decision decision,
                                               VerbOptions options);
  [[nodiscard]] async::Task<Status> run_remove(EntryPtr entry, RunPtr run, VerbOptions options);
  /// Of the actor's template: how long a delete waits between the stop signal and the kill.
  [[nodiscard]] std::chrono::milliseconds termination_grace(const EntryPtr& entry) const;
  [[nodiscard]] async::Task<void> remove_files(EntryPtr entry, RunPtr run,
                                               std::shared_ptr<const MarkedIds> going);
  [[nodiscard]] async::Task<void> forget(std::string uid);

  // guest.cpp
  [[nodiscard]] GuestPtr adopt(const EntryPtr& entry, std::unique_ptr<runtime::Sandbox> sandbox,
                               const Start& start);
  [[nodiscard]] async::Task<void> watch(EntryPtr entry, GuestPtr guest);
  [[nodiscard]] async::Task<void> guest_ended(EntryPtr entry, GuestPtr guest);
  [[nodiscard]] async::Task<Status> retire(EntryPtr entry, GuestPtr guest,
                                           std::chrono::milliseconds graceful);
  /// Keeps status.containers as the sandbox tells it.
  [[nodiscard]] async::Task<void> follow_containers(EntryPtr entry, GuestPtr guest);
  [[nodiscard]] async::Task<Status> signal(ActorKey key, int signo, std::string container);
  // exec.cpp
  [[nodiscard]] async::Task<Result<core::ExecOutput>> exec(ActorKey key, core::ExecPlan plan);
  void worker_free(const std::string& worker, const std::string& uid);

  // restart.cpp, idle.cpp, housekeeping.cpp
  [[nodiscard]] core::Restarts restart_policy(const v1alpha1::ActorRecord& record) const;
  void plan_restart(v1alpha1::ActorRecord& record, core::State ended, WallTime now) const;
  void run_restarts();
  void idle_tick();
  // ttl.cpp
  void note_ttl(const v1alpha1::ActorRecord& record);
  void ttl_tick();
  void idle_check(const EntryPtr& entry, SteadyTime now);
  [[nodiscard]] async::Task<void> housekeeping();
  [[nodiscard]] async::Task<void> tick();
  [[nodiscard]] async::Task<void> trim();
  // log_bounds.cpp
  [[nodiscard]] async::Task<void> bound_logs();
  [[nodiscard]] std::set<std::string> writers() const;
  [[nodiscard]] async::Task<void> retry_leftovers();

  // wake.cpp
  [[nodiscard]] async::Task<Result<Connected>> connect(ActorKey key, std::uint16_t port);
  [[nodiscard]] async::Task<Result<EntryPtr>> wake(ActorKey key);
  /// The guest of an actor that was woken if need be, which counts as activity.
  [[nodiscard]] async::Task<Result<GuestPtr>> awake_guest(ActorKey key);
  [[nodiscard]] async::Task<Status> wake_parked(EntryPtr entry, SteadyTime deadline);
  [[nodiscard]] Status park(const EntryPtr& entry);
  [[nodiscard]] std::shared_ptr<void> count_in(const std::string& uid, std::size_t Live::* counter);

  // reconcile.cpp
  [[nodiscard]] Status load(const store::Loaded& loaded);
  [[nodiscard]] async::Task<Status> reconcile();
  struct Survey;
  [[nodiscard]] async::Task<Status> survey(std::shared_ptr<Survey> seen);
  [[nodiscard]] async::Task<void> purge_all(std::shared_ptr<Survey> seen,
                                            std::vector<std::size_t> order);
  [[nodiscard]] async::Task<Status> commit_plan(std::shared_ptr<const core::Plan> plan);
  [[nodiscard]] async::Task<void> stop(std::chrono::milliseconds grace);

  // queries.cpp
  [[nodiscard]] Result<ActorPage> list(const ActorQuery& query) const;
  [[nodiscard]] std::shared_ptr<v1alpha1::Snapshot> snapshot_view(const std::string& id) const;
  [[nodiscard]] std::vector<std::shared_ptr<const v1alpha1::Worker>> worker_views() const;
  [[nodiscard]] async::Task<Result<std::shared_ptr<const v1alpha1::Operation>>> operation(
      std::string id);
  [[nodiscard]] std::vector<Check> checks() const;

  [[nodiscard]] std::string render(const Error& error, const Run& run) const;
  [[nodiscard]] runtime::Runtime* runtime_of(const v1alpha1::ActorRecord& record) const;

  [[nodiscard]] SteadyTime now() const { return clock.steady(); }

  async::Context context;
  Templates& templates;
  artifacts::SnapshotStore& snapshots;
  artifacts::VolumeStore& volumes;
  std::map<std::string, runtime::Runtime*> runtimes;
  const Clock& clock;
  const Log& log;
  const Options settings;
  Journal journal;
  Workers workers;
  ActorTable actors;
  SnapshotRows snapshot_rows;
  std::map<std::string, RunPtr> runs;  // by operation id
  std::set<std::pair<std::string, std::string>> creating;
  std::multiset<std::string> held;     // snapshots that a fork is being made of, or a start reads
  std::multiset<std::string> leaving;  // see MarkedIds
  std::vector<std::weak_ptr<const std::vector<std::string>>> in_use;  // of starts and guests

  // What waits for housekeeping.
  std::set<std::string> dirty;                   // uids whose record is newer than the store
  std::map<std::string, std::int64_t> restarts;  // uid -> not before (wall clock, ms)
  std::set<std::string> awake;                   // uids in RUNNING
  std::set<std::string> orphans;                 // snapshots whose last user may have gone

  struct Expiry {
    std::chrono::milliseconds ttl{0};
    WallTime since;  // created, or last change of state
  };

  std::map<std::string, Expiry> expiries;            // by uid: those with a time to live
  std::set<std::string> gc_pending;                  // snapshot directories that would not go
  std::set<std::string> forget_pending;              // uids whose files would not go
  std::set<std::string> stranded;                    // uids whose delete did not finish
  std::vector<std::pair<EntryPtr, GuestPtr>> stuck;  // sandboxes that would not end
  std::int64_t ended_since_trim = 0;
  SteadyTime last_retry;
  SteadyTime last_trim;

  std::vector<core::ActorFacts> facts_at_load;
  std::vector<std::shared_ptr<v1alpha1::Operation>> operations_at_load;
  std::map<Generation, Golden> goldens;
  std::uint64_t golden_kicks = 0;
  Pulse golden_kick;
  Pulse golden_news;  // one was built, or looked at again
  std::size_t parked = 0;
  std::size_t execs = 0;
  bool ready = false;
  bool stopping = false;
  std::string not_ready_detail = "reconcile has not run yet";
  Pulse worker_freed;
  std::uint64_t workers_freed = 0;  // how often: so that no beat is missed
  async::TaskScope operations;
  async::TaskScope background;
};

/// How a guest ended, in the words of design.md section 8.
[[nodiscard]] std::string cause_words(const runtime::SandboxExit& exit, bool by_operator);
/// status.containers.
void write_containers(v1alpha1::ActorRecord& record,
                      const std::vector<runtime::ContainerView>& containers);
/// What follows from a record's new state whatever led there.
void settle_fields(v1alpha1::ActorRecord& record, core::State from, WallTime now);
/// How long a guest that does not answer gets to turn out dead.
inline constexpr std::chrono::milliseconds kDeathNotice(500);

/// A guest may end before a call of the runtime reaches it: then its end is what the caller hears,
/// not what the runtime made of it.
[[nodiscard]] Error ended_meanwhile(const Entry& entry, const Guest& guest, Error error);

/// Writes the end of a guest into its record.
void write_guest_end(v1alpha1::ActorRecord& record, const core::Settled& settled,
                     const runtime::SandboxExit& exit,
                     std::vector<runtime::ContainerView> containers);

/// Who asks for the delete of an actor whose time is over.
inline constexpr const char* kTtlCaller = "ttl";

/// True at an armed failpoint; the operation then fails with this.
[[nodiscard]] Status pass_failpoint(const std::string& name);
/// Cancelled when the operation was asked to give up.
[[nodiscard]] Status next_stage(const Run& run);

}  // namespace ate::engine
