#include "ate/core/reconcile.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace ate::core {

namespace {

using Names = std::unordered_set<std::string>;

/// Processes are ended before what they use is taken away; a namespace goes when nobody is in it.
int rank(const std::string& kind) {
  if (kind == "process") {
    return 0;
  }
  if (kind == "cgroup") {
    return 1;
  }
  if (kind == "netns") {
    return 3;
  }
  return 2;
}

std::vector<std::size_t> purge_order(const std::vector<Remains>& remains) {
  std::vector<std::size_t> order(remains.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::sort(order.begin(), order.end(), [&remains](std::size_t a, std::size_t b) {
    return std::pair(rank(remains[a].kind), a) < std::pair(rank(remains[b].kind), b);
  });
  return order;
}

bool needs_action(const ActorFacts& actor) {
  return is_transient(actor.state) || actor.state == State::Running || actor.assigned ||
         actor.operation || !actor.pointers.pending.empty();
}

ActorAction act_on(const ActorFacts& actor, const std::string& boot_id) {
  const bool rebooted = actor.boot_id != boot_id;
  Ending ending;
  ending.state = actor.state;
  ending.origin = actor.origin;
  ending.origin_reason = actor.state == State::Resuming ? actor.origin_reason : actor.reason;
  ending.pointers = actor.pointers;
  ActorAction action;
  action.uid = actor.uid;
  action.settled = settle(ending, rebooted ? Outcome::HostReboot : Outcome::DaemonRestart);
  action.finish_delete = action.settled.again;
  action.finished = actor.state == State::Reverting;
  const bool ran = actor.state == State::Running || actor.state == State::Pausing ||
                   actor.state == State::Suspending;
  action.restartable = ran && !rebooted;  // after a reboot only onHostReboot decides
  return action;
}

}  // namespace

Plan reconcile(const std::vector<ActorFacts>& actors, const Observed& observed) {
  Plan plan;
  plan.purge = purge_order(observed.remains);
  Names named;
  named.reserve(actors.size());
  const Names complete(observed.complete.begin(), observed.complete.end());
  for (const ActorFacts& actor : actors) {
    for (const std::string* id :
         {&actor.pointers.committed, &actor.pointers.pause, &actor.pointers.base}) {
      if (id->empty()) {
        continue;
      }
      named.insert(*id);
      if (!complete.contains(*id)) {
        plan.missing.push_back(*id);
      }
    }
    if (needs_action(actor)) {
      plan.actors.push_back(act_on(actor, observed.boot_id));
    }
  }
  for (const std::string& id : observed.standing) {
    if (named.insert(id).second && !complete.contains(id)) {
      plan.missing.push_back(id);
    }
  }
  for (const std::string& id : observed.complete) {
    if (!named.contains(id)) {
      plan.discard.push_back(id);
    }
  }
  plan.discard.insert(plan.discard.end(), observed.partial.begin(), observed.partial.end());
  for (const std::string& id : observed.snapshot_rows) {
    if (!named.contains(id)) {
      plan.drop_rows.push_back(id);
    }
  }
  return plan;
}

}  // namespace ate::core
