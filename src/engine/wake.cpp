// A connection to an actor: it is resumed first when it has to be. Single flight by the operation;
// the requests that wait are counted and bounded.
#include "ate/util/scope_exit.hpp"
#include "engine/state.hpp"

namespace ate::engine {

namespace {

constexpr std::int64_t kRetryAfterSeconds = 5;

Error still_waiting(const EntryPtr& entry, const std::optional<Error>& last) {
  if (last) {
    return *last;
  }
  return Error(Errc::Unavailable, "actor " + entry->label() + " is still " +
                                      std::string(core::name(entry->state())) +
                                      " after the longest wait")
      .with("retryAfterSeconds", kRetryAfterSeconds);
}

bool leads_to_running(core::Command command) {
  return core::verb_of(command) == core::verb_of(core::Command::Resume) ||
         command == core::Command::Restart;
}

}  // namespace

Status Engine::State::park(const EntryPtr& entry) {
  if (parked >= settings.parked_total) {
    return fail(Error(Errc::Unavailable,
                      std::to_string(settings.parked_total) + " requests wait for actors already")
                    .with("retryAfterSeconds", kRetryAfterSeconds));
  }
  const std::shared_ptr<Live> live = this->live(entry);
  if (live->parked >= settings.parked_per_actor) {
    return fail(Error(Errc::TooManyRequests, std::to_string(settings.parked_per_actor) +
                                                 " requests wait for actor " + entry->label() +
                                                 " already")
                    .with("retryAfterSeconds", kRetryAfterSeconds));
  }
  ++parked;
  ++live->parked;
  return {};
}

async::Task<Result<EntryPtr>> Engine::State::wake(ActorKey key) {
  ATE_CO_TRY(open_for_verbs());
  ATE_CO_ASSIGN(const EntryPtr entry, find(key));
  const bool settled = entry->live == nullptr || entry->live->ending == nullptr;
  const core::Decision decision = core::decide(facts_now(entry), core::Command::Connect);
  if (settled && decision.step == core::Step::Allow) {
    co_return entry;
  }
  if (settled && decision.step == core::Step::Refuse) {
    co_return fail(decision.code, "actor " + entry->label() + ": " + decision.message);
  }
  ATE_CO_TRY(park(entry));
  const ScopeExit unpark([this, entry]() {
    --parked;
    --entry->live->parked;  // what is parked keeps it
    maybe_rest(entry);
  });
  ATE_CO_TRY(co_await wake_parked(entry, now() + settings.park_limit));
  co_return entry;
}

async::Task<Status> Engine::State::wake_parked(EntryPtr entry, SteadyTime deadline) {
  const std::shared_ptr<Live> live = entry->live;
  std::optional<Error> last;
  while (true) {
    ATE_CO_TRY(open_for_verbs());
    const auto left = deadline - now();
    if (left <= SteadyTime::duration::zero()) {
      co_return fail(still_waiting(entry, last));
    }
    if (entry->removed) {
      co_return fail(Errc::NotFound, "actor " + entry->label() + " is gone");
    }
    const std::shared_ptr<async::Event> ending = live->ending;
    if (ending != nullptr) {
      const bool over = co_await ending->wait_for(left);
      static_cast<void>(over);  // the deadline is looked at again
      continue;
    }
    const core::Decision decision = core::decide(facts_now(entry), core::Command::Connect);
    if (decision.step == core::Step::Allow) {
      co_return Status();
    }
    if (decision.step == core::Step::Refuse) {
      co_return fail(decision.code, "actor " + entry->label() + ": " + decision.message);
    }
    const std::uint64_t freed = workers_freed;
    const RunPtr run = decision.step == core::Step::Begin
                           ? start_run(entry, core::Command::Connect, decision, VerbOptions{},
                                       Caller{"connect", 0})
                           : live->run;
    const bool free = co_await run->let_go.wait_for(left);
    if (!free) {
      co_return fail(still_waiting(entry, last));
    }
    if (!run->error() || !leads_to_running(run->command())) {
      continue;
    }
    if (run->error()->code() != Errc::NoFreeWorker) {
      co_return fail(*run->error());
    }
    last = run->error();
    if (freed != workers_freed) {
      continue;  // one was given back meanwhile
    }
    const bool beat = co_await worker_freed.wait_for(deadline - now());
    if (!beat) {
      co_return fail(still_waiting(entry, last));
    }
  }
}

async::Task<Result<GuestPtr>> Engine::State::awake_guest(ActorKey key) {
  ATE_CO_ASSIGN(const EntryPtr entry, co_await wake(key));
  const std::shared_ptr<Live> live = entry->live;
  const GuestPtr guest = live == nullptr ? nullptr : live->guest;
  if (guest == nullptr) {
    co_return fail(Errc::StateConflict, "actor " + entry->label() + ": its guest has just ended");
  }
  live->last_activity = now();
  co_return guest;
}

async::Task<Result<Connected>> Engine::State::connect(ActorKey key, std::uint16_t port) {
  const std::shared_ptr<State> self = shared_from_this();
  ATE_CO_ASSIGN(const GuestPtr guest, co_await awake_guest(key));
  Connected connected;
  ATE_CO_ASSIGN(connected.socket, co_await guest->sandbox->dial(port, settings.dial_timeout));
  connected.ended = std::shared_ptr<async::Event>(guest, &guest->ended);
  co_return connected;
}

std::shared_ptr<void> Engine::State::count_in(const std::string& uid, std::size_t Live::* counter) {
  const EntryPtr entry = actors.find_uid(uid);
  if (entry == nullptr) {
    return nullptr;
  }
  const std::shared_ptr<Live> live = this->live(entry);
  ++(*live.*counter);
  live->last_activity = now();
  return {live.get(), [state = shared_from_this(), entry, counter](void*) {
            std::shared_ptr<Live> held = entry->live;  // what is counted keeps it
            --(*held.*counter);
            held->last_activity = state->now();
            if (held->holds + held->tunnels == 0) {
              held->let_go.beat();
            }
            held.reset();
            state->maybe_rest(entry);
          }};
}

}  // namespace ate::engine
