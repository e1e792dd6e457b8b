#include "ate/core/lifecycle.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace ate::core {

namespace {

Decision noop() {
  return {};
}

Decision step(Step what) {
  Decision decision;
  decision.step = what;
  return decision;
}

Decision begin(State transient, bool at_once) {
  Decision decision;
  decision.step = Step::Begin;
  decision.transient = transient;
  decision.at_once = at_once;
  return decision;
}

Decision start(Source source) {
  Decision decision = begin(State::Resuming, false);
  decision.source = source;
  return decision;
}

Decision refuse(std::string message) {
  Decision decision;
  decision.step = Step::Refuse;
  decision.code = Errc::StateConflict;
  decision.message = std::move(message);
  return decision;
}

Decision busy(Command running) {
  Decision decision;
  decision.step = Step::Busy;
  decision.code = Errc::OperationInProgress;
  decision.message = "a " + std::string(verb_of(running)) +
                     " is running; nothing queues: wait for its operation and ask again";
  return decision;
}

constexpr const char* kWayOut =
    "`revert` goes back to the committed snapshot, `resume` with {\"boot\": true} starts cold on "
    "the durable data";

std::string over(State state) {
  return "it is " + std::string(name(state)) + ": " + kWayOut;
}

/// Whether waiting for `running` gives the caller of `asked` what was asked for.
bool joins(Command asked, Command running) {
  switch (asked) {
    case Command::Resume:
      return running == Command::Resume || running == Command::ResumeBoot ||
             running == Command::Connect || running == Command::Restart;
    case Command::ResumeBoot:
      return running == Command::ResumeBoot || running == Command::Restart;
    case Command::Delete:
    case Command::DeleteForce:
      return running == Command::Delete || running == Command::DeleteForce;
    case Command::Pause:
    case Command::Suspend:
    case Command::Revert:
      return running == asked;
    case Command::Connect:
      return true;
    case Command::Snapshot:  // each makes one of its own
    case Command::Signal:
    case Command::Patch:
    case Command::Restart:
    case Command::GuestExited:
    case Command::GuestCrashed:
      return false;
  }
  return false;
}

Decision while_running(const Facts& facts, Command asked, Command running) {
  const bool deleting = running == Command::Delete || running == Command::DeleteForce;
  switch (asked) {
    case Command::Patch:
      return deleting ? refuse("it is being deleted") : step(Step::Allow);
    case Command::Restart:
    case Command::GuestExited:
    case Command::GuestCrashed:
      return noop();  // the operation that runs sees the end itself
    case Command::Connect:
      return deleting ? refuse("it is being deleted") : step(Step::Join);
    case Command::DeleteForce:
      return deleting ? step(Step::Join) : step(Step::Cancel);
    case Command::Resume:
    case Command::ResumeBoot:
      if (running == Command::Snapshot) {
        return noop();  // it is RUNNING all the while
      }
      break;
    case Command::Signal:
    case Command::Pause:
    case Command::Suspend:
    case Command::Revert:
    case Command::Snapshot:
    case Command::Delete:
      break;
  }
  static_cast<void>(facts);
  return joins(asked, running) ? step(Step::Join) : busy(running);
}

Decision on_suspended(const Facts& facts, Command command) {
  switch (command) {
    case Command::Resume:
    case Command::Connect:
      return start(facts.cold ? Source::Boot : select_source(facts.pointers, facts.golden));
    case Command::ResumeBoot:
      return start(Source::Boot);
    case Command::Pause:
      return refuse("it is SUSPENDED: only a running actor can be paused");
    case Command::Suspend:
    case Command::Restart:
    case Command::GuestExited:
    case Command::GuestCrashed:
      return noop();
    case Command::Revert:
      if (facts.cold) {
        return begin(State::Reverting, true);  // it kept its volumes only: the rest is to be had
      }
      return refuse("it is SUSPENDED: it is at its committed snapshot already");
    case Command::Delete:
    case Command::DeleteForce:
      return begin(State::Deleting, false);
    case Command::Snapshot:
      return refuse("it is SUSPENDED: only a running actor can be snapshotted");
    case Command::Signal:
      return refuse("it is SUSPENDED: no process runs");
    case Command::Patch:
      return step(Step::Allow);
  }
  return noop();
}

Decision on_running(Command command) {
  switch (command) {
    case Command::Resume:
    case Command::ResumeBoot:
    case Command::Restart:
      return noop();
    case Command::Pause:
      return begin(State::Pausing, false);
    case Command::Suspend:
      return begin(State::Suspending, false);
    case Command::Revert:
      return begin(State::Reverting, false);
    case Command::Delete:
    case Command::DeleteForce:
      return begin(State::Deleting, false);
    case Command::Snapshot:
      return begin(State::Running, false);
    case Command::Signal:
    case Command::Patch:
    case Command::Connect:
    case Command::GuestExited:
    case Command::GuestCrashed:
      return step(Step::Allow);
  }
  return noop();
}

Decision on_paused(const Facts& facts, Command command) {
  switch (command) {
    case Command::Resume:
    case Command::Connect:
      return start(select_source(facts.pointers, facts.golden));
    case Command::ResumeBoot:
      return start(Source::Boot);
    case Command::Pause:
    case Command::Restart:
    case Command::GuestExited:
    case Command::GuestCrashed:
      return noop();
    case Command::Suspend:
      return begin(State::Suspending, true);
    case Command::Revert:
      return begin(State::Reverting, true);
    case Command::Delete:
    case Command::DeleteForce:
      return begin(State::Deleting, false);
    case Command::Snapshot:
      return refuse("it is PAUSED: only a running actor can be snapshotted");
    case Command::Signal:
      return refuse("it is PAUSED: no process runs");
    case Command::Patch:
      return step(Step::Allow);
  }
  return noop();
}

/// EXITED and CRASHED.
Decision on_ended(const Facts& facts, Command command) {
  switch (command) {
    case Command::Resume:
    case Command::Connect:
    case Command::Pause:
    case Command::Suspend:
      return refuse(over(facts.state));
    case Command::ResumeBoot:
    case Command::Restart:
      return start(Source::Boot);
    case Command::Revert:
      return begin(State::Reverting, true);
    case Command::Delete:
    case Command::DeleteForce:
      return begin(State::Deleting, false);
    case Command::Snapshot:
      return refuse("it is " + std::string(name(facts.state)) +
                    ": only a running actor can be snapshotted");
    case Command::Signal:
      return refuse("it is " + std::string(name(facts.state)) + ": no process runs");
    case Command::Patch:
      return step(Step::Allow);
    case Command::GuestExited:
    case Command::GuestCrashed:
      return noop();
  }
  return noop();
}

/// A transient state whose operation is gone: only a delete that could not be finished rests so.
Decision on_stranded(const Facts& facts, Command command) {
  switch (command) {
    case Command::Delete:
    case Command::DeleteForce:
      return begin(State::Deleting, false);
    case Command::Restart:
    case Command::GuestExited:
    case Command::GuestCrashed:
      return noop();
    case Command::Resume:
    case Command::ResumeBoot:
    case Command::Pause:
    case Command::Suspend:
    case Command::Revert:
    case Command::Snapshot:
    case Command::Signal:
    case Command::Patch:
    case Command::Connect:
      break;
  }
  if (facts.state == State::Deleting) {
    return refuse("it is DELETING: `DELETE` it again to finish that");
  }
  return refuse("it is " + std::string(name(facts.state)) + " without an operation: `DELETE` it");
}

}  // namespace

