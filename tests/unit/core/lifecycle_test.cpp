#include "ate/core/lifecycle.hpp"

#include <set>

#include "support/catch.hpp"

using namespace ate;
using namespace ate::core;

namespace {

std::vector<State> all_states() {
  std::vector<State> states;
  for (std::size_t i = 0; i < kStateCount; ++i) {
    states.push_back(static_cast<State>(i));
  }
  return states;
}

std::vector<Command> all_commands() {
  std::vector<Command> commands;
  for (std::size_t i = 0; i < kCommandCount; ++i) {
    commands.push_back(static_cast<Command>(i));
  }
  return commands;
}

std::vector<Pointers> all_pointers() {
  std::vector<Pointers> all;
  for (const char* committed : {"", "snap-c"}) {
    for (const char* pause : {"", "snap-p"}) {
      all.push_back(Pointers{committed, pause, "", ""});
    }
  }
  all.push_back(Pointers{"", "", "", "snap-b"});
  all.push_back(Pointers{"", "snap-p", "", "snap-b"});
  return all;
}

Decision ask(State state, Command command, const Pointers& pointers = {}) {
  Facts facts;
  facts.state = state;
  facts.pointers = pointers;
  return decide(facts, command);
}

Decision ask_while(State state, Command running, Command command) {
  Facts facts;
  facts.state = state;
  facts.running = running;
  return decide(facts, command);
}

/// Where `command` in `state` leads when all goes well; nullopt when it is not a step.
std::optional<State> leads_to(State state, Command command, const Pointers& pointers) {
  const Decision decision = ask(state, command, pointers);
  if (decision.step != Step::Begin) {
    return std::nullopt;
  }
  Ending ending;
  ending.state = decision.transient;
  ending.origin = state;
  ending.pointers = pointers;
  const Settled settled = settle(ending, Outcome::Done);
  return settled.removed ? std::nullopt : std::optional(settled.state);
}

constexpr State kRest[] = {State::Suspended, State::Running, State::Paused, State::Exited,
                           State::Crashed};

}  // namespace

TEST_CASE("lifecycle: names go there and back") {
  for (const State state : all_states()) {
    REQUIRE(parse_state(name(state)) == state);
  }
  REQUIRE_FALSE(parse_state("RUNNIN"));
  REQUIRE_FALSE(parse_state(""));
}

TEST_CASE("lifecycle: every state, command and outcome ends in a listed state") {
  std::size_t walked = 0;
  for (const State state : all_states()) {
    for (const Command command : all_commands()) {
      for (Pointers pointers : all_pointers()) {
        const Decision decision = ask(state, command, pointers);
        if (decision.step == Step::Refuse || decision.step == Step::Busy) {
          REQUIRE_FALSE(decision.message.empty());
        }
        if (decision.step != Step::Begin) {
          continue;
        }
        // A snapshot of a running actor leaves it what it is.
        REQUIRE(is_transient(decision.transient) != (command == Command::Snapshot));
        const bool saves = !decision.at_once && (decision.transient == State::Pausing ||
                                                 decision.transient == State::Suspending);
        if (saves) {
          pointers.pending = "snap-new";
        }
        for (std::size_t o = 0; o < kOutcomeCount; ++o) {
          Ending ending;
          ending.state = decision.transient;
          ending.origin = state;
          ending.origin_reason = "before";
          ending.pointers = pointers;
          ending.cause = "unknown";
          const auto outcome = static_cast<Outcome>(o);
          const Settled settled = settle(ending, outcome);
          const Moved moved = move_pointers(pointers, settled);
          ++walked;
          // At rest, or a delete that goes on.
          if (settled.again) {
            REQUIRE(settled.state == State::Deleting);
          } else if (!settled.removed) {
            REQUIRE_FALSE(is_transient(settled.state));
          }
          // Nothing is both named and garbage; nothing that was named is forgotten.
          const std::set<std::string> garbage(moved.garbage.begin(), moved.garbage.end());
          REQUIRE(garbage.size() == moved.garbage.size());
          for (const std::string& id :
               {pointers.committed, pointers.pause, pointers.pending, pointers.base}) {
            const bool named = id == moved.pointers.committed || id == moved.pointers.pause ||
                               id == moved.pointers.base;
            REQUIRE((id.empty() || named != garbage.contains(id)));
          }
          REQUIRE(moved.pointers.pending.empty());
          // The last good snapshot is never unreferenced while the actor lives; it gives way only
          // to a newer good one.
          if (!settled.removed && !pointers.committed.empty()) {
            REQUIRE_FALSE(moved.pointers.committed.empty());
            if (moved.pointers.committed != pointers.committed) {
              REQUIRE(outcome == Outcome::Done);
              REQUIRE(decision.transient == State::Suspending);
            }
          }
          // A fork keeps its origin until it has a commit of its own.
          if (!settled.removed && moved.pointers.committed.empty()) {
            REQUIRE(moved.pointers.base == pointers.base);
          }
          // A snapshot that was not finished is never chosen. case T14
          if (outcome != Outcome::Done) {
            REQUIRE(moved.pointers.committed != "snap-new");
            REQUIRE(moved.pointers.pause != "snap-new");
          }
        }
      }
    }
  }
  REQUIRE(walked > 300);
}

