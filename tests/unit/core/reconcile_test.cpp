#include "ate/core/reconcile.hpp"

#include <algorithm>

#include "support/catch.hpp"

using namespace ate;
using namespace ate::core;

namespace {

ActorFacts actor(State state, Pointers pointers, const std::string& boot) {
  ActorFacts facts;
  facts.uid = "u1";
  facts.state = state;
  facts.pointers = std::move(pointers);
  facts.boot_id = boot;
  facts.assigned = state != State::Suspended && state != State::Paused;
  return facts;
}

Plan plan_for(const ActorFacts& facts, Observed observed) {
  observed.boot_id = "now";
  return reconcile({facts}, observed);
}

}  // namespace

TEST_CASE("reconcile: each state after a daemon restart and after a reboot") {
  struct Row {
    State state;
    const char* boot;
    State target;
    const char* reason;
  };

  const Row rows[] = {
      {State::Running, "now", State::Crashed, "daemon-restart"},
      {State::Running, "before", State::Crashed, "host-reboot"},  // case T50
      {State::Pausing, "now", State::Crashed, "daemon-restart"},
      {State::Suspending, "now", State::Crashed, "daemon-restart"},
      {State::Suspending, "before", State::Crashed, "host-reboot"},
      {State::Reverting, "now", State::Suspended, ""},
      {State::Reverting, "before", State::Suspended, ""},
  };
  for (const Row& row : rows) {
    INFO(name(row.state));
    const Plan plan = plan_for(actor(row.state, {"c", "", ""}, row.boot), {});
    REQUIRE(plan.actors.size() == 1);
    REQUIRE(plan.actors[0].settled.state == row.target);
    REQUIRE(plan.actors[0].settled.reason == row.reason);
    REQUIRE(plan.actors[0].restartable ==
            (row.boot == std::string("now") && row.state != State::Reverting));
  }
}

TEST_CASE("reconcile: an interrupted resume goes back to where it came from") {
  for (const State origin : {State::Suspended, State::Paused, State::Crashed}) {
    ActorFacts facts = actor(State::Resuming, {"c", "p", ""}, "now");
    facts.origin = origin;
    facts.origin_reason = "unknown";
    const Plan plan = plan_for(facts, {});
    REQUIRE(plan.actors.at(0).settled.state == origin);
    REQUIRE(plan.actors.at(0).settled.reason == "unknown");
    REQUIRE_FALSE(plan.actors.at(0).restartable);
    REQUIRE(move_pointers(facts.pointers, plan.actors[0].settled).garbage.empty());
  }
}

TEST_CASE("reconcile: an interrupted delete goes on and keeps what it names until then") {
  Observed observed;
  observed.complete = {"c"};
  const Plan plan = plan_for(actor(State::Deleting, {"c", "", ""}, "now"), observed);
  REQUIRE(plan.actors.at(0).finish_delete);
  REQUIRE(plan.discard.empty());
}

TEST_CASE("reconcile: actors at rest need nothing; what is left of them on the host goes") {
  Observed observed;
  observed.remains = {{"netns", "n", "u1", false}, {"process", "p", "u1", true}};
  observed.complete = {"c"};
  const Plan plan = plan_for(actor(State::Suspended, {"c", "", ""}, "before"), observed);
  REQUIRE(plan.actors.empty());
  REQUIRE(plan.purge == std::vector<std::size_t>{1, 0});
  REQUIRE(plan.discard.empty());
  REQUIRE(plan.missing.empty());
}

TEST_CASE("reconcile: a sealed snapshot that was not committed is discarded, the old one stays") {
  Observed observed;
  observed.complete = {"old", "new"};
  observed.partial = {"half"};
  observed.snapshot_rows = {"old", "lost"};
  const ActorFacts facts = actor(State::Suspending, {"old", "", "new"}, "now");
  const Plan plan = plan_for(facts, observed);
  REQUIRE(plan.discard == std::vector<std::string>{"new", "half"});
  REQUIRE(plan.drop_rows == std::vector<std::string>{"lost"});
  const Moved moved = move_pointers(facts.pointers, plan.actors.at(0).settled);
  REQUIRE(moved.pointers.committed == "old");
  REQUIRE(moved.pointers.pending.empty());
}

TEST_CASE("reconcile: a snapshot that is named but not there is reported, the record is kept") {
  const Plan plan = plan_for(actor(State::Suspended, {"c", "", ""}, "now"), {});
  REQUIRE(plan.missing == std::vector<std::string>{"c"});
  REQUIRE(plan.actors.empty());
}

TEST_CASE("reconcile: things of unknown actors are ended too, processes first") {
  Observed observed;
  observed.remains = {{"rundir", "r", "", false},
                      {"netns", "n", "", false},
                      {"cgroup", "g", "", true},
                      {"process", "p", "", true},
                      {"mount", "m", "", false}};
  const Plan plan = reconcile({}, observed);
  REQUIRE(plan.purge == std::vector<std::size_t>{3, 2, 0, 4, 1});
}

TEST_CASE("reconcile: a fork's origin is kept, whoever made it") {
  Observed observed;
  observed.complete = {"base"};
  observed.snapshot_rows = {"base"};
  const Plan plan = plan_for(actor(State::Suspended, {"", "", "", "base"}, "now"), observed);
  REQUIRE(plan.discard.empty());
  REQUIRE(plan.drop_rows.empty());
}

TEST_CASE("reconcile: what stands alone is kept without an actor; a missing one is reported") {
  Observed observed;
  observed.complete = {"c", "live", "nobody"};
  observed.snapshot_rows = {"c", "live", "lost", "row"};
  observed.standing = {"live", "lost"};
  const Plan plan = plan_for(actor(State::Suspended, {"c", "", ""}, "now"), observed);
  REQUIRE(plan.discard == std::vector<std::string>{"nobody"});
  REQUIRE(plan.drop_rows == std::vector<std::string>{"row"});
  REQUIRE(plan.missing == std::vector<std::string>{"lost"});
}