std::string_view name(State state) {
  switch (state) {
    case State::Suspended:
      return "SUSPENDED";
    case State::Resuming:
      return "RESUMING";
    case State::Running:
      return "RUNNING";
    case State::Pausing:
      return "PAUSING";
    case State::Paused:
      return "PAUSED";
    case State::Suspending:
      return "SUSPENDING";
    case State::Reverting:
      return "REVERTING";
    case State::Exited:
      return "EXITED";
    case State::Crashed:
      return "CRASHED";
    case State::Deleting:
      return "DELETING";
  }
  return "CRASHED";
}

std::optional<State> parse_state(std::string_view text) {
  for (std::size_t i = 0; i < kStateCount; ++i) {
    const auto state = static_cast<State>(i);
    if (name(state) == text) {
      return state;
    }
  }
  return std::nullopt;
}

bool is_transient(State state) {
  switch (state) {
    case State::Resuming:
    case State::Pausing:
    case State::Suspending:
    case State::Reverting:
    case State::Deleting:
      return true;
    case State::Suspended:
    case State::Running:
    case State::Paused:
    case State::Exited:
    case State::Crashed:
      return false;
  }
  return false;
}

std::string_view name(Command command) {
  switch (command) {
    case Command::Resume:
      return "resume";
    case Command::ResumeBoot:
      return "resume-boot";
    case Command::Pause:
      return "pause";
    case Command::Suspend:
      return "suspend";
    case Command::Revert:
      return "revert";
    case Command::Delete:
      return "delete";
    case Command::DeleteForce:
      return "delete-force";
    case Command::Snapshot:
      return "snapshot";
    case Command::Signal:
      return "signal";
    case Command::Patch:
      return "patch";
    case Command::Connect:
      return "connect";
    case Command::Restart:
      return "restart";
    case Command::GuestExited:
      return "guest-exited";
    case Command::GuestCrashed:
      return "guest-crashed";
  }
  return "?";
}

