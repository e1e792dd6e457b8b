// spec.ttl: an actor that nobody has used for so long is deleted.
#include "ate/core/units.hpp"
#include "engine/state.hpp"

namespace ate::engine {

void Engine::State::note_ttl(const v1alpha1::ActorRecord& record) {
  const v1alpha1::Actor& actor = record.actor();
  const Result<std::chrono::milliseconds> ttl = core::parse_duration(actor.spec().ttl());
  if (actor.spec().ttl().empty() || !ttl || ttl->count() <= 0) {
    expiries.erase(actor.metadata().uid());
    return;
  }
  expiries[actor.metadata().uid()] = {.ttl = *ttl, .since = parse_rfc3339(actor.status().since())};
}

void Engine::State::ttl_tick() {
  const WallTime wall = clock.wall();
  std::vector<std::string> due;
  for (const auto& [uid, expiry] : expiries) {
    if (wall - expiry.since >= expiry.ttl) {
      due.push_back(uid);
    }
  }
  for (const std::string& uid : due) {
    const EntryPtr entry = actors.find_uid(uid);
    if (entry == nullptr) {
      expiries.erase(uid);
      continue;
    }
    const std::shared_ptr<Live>& live = entry->live;
    const bool used = live != nullptr && (live->holds > 0 || live->parked > 0 ||
                                          live->run != nullptr || live->ending != nullptr);
    // What counts as activity of a running actor is what counts for the idle policy.
    const bool active = live != nullptr && entry->state() == core::State::Running &&
                        now() - live->last_activity < expiries[uid].ttl;
    const core::Decision decision = core::decide(entry->facts(), core::Command::Delete);
    if (used || active || decision.step != core::Step::Begin) {
      continue;
    }
    log.info("an actor's time to live is over", {{"actor", entry->label()}, {"uid", uid}});
    const RunPtr run =
        start_run(entry, core::Command::Delete, decision, VerbOptions{}, Caller{kTtlCaller, 0});
    static_cast<void>(run);
  }
}

}  // namespace ate::engine