TEST_CASE("lifecycle: what comes upon a state at rest leaves it in a listed state") {
  for (const State state : kRest) {
    for (std::size_t o = 0; o < kOutcomeCount; ++o) {
      Ending ending;
      ending.state = state;
      ending.cause = "unknown";
      REQUIRE_FALSE(is_transient(settle(ending, static_cast<Outcome>(o)).state));
    }
  }
}

TEST_CASE("lifecycle: delete is reachable from every state, force also over an operation") {
  for (const State state : all_states()) {
    for (const Command command : {Command::Delete, Command::DeleteForce}) {
      const Decision decision = ask(state, command);
      REQUIRE(decision.step == Step::Begin);
      REQUIRE(decision.transient == State::Deleting);
    }
    for (const Command running : {Command::Resume, Command::ResumeBoot, Command::Pause,
                                  Command::Suspend, Command::Revert, Command::Restart}) {
      REQUIRE(ask_while(state, running, Command::Delete).step == Step::Busy);
      REQUIRE(ask_while(state, running, Command::DeleteForce).step == Step::Cancel);
    }
  }
}

TEST_CASE("lifecycle: the verbs at rest") {
  struct Row {
    State state;
    Command command;
    Step step;
    std::optional<State> target;
  };

  const Row rows[] = {
      {State::Suspended, Command::Resume, Step::Begin, State::Running},
      {State::Suspended, Command::ResumeBoot, Step::Begin, State::Running},
      {State::Suspended, Command::Connect, Step::Begin, State::Running},
      {State::Suspended, Command::Pause, Step::Refuse, {}},
      {State::Suspended, Command::Suspend, Step::Noop, {}},
      {State::Suspended, Command::Revert, Step::Refuse, {}},
      {State::Suspended, Command::Signal, Step::Refuse, {}},
      {State::Running, Command::Resume, Step::Noop, {}},
      {State::Running, Command::Pause, Step::Begin, State::Paused},
      {State::Running, Command::Suspend, Step::Begin, State::Suspended},
      {State::Running, Command::Revert, Step::Begin, State::Suspended},
      {State::Running, Command::Snapshot, Step::Begin, State::Running},
      {State::Suspended, Command::Snapshot, Step::Refuse, {}},
      {State::Paused, Command::Snapshot, Step::Refuse, {}},
      {State::Exited, Command::Snapshot, Step::Refuse, {}},
      {State::Crashed, Command::Snapshot, Step::Refuse, {}},
      {State::Running, Command::Signal, Step::Allow, {}},
      {State::Running, Command::Connect, Step::Allow, {}},
      {State::Paused, Command::Resume, Step::Begin, State::Running},
      {State::Paused, Command::Pause, Step::Noop, {}},
      {State::Paused, Command::Suspend, Step::Begin, State::Suspended},
      {State::Paused, Command::Revert, Step::Begin, State::Suspended},
      {State::Paused, Command::Connect, Step::Begin, State::Running},
      {State::Exited, Command::Resume, Step::Refuse, {}},
      {State::Exited, Command::ResumeBoot, Step::Begin, State::Running},
      {State::Exited, Command::Connect, Step::Refuse, {}},
      {State::Exited, Command::Pause, Step::Refuse, {}},
      {State::Exited, Command::Suspend, Step::Refuse, {}},
      {State::Exited, Command::Revert, Step::Begin, State::Suspended},
      {State::Crashed, Command::Resume, Step::Refuse, {}},
      {State::Crashed, Command::ResumeBoot, Step::Begin, State::Running},
      {State::Crashed, Command::Restart, Step::Begin, State::Running},
      {State::Crashed, Command::Revert, Step::Begin, State::Suspended},
      {State::Crashed, Command::Connect, Step::Refuse, {}},
  };
  for (const Row& row : rows) {
    INFO(name(row.state) << " " << name(row.command));
    REQUIRE(ask(row.state, row.command).step == row.step);
    Pointers pointers;
    pointers.pending = "x";
    REQUIRE(leads_to(row.state, row.command, pointers) == row.target);
  }
}