std::string_view verb_of(Command command) {
  switch (command) {
    case Command::ResumeBoot:
    case Command::Connect:
      return name(Command::Resume);
    case Command::DeleteForce:
      return name(Command::Delete);
    case Command::Resume:
    case Command::Pause:
    case Command::Suspend:
    case Command::Revert:
    case Command::Delete:
    case Command::Snapshot:
    case Command::Signal:
    case Command::Patch:
    case Command::Restart:
    case Command::GuestExited:
    case Command::GuestCrashed:
      return name(command);
  }
  return name(command);
}

std::string_view name(Source source) {
  switch (source) {
    case Source::Pause:
      return "pause";
    case Source::Committed:
      return "snapshot";
    case Source::Fork:
      return "fork";
    case Source::Golden:
      return "golden";
    case Source::Boot:
      return "boot";
    case Source::Data:
      return "data";
    case Source::DataOnGolden:
      return "data-on-golden";
  }
  return "boot";
}

Source select_source(const Pointers& pointers, bool golden) {
  if (!pointers.pause.empty()) {
    return Source::Pause;
  }
  if (!pointers.committed.empty()) {
    return Source::Committed;
  }
  if (!pointers.base.empty()) {
    return Source::Fork;
  }
  return golden ? Source::Golden : Source::Boot;
}

Decision decide(const Facts& facts, Command command) {
  if (facts.running) {
    return while_running(facts, command, *facts.running);
  }
  switch (facts.state) {
    case State::Suspended:
      return on_suspended(facts, command);
    case State::Running:
      return on_running(command);
    case State::Paused:
      return on_paused(facts, command);
    case State::Exited:
    case State::Crashed:
      return on_ended(facts, command);
    case State::Resuming:
    case State::Pausing:
    case State::Suspending:
    case State::Reverting:
    case State::Deleting:
      return on_stranded(facts, command);
  }
  return noop();
}

