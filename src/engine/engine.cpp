#include "ate/engine/engine.hpp"

#include "engine/state.hpp"

namespace ate::engine {

Engine::State::State(async::Context& context_in, store::Store& store_in, Templates& templates_in,
                     artifacts::SnapshotStore& snapshots_in, artifacts::VolumeStore& volumes_in,
                     std::map<std::string, runtime::Runtime*> runtimes_in, const Clock& clock_in,
                     const Log& log_in, Options options_in)
    : context(context_in),
      templates(templates_in),
      snapshots(snapshots_in),
      volumes(volumes_in),
      runtimes(std::move(runtimes_in)),
      clock(clock_in),
      log(log_in),
      settings(std::move(options_in)),
      journal(context, store_in, clock),
      workers(templates, settings),
      golden_kick(context),
      golden_news(context),
      worker_freed(context),
      operations(context,
                 [this](const std::string& name, const std::string& what) {
                   log.error("an operation was torn", {{"task", name}, {"error", what}});
                 }),
      background(context, [this](const std::string& name, const std::string& what) {
        log.error("a background task failed", {{"task", name}, {"error", what}});
      }) {}

Engine::Engine(async::Context& context, store::Store& store, Templates& templates,
               artifacts::SnapshotStore& snapshots, artifacts::VolumeStore& volumes,
               std::map<std::string, runtime::Runtime*> runtimes, const Clock& clock,
               const Log& log, Options options)
    : state_(std::make_shared<State>(context, store, templates, snapshots, volumes,
                                     std::move(runtimes), clock, log, std::move(options))) {}

Engine::~Engine() = default;

Status Engine::load(const store::Loaded& loaded) {
  return state_->load(loaded);
}

async::Task<Status> Engine::reconcile() {
  co_return co_await state_->reconcile();
}

async::Task<void> Engine::housekeeping() {
  co_await state_->housekeeping();
}

async::Task<void> Engine::bound_logs() {
  co_await state_->bound_logs();
}

async::Task<void> Engine::stop(std::chrono::milliseconds grace) {
  co_await state_->stop(grace);
}

std::int64_t Engine::next_version() {
  return state_->journal.next_version();
}

async::Task<Result<std::shared_ptr<const v1alpha1::Actor>>> Engine::create(std::string atespace,
                                                                           std::string json,
                                                                           Caller caller) {
  co_return co_await state_->create(std::move(atespace), std::move(json), std::move(caller));
}

Result<std::shared_ptr<const v1alpha1::Actor>> Engine::get(const ActorKey& key) const {
  ATE_ASSIGN(const EntryPtr entry, state_->find(key));
  return entry->actor();
}

Result<ActorPage> Engine::list(const ActorQuery& query) const {
  return state_->list(query);
}

async::Task<Result<std::shared_ptr<const v1alpha1::Actor>>> Engine::patch(
    ActorKey key, std::string merge_patch, std::optional<std::string> if_match, Caller caller) {
  co_return co_await state_->patch(std::move(key), std::move(merge_patch), std::move(if_match),
                                   std::move(caller));
}

async::Task<Result<VerbResult>> Engine::resume(ActorKey key, VerbOptions options, Caller caller) {
  const core::Command command = options.boot ? core::Command::ResumeBoot : core::Command::Resume;
  co_return co_await state_->verb(command, std::move(key), std::move(options), std::move(caller));
}

async::Task<Result<VerbResult>> Engine::pause(ActorKey key, VerbOptions options, Caller caller) {
  co_return co_await state_->verb(core::Command::Pause, std::move(key), std::move(options),
                                  std::move(caller));
}

async::Task<Result<VerbResult>> Engine::suspend(ActorKey key, VerbOptions options, Caller caller) {
  co_return co_await state_->verb(core::Command::Suspend, std::move(key), std::move(options),
                                  std::move(caller));
}

async::Task<Result<VerbResult>> Engine::make_snapshot(ActorKey key, VerbOptions options,
                                                      Caller caller) {
  co_return co_await state_->verb(core::Command::Snapshot, std::move(key), std::move(options),
                                  std::move(caller));
}

async::Task<Result<VerbResult>> Engine::revert(ActorKey key, VerbOptions options, Caller caller) {
  co_return co_await state_->verb(core::Command::Revert, std::move(key), std::move(options),
                                  std::move(caller));
}

async::Task<Result<VerbResult>> Engine::remove(ActorKey key, bool force, VerbOptions options,
                                               Caller caller) {
  const core::Command command = force ? core::Command::DeleteForce : core::Command::Delete;
  if (force && !options.grace) {
    options.grace = std::chrono::milliseconds(0);
  }
  co_return co_await state_->verb(command, std::move(key), std::move(options), std::move(caller));
}

async::Task<Status> Engine::signal(ActorKey key, int signo, std::string container,
                                   Caller /*caller*/) {
  co_return co_await state_->signal(std::move(key), signo, std::move(container));
}

async::Task<Result<core::ExecOutput>> Engine::exec(ActorKey key, core::ExecPlan plan) {
  ATE_CO_ASSIGN(const EntryPtr entry, state_->find(key));
  const std::shared_ptr<void> held = hold(entry->uid());
  co_return co_await state_->exec(std::move(key), std::move(plan));
}

async::Task<Result<Connected>> Engine::connect(ActorKey key, std::uint16_t port) {
  co_return co_await state_->connect(std::move(key), port);
}

void Engine::touch(const std::string& uid) {
  const EntryPtr entry = state_->actors.find_uid(uid);
  if (entry != nullptr && entry->live != nullptr) {
    entry->live->last_activity = state_->now();
  }
}

std::shared_ptr<void> Engine::hold(const std::string& uid) {
  return state_->count_in(uid, &Live::holds);
}

std::shared_ptr<void> Engine::hold_tunnel(const std::string& uid) {
  return state_->count_in(uid, &Live::tunnels);
}

std::vector<std::shared_ptr<const v1alpha1::Snapshot>> Engine::snapshots(
    const std::optional<ActorKey>& actor) const {
  std::vector<std::shared_ptr<const v1alpha1::Snapshot>> all;
  const EntryPtr entry = actor ? state_->actors.find(*actor) : nullptr;
  if (actor && entry == nullptr) {
    return all;
  }
  state_->snapshot_rows.visit([&](const SnapshotRows::Row& row) {
    if (entry == nullptr || row->actor().uid() == entry->uid()) {
      all.push_back(state_->snapshot_view(row->id()));
    }
  });
  return all;
}

Result<std::shared_ptr<const v1alpha1::Snapshot>> Engine::snapshot(const std::string& id) const {
  std::shared_ptr<const v1alpha1::Snapshot> view = state_->snapshot_view(id);
  if (view == nullptr) {
    return fail(Errc::NotFound, "no snapshot " + id);
  }
  return view;
}

async::Task<Status> Engine::verify_snapshot(std::string id) {
  co_return co_await state_->verify_snapshot(std::move(id));
}

async::Task<Status> Engine::remove_snapshot(std::string id, Caller caller) {
  co_return co_await state_->remove_snapshot(std::move(id), std::move(caller));
}

std::vector<std::shared_ptr<const v1alpha1::Worker>> Engine::workers() const {
  return state_->worker_views();
}

void Engine::describe(v1alpha1::WorkerPool& pool) const {
  state_->workers.describe(pool);
}

v1alpha1::Capacity Engine::capacity(const v1alpha1::ActorTemplate* blueprint) const {
  v1alpha1::Capacity out = state_->workers.capacity();
  if (blueprint != nullptr) {
    *out.mutable_explain() = state_->workers.explain(*blueprint);
  }
  return out;
}

Result<std::shared_ptr<const v1alpha1::Worker>> Engine::worker(const std::string& name) const {
  for (const std::shared_ptr<const v1alpha1::Worker>& worker : state_->worker_views()) {
    if (worker->name() == name) {
      return worker;
    }
  }
  return fail(Errc::NotFound, "no worker " + name);
}

async::Task<Result<std::shared_ptr<const v1alpha1::Operation>>> Engine::operation(std::string id) {
  co_return co_await state_->operation(std::move(id));
}

async::Task<Result<std::shared_ptr<const v1alpha1::Operation>>> Engine::wait_operation(
    std::string id, std::chrono::milliseconds limit) {
  const auto running = state_->runs.find(id);
  if (running != state_->runs.end()) {
    const RunPtr run = running->second;
    const bool done = co_await run->done.wait_for(limit);
    static_cast<void>(done);  // what it is now is the answer in both cases
  }
  co_return co_await state_->operation(std::move(id));
}

async::Task<std::int64_t> Engine::wait_event(std::int64_t seen, std::chrono::milliseconds limit) {
  const std::shared_ptr<State> state = state_;
  if (state->journal.last_event() <= seen) {
    const bool newer = co_await state->journal.newer().wait_for(limit);
    static_cast<void>(newer);  // the newest id is the answer in both cases
  }
  co_return state->journal.last_event();
}

std::int64_t Engine::last_event() const noexcept {
  return state_->journal.last_event();
}

bool Engine::template_in_use(const std::string& atespace, const std::string& name,
                             std::int64_t generation) const {
  return state_->actors.uses(atespace, name, generation) > 0 ||
         state_->snapshot_rows.uses(atespace, name, generation) > 0;
}

async::Task<void> Engine::goldens() {
  co_await state_->tend_goldens();
}

std::optional<v1alpha1::GoldenStatus> Engine::golden_status(
    const v1alpha1::ActorTemplate& source) const {
  return state_->golden_status(source);
}

void Engine::on_object_change() {
  state_->kick_goldens();
  ++state_->workers_freed;
  state_->worker_freed.beat();
}

std::vector<Engine::Check> Engine::checks() const {
  return state_->checks();
}

}  // namespace ate::engine
