// Building one golden snapshot: a guest of its own boots, warms up and is saved; another one is
// restored from what was saved, and only then the snapshot counts.
#include "ate/util/ids.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "engine/golden.hpp"
#include "engine/snapshot_ops.hpp"

namespace ate::engine {

namespace {

/// How long the trial waits for a worker that may be had.
constexpr std::chrono::minutes kTrialPatience(5);

bool has_gate(const v1alpha1::ActorTemplateSpec& spec) {
  for (const v1alpha1::Container& container : spec.containers()) {
    if (container.has_readyz()) {
      return true;
    }
  }
  return false;
}

}  // namespace

struct Engine::State::Build {
  Generation generation;
  std::string key;
  std::shared_ptr<const v1alpha1::ActorTemplate> source;
  std::optional<core::BakedSize> size;
  RunPtr run;
  std::shared_ptr<Save> save;
  std::shared_ptr<v1alpha1::Snapshot> row;
};

/// An actor that is in no table and no list. Its name is one that no actor can have. What a killed
/// daemon leaves of it is found by its uid in the row of the operation.
EntryPtr Engine::State::hidden_actor(const v1alpha1::ActorTemplate& source, const std::string& uid,
                                     std::int64_t serial) const {
  auto record = std::make_shared<v1alpha1::ActorRecord>();
  v1alpha1::Actor& actor = *record->mutable_actor();
  actor.mutable_metadata()->set_atespace(source.metadata().atespace());
  actor.mutable_metadata()->set_name("golden." + source.metadata().name());
  actor.mutable_metadata()->set_uid(uid);
  v1alpha1::TemplateRef& reference = *actor.mutable_spec()->mutable_template_();
  reference.set_name(source.metadata().name());
  reference.set_generation(source.metadata().generation());
  actor.mutable_status()->mutable_sandbox()->set_class_(source.spec().sandbox_class());
  record->set_next_serial(serial);
  return std::make_shared<Entry>(record);
}

async::Task<void> Engine::State::build_golden(Generation generation) {
  Golden& golden = goldens[generation];
  auto build = std::make_shared<Build>();
  build->generation = generation;
  build->key = golden.key;
  build->source = golden.source;
  build->size = golden.size;
  golden.building = true;
  const Status status = co_await try_build(build);
  Golden& after = goldens[generation];
  after.building = false;
  golden_news.beat();
  if (status) {
    after.failures = 0;
    after.error.clear();
    co_return;
  }
  after.error = status.error().message();
  const bool begun = build->run != nullptr && build->run->intent;
  if (!begun && status.error().code() == Errc::NoFreeWorker) {
    after.not_before = now() + settings.tick;  // not a failure: it waits for one to be to spare
    co_return;
  }
  ++after.failures;
  after.not_before = now() + core::golden_retry_delay(after.failures);
  log.warning("a golden snapshot could not be built; new actors boot cold",
              {{"template", build->source->metadata().name()},
               {"failures", std::to_string(after.failures)},
               {"error", status.error().message()}});
}

async::Task<Status> Engine::State::try_build(std::shared_ptr<Build> build) {
  const EntryPtr entry = hidden_actor(*build->source, make_ulid(clock.wall()), 1);
  build->run = make_run(entry, core::Command::ResumeBoot, Caller{"golden", 0});
  build->run->verb = "golden";
  live(entry)->run = build->run;
  auto start = std::make_shared<Start>();
  start->spare = 1;
  start->size = build->size;
  ATE_CO_TRY(co_await prepare_start(entry, build->run, start));
  store::Batch intent;
  intent.put_operations.push_back(build->run->row());
  Status status = co_await journal.commit(std::move(intent));
  if (!status) {
    co_await end_hidden(entry, build->run, start);
    co_return status;
  }
  build->run->intent = true;
  runs[build->run->id()] = build->run;
  status = co_await save_golden(build, entry, start);
  co_await end_hidden(entry, build->run, start);
  if (status) {
    status = co_await try_golden(build);
  }
  if (status) {
    status = co_await commit_golden(build);
  }
  if (!status) {
    co_await give_up_golden(build, status.error());
  }
  runs.erase(build->run->id());
  build->run->begun.set();
  build->run->let_go.set();
  build->run->done.set();
  co_return status;
}

async::Task<Status> Engine::State::save_golden(std::shared_ptr<Build> build, EntryPtr entry,
                                               std::shared_ptr<Start> start) {
  const RunPtr run = build->run;
  ATE_CO_TRY(pass_failpoint("golden-after-intent"));
  ATE_CO_TRY(co_await launch_hidden(entry, run, start));
  const GuestPtr guest = live(entry)->guest;
  const v1alpha1::ActorTemplateSpec& spec = build->source->spec();
  {
    StageTimer timer(*run, clock, "warm-up");
    const bool ended = co_await guest->ended.wait_for(
        core::golden_warmup(has_gate(spec), spec.warmup_seconds(), spec.has_warmup_seconds()));
    if (ended) {
      co_return fail(Errc::RuntimeFailed,
                     "its guest ended while it warmed up: " + guest->exit->detail);
    }
  }
  auto save = std::make_shared<Save>();
  save->transient = core::State::Running;
  save->kind = "golden";
  ATE_CO_TRY(co_await prepare_save(entry, run, save));
  build->save = save;
  ATE_CO_ASSIGN(const std::string path, co_await snapshots.begin(save->id));
  ATE_CO_TRY(co_await capture(run, save, path));
  co_return co_await seal(run, save);
}

async::Task<Status> Engine::State::launch_hidden(EntryPtr entry, RunPtr run,
                                                 std::shared_ptr<Start> start) {
  ATE_CO_TRY(co_await fetch_images(start));
  ATE_CO_TRY(co_await launch(entry, run, start));
  co_return Status();
}

/// Nothing of a hidden actor stays.
async::Task<void> Engine::State::end_hidden(EntryPtr entry, RunPtr run,
                                            std::shared_ptr<Start> start) {
  StageTimer timer(*run, clock, "destroy");
  co_await end_start(entry, start);
  co_await forget(entry->uid());
}

/// The self-test: it must give a running guest.
async::Task<Status> Engine::State::try_golden(std::shared_ptr<Build> build) {
  build->row = snapshot_row(*build->save->manifest, build->save->sealed);
  build->row->set_state("Pending");
  build->row->set_golden_key(build->key);
  store::Batch batch;
  batch.put_snapshots.push_back(build->row);
  ATE_CO_TRY(co_await journal.commit(std::move(batch)));
  snapshot_rows.put(build->row);
  ATE_CO_TRY(pass_failpoint("golden-before-trial"));
  const EntryPtr entry = hidden_actor(*build->source, build->run->actor_uid(), 2);
  live(entry)->run = build->run;
  const SteadyTime deadline = now() + kTrialPatience;
  auto start = std::make_shared<Start>();
  Status taken = fail(Errc::Internal, "not tried yet");
  while (!taken) {
    start = std::make_shared<Start>();
    start->spare = 1;
    start->source = core::Source::Golden;
    start->snapshot = build->row->id();
    taken = co_await prepare_start(entry, build->run, start);
    if (!taken && (taken.error().code() != Errc::NoFreeWorker || now() >= deadline)) {
      co_return taken;
    }
    if (!taken) {
      const bool freed = co_await worker_freed.wait_for(settings.tick);
      static_cast<void>(freed);  // it is tried again in both cases
    }
  }
  const Status tried = co_await launch_hidden(entry, build->run, start);
  co_await end_hidden(entry, build->run, start);
  ATE_CO_TRY(Status(tried));
  co_return pass_failpoint("golden-after-trial");
}

async::Task<Status> Engine::State::commit_golden(std::shared_ptr<Build> build) {
  const auto row = std::make_shared<v1alpha1::Snapshot>(*build->row);
  row->set_state("Ready");
  const RunPtr run = build->run;
  run->snapshot = row->id();
  std::shared_ptr<v1alpha1::Event> event = journal.event("golden.built", row->actor());
  event->set_operation(run->id());
  event->set_message(row->id());
  const Status saved = co_await commit_alone(run, std::nullopt, row, std::move(event));
  if (!saved) {
    run->snapshot.clear();
    co_return saved;
  }
  snapshot_rows.put(row);
  static_cast<void>(failpoint("golden-after-commit"));
  Golden& golden = goldens[build->generation];
  const std::string old = std::exchange(golden.snapshot, row->id());
  golden.have = build->key;
  golden.built_at = row->created_at();
  golden.bytes = row->bytes();
  if (!old.empty() && old != row->id()) {
    const bool dropped = co_await drop_golden_row(old);
    if (!dropped) {
      orphans.insert(old);  // a start reads it at this moment
    }
  }
  co_return Status();
}

async::Task<void> Engine::State::give_up_golden(std::shared_ptr<Build> build, Error error) {
  std::shared_ptr<v1alpha1::Event> event =
      journal.event("golden.failed", build->run->row()->actor());
  event->set_operation(build->run->id());
  event->set_message(error.message());
  const Status saved = co_await commit_alone(build->run, error, nullptr, std::move(event));
  if (!saved) {
    end_run(build->run, error);
    journal.later(build->run->row());
  }
  if (build->row != nullptr) {
    const bool dropped = co_await drop_golden_row(build->row->id());
    static_cast<void>(dropped);  // else the next start of the daemon drops it: it is not Ready
  } else if (build->save != nullptr) {
    discard({build->save->id});
  }
}

}  // namespace ate::engine
