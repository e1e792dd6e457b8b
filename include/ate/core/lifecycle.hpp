#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ate/util/error.hpp"

/// The whole state table of an actor, pure (design.md section 2). The engine asks `decide` before
/// it acts and `settle` after; nothing else chooses a state.
namespace ate::core {

enum class State : std::uint8_t {
  Suspended,
  Resuming,
  Running,
  Pausing,
  Paused,
  Suspending,
  Reverting,
  Exited,
  Crashed,
  Deleting
};
inline constexpr std::size_t kStateCount = 10;

[[nodiscard]] std::string_view name(State state);
[[nodiscard]] std::optional<State> parse_state(std::string_view text);
/// A state that an operation passes through; never at rest.
[[nodiscard]] bool is_transient(State state);

enum class Command : std::uint8_t {
  Resume,
  ResumeBoot,
  Pause,
  Suspend,
  Revert,
  Delete,
  DeleteForce,
  Snapshot,  // of a running actor, which goes on
  Signal,
  Patch,
  Connect,
  Restart,
  GuestExited,
  GuestCrashed
};
inline constexpr std::size_t kCommandCount = 14;
[[nodiscard]] std::string_view name(Command command);
/// The verb that an operation of this command carries: `resume`, `pause`, ...
[[nodiscard]] std::string_view verb_of(Command command);

/// What a start begins from, in the order of selection. Data and DataOnGolden are not selected but
/// what a selected snapshot turns out to give: its durable volumes, cold or under the memory of the
/// golden snapshot (core/start.hpp).
enum class Source : std::uint8_t { Pause, Committed, Fork, Golden, Boot, Data, DataOnGolden };
/// As `status.restoredFrom` shows it: pause | snapshot | fork | golden | boot | data |
/// data-on-golden.
[[nodiscard]] std::string_view name(Source source);

/// Ids of the snapshots that an actor's record names; empty = none.
struct Pointers {
  std::string committed;
  std::string pause;
  std::string pending;  // reserved by a running pause or suspend
  std::string base;     // of a fork, until it has a committed one of its own
};

/// Selection by what the record holds; a selected source that fails never falls through to the
/// next.
/// `golden`: the template generation has a golden snapshot that may be used.
[[nodiscard]] Source select_source(const Pointers& pointers, bool golden);

struct Facts {
  State state = State::Suspended;
  Pointers pointers;
  std::optional<Command> running;  // the operation that runs now
  bool golden = false;             // its template generation has a golden snapshot to use
  bool cold = false;               // the next start is cold on the live durable volumes
};

enum class Step : std::uint8_t {
  Noop,    // already there
  Allow,   // no change of state; may be done now
  Join,    // the running operation is what was asked for; for Connect: wait for it, ask again
  Busy,    // another operation runs
  Cancel,  // end the running operation at its next stage, then ask again
  Refuse,
  Begin
};

struct Decision {
  Step step = Step::Noop;
  // Begin:
  State transient = State::Suspended;  // RUNNING for a Snapshot: the actor stays what it is
  Source source = Source::Boot;
  bool at_once = false;  // no process and no file is touched: one commit does it
  // Refuse, Busy:
  Errc code = Errc::StateConflict;
  std::string message;
};

[[nodiscard]] Decision decide(const Facts& facts, Command command);

/// How what a transient state stands for ended. For states at rest: what came upon the actor.
enum class Outcome : std::uint8_t {
  Done,
  Failed,
  Cancelled,
  GuestExited,   // the guest ended by itself meanwhile
  GuestCrashed,  // it was ended
  DaemonRestart,
  HostReboot
};
inline constexpr std::size_t kOutcomeCount = 7;

enum class Promote : std::uint8_t { Nothing, PendingToCommitted, PendingToPause, PauseToCommitted };

struct Settled {
  State state = State::Suspended;
  std::string reason;  // status.reason
  bool removed = false;
  /// The operation stays to be done (an interrupted delete, a revert): run it again.
  bool again = false;
  Promote promote = Promote::Nothing;
  bool drop_pause = false;
  bool drop_committed = false;  // delete only
};

/// What is known when an operation ends.
struct Ending {
  State state = State::Suspended;   // before
  State origin = State::Suspended;  // where a resume came from
  std::string origin_reason;
  Pointers pointers;
  std::string cause;  // of the guest's end, in the words of design.md section 8
};

[[nodiscard]] Settled settle(const Ending& ending, Outcome outcome);

/// Pointers after it, and the snapshots that this actor names no more. `pending` is always given
/// up: promoted or garbage. A base goes with the first committed one; others may still name it.
struct Moved {
  Pointers pointers;
  std::vector<std::string> garbage;
};

[[nodiscard]] Moved move_pointers(const Pointers& pointers, const Settled& settled);

/// Restart policy (Never, OnFailure, Always): whether an end is followed by a restart.
enum class Restarts : std::uint8_t { Never, OnFailure, Always };
[[nodiscard]] bool wants_restart(Restarts policy, State ended, int exit_code, bool by_operator);
/// 1 s doubling to 5 min; `streak` = restarts since it last ran for 10 minutes.
[[nodiscard]] std::chrono::milliseconds restart_delay(std::int32_t streak);
inline constexpr std::chrono::minutes kRestartReset{10};

}  // namespace ate::core