TEST_CASE("lifecycle: a plain resume of an ended actor names both ways out") {  // case T23
  for (const State state : {State::Exited, State::Crashed}) {
    const Decision decision = ask(state, Command::Resume);
    REQUIRE(decision.code == Errc::StateConflict);
    REQUIRE(decision.message.find("revert") != std::string::npos);
    REQUIRE(decision.message.find("\"boot\": true") != std::string::npos);
  }
}

TEST_CASE("lifecycle: the restore source is what the record holds") {
  REQUIRE(select_source({"c", "p", ""}, false) == Source::Pause);
  REQUIRE(select_source({"c", "", ""}, false) == Source::Committed);
  REQUIRE(select_source({"", "", ""}, false) == Source::Boot);
  REQUIRE(select_source({"", "", ""}, true) == Source::Golden);
  REQUIRE(select_source({"", "", "", "b"}, true) == Source::Fork);
  REQUIRE(select_source({"c", "", ""}, true) == Source::Committed);
  REQUIRE(select_source({"", "", "", "b"}, false) == Source::Fork);
  REQUIRE(select_source({"", "p", "", "b"}, false) == Source::Pause);
  REQUIRE(select_source({"c", "", "", ""}, false) == Source::Committed);
  REQUIRE(ask(State::Paused, Command::Resume, {"c", "p", ""}).source == Source::Pause);
  REQUIRE(ask(State::Paused, Command::ResumeBoot, {"c", "p", ""}).source == Source::Boot);
  REQUIRE(ask(State::Crashed, Command::Restart, {"c", "", ""}).source == Source::Boot);
}

TEST_CASE("lifecycle: a failed resume returns to where it came from, reason included") {
  for (const State origin : {State::Suspended, State::Paused, State::Exited, State::Crashed}) {
    for (std::size_t o = 1; o < kOutcomeCount; ++o) {
      Ending ending;
      ending.state = State::Resuming;
      ending.origin = origin;
      ending.origin_reason = "cgroup-oom";
      const Settled settled = settle(ending, static_cast<Outcome>(o));
      REQUIRE(settled.state == origin);
      REQUIRE(settled.reason == "cgroup-oom");
    }
  }
}

TEST_CASE("lifecycle: a failed suspend runs on, unless the guest is gone") {  // cases T11, T14
  for (const State state : {State::Pausing, State::Suspending}) {
    Ending ending;
    ending.state = state;
    ending.pointers = {"old", "", "new"};
    ending.cause = "killed(9)";
    REQUIRE(settle(ending, Outcome::Failed).state == State::Running);
    REQUIRE(settle(ending, Outcome::Cancelled).state == State::Running);
    const Settled crashed = settle(ending, Outcome::GuestCrashed);
    REQUIRE(crashed.state == State::Crashed);
    REQUIRE(crashed.reason == "killed(9)");
    REQUIRE(move_pointers(ending.pointers, crashed).pointers.committed == "old");
    REQUIRE(settle(ending, Outcome::GuestExited).state == State::Exited);
    REQUIRE(settle(ending, Outcome::DaemonRestart).reason == "daemon-restart");
    REQUIRE(settle(ending, Outcome::HostReboot).reason == "host-reboot");
  }
}

TEST_CASE("lifecycle: suspend of a paused actor commits its pause snapshot") {
  const Decision decision = ask(State::Paused, Command::Suspend, {"c", "p", ""});
  REQUIRE(decision.at_once);
  Ending ending;
  ending.state = State::Suspending;
  ending.pointers = {"c", "p", ""};
  const Settled settled = settle(ending, Outcome::Done);
  const Moved moved = move_pointers(ending.pointers, settled);
  REQUIRE(settled.state == State::Suspended);
  REQUIRE(moved.pointers.committed == "p");
  REQUIRE(moved.pointers.pause.empty());
  REQUIRE(moved.garbage == std::vector<std::string>{"c"});
}

