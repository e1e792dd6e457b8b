// restartPolicy: a cold start on the durable data after an end that nobody asked for.
#include <limits>

#include "engine/state.hpp"

namespace ate::engine {

core::Restarts Engine::State::restart_policy(const v1alpha1::ActorRecord& record) const {
  v1alpha1::RestartPolicy policy = record.actor().spec().restart_policy();
  if (policy == v1alpha1::OnFailure) {
    return core::Restarts::OnFailure;
  }
  return policy == v1alpha1::Always ? core::Restarts::Always : core::Restarts::Never;
}

void Engine::State::plan_restart(v1alpha1::ActorRecord& record, core::State ended,
                                 WallTime now) const {
  const v1alpha1::ActorStatus& status = record.actor().status();
  if (!core::wants_restart(restart_policy(record), ended, status.exit_code(),
                           record.ended_by_operator())) {
    record.set_restart_not_before_ms(0);
    return;
  }
  if (now - parse_rfc3339(status.since()) >= core::kRestartReset) {
    record.set_restart_streak(0);  // it ran well for long enough
  }
  const WallTime due = now + core::restart_delay(record.restart_streak());
  record.set_restart_not_before_ms(due.time_since_epoch().count());
}

void Engine::State::run_restarts() {
  const std::int64_t now_ms = clock.wall().time_since_epoch().count();
  const std::int64_t longest =
      core::restart_delay(std::numeric_limits<std::int32_t>::max()).count();
  std::vector<std::string> due;
  for (const auto& [uid, not_before] : restarts) {
    // Further away than any delay: the host's clock was set back since.
    if (not_before <= now_ms || not_before > now_ms + longest) {
      due.push_back(uid);
    }
  }
  for (const std::string& uid : due) {
    const EntryPtr entry = actors.find_uid(uid);
    if (entry == nullptr) {
      restarts.erase(uid);
      continue;
    }
    const std::shared_ptr<const v1alpha1::ActorRecord> record = entry->record();
    if (restart_policy(*record) == core::Restarts::Never) {
      restarts.erase(uid);  // it was patched meanwhile
      continue;
    }
    const std::shared_ptr<Live> live = this->live(entry);
    const core::Decision decision = core::decide(entry->facts(), core::Command::Restart);
    if (decision.step != core::Step::Begin || live->ending != nullptr) {
      continue;
    }
    // When not even the start can begin (no free worker), the next try waits longer.
    const int failures = live->restart_failures++;
    restarts[uid] = now_ms + core::restart_delay(record->restart_streak() + failures).count();
    const RunPtr run = start_run(entry, core::Command::Restart, decision, VerbOptions{},
                                 Caller{"restart-policy", 0});
    static_cast<void>(run);
  }
}

}  // namespace ate::engine
