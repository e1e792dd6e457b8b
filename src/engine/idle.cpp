// The idle policy: an actor that nothing has touched for a while gives its worker back.
#include "ate/core/units.hpp"
#include "engine/state.hpp"

namespace ate::engine {

namespace {

constexpr std::chrono::seconds kFirstBackoff(30);
constexpr int kMostDoublings = 5;  // 16 min

struct IdlePolicy {
  std::chrono::milliseconds after{0};
  core::Command action = core::Command::Suspend;
};

std::optional<IdlePolicy> read_policy(const v1alpha1::Idle& idle) {
  const Result<std::chrono::milliseconds> after = core::parse_duration(idle.after());
  if (!after || after->count() <= 0) {
    return std::nullopt;
  }
  IdlePolicy policy;
  policy.after = *after;
  policy.action =
      idle.action() == v1alpha1::Idle::pause ? core::Command::Pause : core::Command::Suspend;
  return policy;
}

}  // namespace

void Engine::State::idle_tick() {
  const SteadyTime at = now();
  const std::vector<std::string> uids(awake.begin(), awake.end());
  for (const std::string& uid : uids) {
    const EntryPtr entry = actors.find_uid(uid);
    if (entry != nullptr && entry->live != nullptr && entry->live->guest != nullptr) {
      idle_check(entry, at);
    }
  }
}

void Engine::State::idle_check(const EntryPtr& entry, SteadyTime at) {
  const std::shared_ptr<Live>& live = entry->live;
  const std::uint64_t bytes = live->guest->sandbox->network_bytes();
  const bool active = bytes != live->network_bytes || live->holds > 0 || live->run != nullptr ||
                      live->ending != nullptr || live->parked > 0;
  live->network_bytes = bytes;
  if (active) {
    live->last_activity = at;
    return;
  }
  const std::shared_ptr<const v1alpha1::ActorRecord> record = entry->record();
  const v1alpha1::ActorSpec& spec = record->actor().spec();
  std::optional<IdlePolicy> policy;
  if (spec.has_idle()) {
    policy = read_policy(spec.idle());
  } else {
    const auto blueprint = templates.find_template(entry->atespace(), spec.template_().name(),
                                                   spec.template_().generation());
    if (blueprint != nullptr) {
      policy = read_policy(blueprint->spec().idle());
    }
  }
  if (!policy || at - live->last_activity < policy->after || at < live->idle_not_before) {
    return;
  }
  const core::Decision decision = core::decide(entry->facts(), policy->action);
  if (decision.step != core::Step::Begin) {
    return;
  }
  // Counted as failed until it went well: after_run resets it.
  live->idle_not_before = at + kFirstBackoff * (1 << std::min(live->idle_failures, kMostDoublings));
  ++live->idle_failures;
  const RunPtr run =
      start_run(entry, policy->action, decision, VerbOptions{}, Caller{"idle-policy", 0});
  static_cast<void>(run);
}

}  // namespace ate::engine