namespace {

Settled rest(State state, std::string reason) {
  Settled settled;
  settled.state = state;
  settled.reason = std::move(reason);
  return settled;
}

/// The end of a guest that ran (also: was being saved).
Settled guest_end(const Ending& ending, Outcome outcome) {
  switch (outcome) {
    case Outcome::GuestExited:
      return rest(State::Exited, ending.cause);
    case Outcome::GuestCrashed:
      return rest(State::Crashed, ending.cause);
    case Outcome::DaemonRestart:
      return rest(State::Crashed, "daemon-restart");
    case Outcome::HostReboot:
      return rest(State::Crashed, "host-reboot");
    case Outcome::Done:
    case Outcome::Failed:
    case Outcome::Cancelled:
      break;
  }
  return rest(State::Running, "");
}

Settled suspended_at(const Pointers& pointers, bool committed_after) {
  return rest(State::Suspended, committed_after || !pointers.committed.empty() ? "" : "new");
}

Settled saved(const Ending& ending, Outcome outcome) {
  if (outcome != Outcome::Done) {
    return guest_end(ending, outcome);
  }
  if (ending.state == State::Pausing) {
    Settled settled = rest(State::Paused, "");
    settled.promote = Promote::PendingToPause;
    return settled;
  }
  Settled settled = suspended_at(ending.pointers, true);
  settled.promote =
      ending.pointers.pending.empty() ? Promote::PauseToCommitted : Promote::PendingToCommitted;
  settled.drop_pause = true;
  return settled;
}

Settled reverted(const Ending& ending, Outcome outcome) {
  switch (outcome) {
    case Outcome::Done:
    case Outcome::DaemonRestart:
    case Outcome::HostReboot: {
      Settled settled = suspended_at(ending.pointers, false);
      settled.drop_pause = true;
      return settled;
    }
    case Outcome::Failed:
    case Outcome::Cancelled:
    case Outcome::GuestExited:
    case Outcome::GuestCrashed:
      break;
  }
  return rest(State::Crashed, "killed-by-operator");
}

Settled deleted(Outcome outcome) {
  Settled settled = rest(State::Deleting, "");
  settled.removed = outcome == Outcome::Done;
  settled.again = !settled.removed;
  settled.drop_pause = settled.removed;
  settled.drop_committed = settled.removed;
  return settled;
}

}  // namespace

Settled settle(const Ending& ending, Outcome outcome) {
  switch (ending.state) {
    case State::Resuming:
      return outcome == Outcome::Done ? rest(State::Running, "")
                                      : rest(ending.origin, ending.origin_reason);
    case State::Running:
      return guest_end(ending, outcome);
    case State::Pausing:
    case State::Suspending:
      return saved(ending, outcome);
    case State::Reverting:
      return reverted(ending, outcome);
    case State::Deleting:
      return deleted(outcome);
    case State::Suspended:
    case State::Paused:
    case State::Exited:
    case State::Crashed:
      return rest(ending.state, ending.origin_reason);
  }
  return rest(ending.state, ending.origin_reason);
}

Moved move_pointers(const Pointers& pointers, const Settled& settled) {
  Moved moved;
  moved.pointers.committed = pointers.committed;
  moved.pointers.pause = pointers.pause;
  moved.pointers.base = pointers.base;
  switch (settled.promote) {
    case Promote::Nothing:
      moved.garbage.push_back(pointers.pending);
      break;
    case Promote::PendingToCommitted:
      moved.garbage.push_back(std::exchange(moved.pointers.committed, pointers.pending));
      break;
    case Promote::PendingToPause:
      moved.garbage.push_back(std::exchange(moved.pointers.pause, pointers.pending));
      break;
    case Promote::PauseToCommitted:
      moved.garbage.push_back(pointers.pending);
      if (!pointers.pause.empty()) {  // never give up the committed one for nothing
        moved.garbage.push_back(
            std::exchange(moved.pointers.committed, std::exchange(moved.pointers.pause, {})));
      }
      break;
  }
  if (settled.drop_pause) {
    moved.garbage.push_back(std::exchange(moved.pointers.pause, {}));
  }
  if (settled.drop_committed) {
    moved.garbage.push_back(std::exchange(moved.pointers.committed, {}));
  }
  if (settled.removed || !moved.pointers.committed.empty()) {
    moved.garbage.push_back(std::exchange(moved.pointers.base, {}));
  }
  std::erase(moved.garbage, std::string{});
  return moved;
}

bool wants_restart(Restarts policy, State ended, int exit_code, bool by_operator) {
  if (by_operator) {
    return false;
  }
  switch (policy) {
    case Restarts::Never:
      return false;
    case Restarts::OnFailure:
      return ended == State::Crashed || exit_code != 0;
    case Restarts::Always:
      return true;
  }
  return false;
}

std::chrono::milliseconds restart_delay(std::int32_t streak) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::minutes(5);
  const std::int32_t doublings = std::clamp(streak, 0, 20);
  return std::min(kLongest, std::chrono::milliseconds(std::int64_t{1000} << doublings));
}

}  // namespace ate::core