TEST_CASE("lifecycle: a pause snapshot dies at the next snapshot, a revert or a delete") {
  Ending ending;
  ending.pointers = {"c", "p", "n"};
  ending.state = State::Pausing;
  REQUIRE(move_pointers(ending.pointers, settle(ending, Outcome::Done)).garbage ==
          std::vector<std::string>{"p"});
  ending.state = State::Suspending;
  REQUIRE(move_pointers(ending.pointers, settle(ending, Outcome::Done)).garbage ==
          std::vector<std::string>{"c", "p"});
  ending.pointers = {"c", "p", ""};
  ending.state = State::Reverting;
  REQUIRE(move_pointers(ending.pointers, settle(ending, Outcome::Done)).garbage ==
          std::vector<std::string>{"p"});
  ending.state = State::Deleting;
  REQUIRE(move_pointers(ending.pointers, settle(ending, Outcome::Done)).garbage.size() == 2);
  REQUIRE(move_pointers(ending.pointers, settle(ending, Outcome::Failed)).garbage.empty());
}

TEST_CASE("lifecycle: revert without a committed snapshot leaves it as new") {
  Ending ending;
  ending.state = State::Reverting;
  REQUIRE(settle(ending, Outcome::Done).reason == "new");
  ending.pointers.committed = "c";
  REQUIRE(settle(ending, Outcome::Done).reason.empty());
}

TEST_CASE("lifecycle: the same verb joins, another one is told, nothing queues") {  // case O1, O2
  REQUIRE(ask_while(State::Resuming, Command::Resume, Command::Resume).step == Step::Join);
  REQUIRE(ask_while(State::Resuming, Command::Connect, Command::Resume).step == Step::Join);
  REQUIRE(ask_while(State::Resuming, Command::Resume, Command::Connect).step == Step::Join);
  REQUIRE(ask_while(State::Suspending, Command::Suspend, Command::Connect).step == Step::Join);
  REQUIRE(ask_while(State::Suspending, Command::Suspend, Command::Suspend).step == Step::Join);
  REQUIRE(ask_while(State::Deleting, Command::DeleteForce, Command::Delete).step == Step::Join);
  REQUIRE(ask_while(State::Resuming, Command::Resume, Command::ResumeBoot).step == Step::Busy);
  REQUIRE(ask_while(State::Pausing, Command::Pause, Command::Suspend).step == Step::Busy);
  REQUIRE(ask_while(State::Resuming, Command::Resume, Command::Pause).code ==
          Errc::OperationInProgress);
  REQUIRE(ask_while(State::Deleting, Command::Delete, Command::Connect).step == Step::Refuse);
  REQUIRE(ask_while(State::Suspending, Command::Suspend, Command::Patch).step == Step::Allow);
}

TEST_CASE("lifecycle: while a running actor is snapshotted") {
  const State running = State::Running;
  REQUIRE(ask_while(running, Command::Snapshot, Command::Resume).step == Step::Noop);
  REQUIRE(ask_while(running, Command::Snapshot, Command::Snapshot).step == Step::Busy);
  REQUIRE(ask_while(running, Command::Snapshot, Command::Suspend).step == Step::Busy);
  REQUIRE(ask_while(running, Command::Snapshot, Command::Connect).step == Step::Join);
  REQUIRE(ask_while(running, Command::Snapshot, Command::Patch).step == Step::Allow);
  REQUIRE(ask_while(running, Command::Snapshot, Command::DeleteForce).step == Step::Cancel);
  REQUIRE(ask_while(State::Suspending, Command::Suspend, Command::Snapshot).step == Step::Busy);
  Ending ending;
  ending.state = running;
  ending.cause = "killed(9)";
  REQUIRE(settle(ending, Outcome::Failed).state == running);
  REQUIRE(settle(ending, Outcome::GuestCrashed).reason == "killed(9)");
}

TEST_CASE("lifecycle: restart policy") {
  REQUIRE_FALSE(wants_restart(Restarts::Never, State::Crashed, 1, false));
  REQUIRE(wants_restart(Restarts::OnFailure, State::Crashed, 0, false));
  REQUIRE(wants_restart(Restarts::OnFailure, State::Exited, 3, false));
  REQUIRE_FALSE(wants_restart(Restarts::OnFailure, State::Exited, 0, false));
  REQUIRE(wants_restart(Restarts::Always, State::Exited, 0, false));
  REQUIRE_FALSE(wants_restart(Restarts::Always, State::Crashed, 1, true));
  using std::chrono::milliseconds;
  REQUIRE(restart_delay(0) == milliseconds(1000));
  REQUIRE(restart_delay(1) == milliseconds(2000));
  REQUIRE(restart_delay(8) == milliseconds(256'000));
  REQUIRE(restart_delay(9) == milliseconds(300'000));
  REQUIRE(restart_delay(2'000'000'000) == milliseconds(300'000));
  REQUIRE(restart_delay(-1) == milliseconds(1000));
}
