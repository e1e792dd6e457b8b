// From a verb to its operation: decide, join, refuse, or start; then wait.
#include "ate/util/ids.hpp"
#include "engine/state.hpp"

namespace ate::engine {

namespace {

constexpr std::chrono::milliseconds kForcePatience(1000);

Status check_options(core::Command command, const VerbOptions& options) {
  const bool saves = command == core::Command::Pause || command == core::Command::Suspend;
  if (saves) {
    ATE_TRY(core::check_scope(options.scope));
  }
  return {};
}

Error busy_error(const core::Decision& decision, const EntryPtr& entry, const Run& run) {
  return Error(decision.code, "actor " + entry->label() + ": " + decision.message)
      .with("operation", "/v1/operations/" + run.id());
}

Error with_operation(const Error& error, const Run& run) {
  Error copy = error;
  for (const auto& [key, value] : copy.members()) {
    if (key == "operation" || key == "instance") {
      return copy;
    }
  }
  return std::move(copy).with("instance", "/v1/operations/" + run.id());
}

}  // namespace

Status Engine::State::open_for_verbs() const {
  if (stopping) {
    return fail(Error(Errc::Unavailable, "the daemon is stopping")
                    .with("retryAfterSeconds", std::int64_t{5}));
  }
  if (!ready) {
    return fail(Error(Errc::Unavailable, "the daemon is starting: " + not_ready_detail)
                    .with("retryAfterSeconds", std::int64_t{1}));
  }
  return {};
}

Result<EntryPtr> Engine::State::find(const ActorKey& key) const {
  EntryPtr entry = actors.find(key);
  if (entry == nullptr) {
    return fail(Errc::NotFound, "no actor " + key.name +
                                    (key.atespace.empty() ? "" : " in atespace " + key.atespace));
  }
  return entry;
}

RunPtr Engine::State::make_run(const EntryPtr& entry, core::Command command, Caller caller) const {
  async::Context copy = context;
  return std::make_shared<Run>(copy, "op-" + make_ulid(clock.wall()), command, std::move(caller),
                               entry->ref(), clock);
}

RunPtr Engine::State::start_run(const EntryPtr& entry, core::Command command,
                                const core::Decision& decision, VerbOptions options,
                                Caller caller) {
  const RunPtr run = make_run(entry, command, std::move(caller));
  live(entry)->run = run;
  runs[run->id()] = run;
  if (!operations.spawn(std::string(core::verb_of(command)),
                        execute(entry, run, decision, std::move(options)))) {
    after_run(entry, run, fail(Errc::Unavailable, "the daemon is stopping"));
  }
  return run;
}

async::Task<Status> Engine::State::dispatch(EntryPtr entry, RunPtr run, core::Decision decision,
                                            VerbOptions options) {
  switch (decision.transient) {
    case core::State::Resuming:
      co_return co_await run_resume(entry, run, decision);
    case core::State::Pausing:
    case core::State::Suspending:
      co_return co_await run_save(entry, run, decision, std::move(options));
    case core::State::Reverting:
      co_return co_await run_revert(entry, run, decision, options);
    case core::State::Deleting:
      co_return co_await run_remove(entry, run, options);
    case core::State::Running:
      co_return co_await run_live(entry, run, std::move(options));
    case core::State::Suspended:
    case core::State::Paused:
    case core::State::Exited:
    case core::State::Crashed:
      break;
  }
  co_return fail(Errc::Internal,
                 "no operation leads through " + std::string(core::name(decision.transient)));
}

async::Task<void> Engine::State::execute(EntryPtr entry, RunPtr run, core::Decision decision,
                                         VerbOptions options) {
  const std::shared_ptr<State> self = shared_from_this();
  Status status = co_await dispatch(entry, run, decision, std::move(options));
  after_run(entry, run, status);
}

void Engine::State::after_run(const EntryPtr& entry, const RunPtr& run, const Status& status) {
  const std::string command(core::name(run->command()));
  if (!status) {
    if (!run->ended()) {
      run->fail_early(status.error());
    }
    log.warning("operation failed", {{"verb", command},
                                     {"actor", entry->label()},
                                     {"uid", entry->uid()},
                                     {"operation", run->id()},
                                     {"request", run->caller().request_id},
                                     {"error", status.error().message()}});
  } else {
    log.info("operation done", {{"verb", command},
                                {"actor", entry->label()},
                                {"uid", entry->uid()},
                                {"operation", run->id()},
                                {"request", run->caller().request_id}});
  }
  ++ended_since_trim;
  runs.erase(run->id());
  const bool was_its = let_go(entry, run);
  if (was_its && status) {
    entry->live->idle_failures = 0;
    entry->live->restart_failures = 0;
  }
  if (was_its && entry->state() == core::State::Deleting && !entry->removed) {
    stranded.insert(entry->uid());
  }
  run->begun.set();
  run->done.set();
  maybe_rest(entry);
}

bool Engine::State::let_go(const EntryPtr& entry, const RunPtr& run) {
  run->let_go.set();
  const std::shared_ptr<Live>& live = entry->live;
  if (live == nullptr || live->run != run) {
    return false;
  }
  live->run.reset();
  const GuestPtr guest = live->guest;
  if (guest != nullptr && guest->exit && !guest->destroying) {
    // It ended while the operation had the say.
    background.spawn("guest-end", guest_ended(entry, guest));
  }
  return true;
}

async::Task<void> Engine::State::cancel_run(EntryPtr entry, RunPtr run) {
  run->cancel = true;
  const bool ended = co_await run->let_go.wait_for(kForcePatience);
  if (ended) {
    co_return;
  }
  // The stage hangs: take away what it waits for. Its own call then fails and cleans up.
  const std::shared_ptr<Live> live = entry->live;
  const GuestPtr guest = live == nullptr ? nullptr : live->guest;
  if (guest != nullptr) {
    const Status status = co_await retire(entry, guest, std::chrono::milliseconds(0));
    static_cast<void>(status);  // logged there
  }
  runtime::Runtime* runtime = runtime_of(*entry->record());
  if (guest == nullptr && runtime != nullptr) {
    const Result<std::vector<runtime::Leftover>> seen = co_await runtime->observe();
    if (seen) {
      for (const runtime::Leftover& leftover : *seen) {
        if (leftover.uid == entry->uid() && leftover.live) {
          const Status status = co_await runtime->purge(leftover);
          static_cast<void>(status);  // IGNORED: the operation's own deadline is behind it
        }
      }
    }
  }
  co_await run->let_go.wait();
}

async::Task<Result<RunPtr>> Engine::State::enter(core::Command command, ActorKey key,
                                                 VerbOptions options, Caller caller,
                                                 std::shared_ptr<VerbResult> result) {
  while (true) {
    ATE_CO_TRY(open_for_verbs());
    ATE_CO_ASSIGN(const EntryPtr entry, find(key));
    const std::shared_ptr<Live> live = entry->live;
    const std::shared_ptr<async::Event> ending = live == nullptr ? nullptr : live->ending;
    if (ending != nullptr) {
      co_await ending->wait();
      continue;
    }
    const std::string etag = entry->actor()->metadata().resource_version();
    if (options.if_match && *options.if_match != etag) {
      co_return fail(Error(Errc::PreconditionFailed,
                           "actor " + entry->label() + " has resourceVersion " + etag)
                         .with("resourceVersion", etag));
    }
    const core::Decision decision = core::decide(facts_now(entry), command);
    switch (decision.step) {
      case core::Step::Noop:
      case core::Step::Allow:
        result->finished = true;
        result->noop = true;
        result->actor = entry->actor();
        co_return RunPtr();
      case core::Step::Join:
        co_return live->run;
      case core::Step::Busy:
        co_return fail(busy_error(decision, entry, *live->run));
      case core::Step::Cancel: {
        const RunPtr running = live->run;
        co_await cancel_run(entry, running);
        options.if_match.reset();  // it was checked; our own cancel has changed the record
        continue;
      }
      case core::Step::Refuse:
        co_return fail(decision.code, "actor " + entry->label() + ": " + decision.message);
      case core::Step::Begin:
        co_return start_run(entry, command, decision, std::move(options), std::move(caller));
    }
  }
}

async::Task<Result<VerbResult>> Engine::State::verb(core::Command command, ActorKey key,
                                                    VerbOptions options, Caller caller) {
  const std::shared_ptr<State> self = shared_from_this();
  ATE_CO_TRY(check_options(command, options));
  auto result = std::make_shared<VerbResult>();
  ATE_CO_ASSIGN(const RunPtr run, co_await enter(command, key, options, std::move(caller), result));
  if (run == nullptr) {
    co_return std::move(*result);
  }
  const EntryPtr entry = actors.find_uid(run->row()->actor().uid());
  co_return co_await await_run(entry, run, std::move(options));
}

async::Task<Result<VerbResult>> Engine::State::await_run(EntryPtr entry, RunPtr run,
                                                         VerbOptions options) {
  const SteadyTime deadline = now() + settings.operation_wait;
  const bool begun = co_await run->begun.wait_for(settings.operation_wait);
  VerbResult result;
  result.operation = run->id();
  if (begun && options.wait) {
    const auto left = std::max(deadline - now(), SteadyTime::duration::zero());
    const bool done = co_await run->done.wait_for(left);
    static_cast<void>(done);
  }
  const bool over = run->done.is_set();
  if (over && run->error() && (options.wait || !run->intent)) {
    co_return fail(run->intent ? with_operation(*run->error(), *run) : *run->error());
  }
  result.finished = over && options.wait;
  result.snapshot = run->snapshot;
  if (entry != nullptr && !entry->removed) {
    result.actor = entry->actor();
  }
  co_return result;
}

}  // namespace ate::engine
