// Which golden snapshots there ought to be, which there are, and when one is built.
#include "engine/golden.hpp"

#include "ate/v1alpha1/objects.pb.h"
#include "engine/state.hpp"

namespace ate::engine {

namespace {

constexpr std::chrono::seconds kLookAgain(60);
constexpr std::chrono::milliseconds kCancel(200);
constexpr std::int64_t kRetryAfterSeconds = 5;

bool asks(const v1alpha1::ActorTemplate& source) {
  return source.spec().snapshots().golden();
}

Generation generation_of(const v1alpha1::ActorTemplate& source) {
  const v1alpha1::Metadata& metadata = source.metadata();
  return {metadata.atespace(), metadata.name(), metadata.generation()};
}

Generation generation_of(const v1alpha1::Snapshot& row) {
  return {row.actor().atespace(), row.template_().name(), row.template_().generation()};
}

}  // namespace

void Engine::State::load_goldens() {
  snapshot_rows.visit([this](const SnapshotRows::Row& row) {
    if (row->kind() != "golden" || row->state() != "Ready") {
      return;
    }
    Golden& golden = goldens[generation_of(*row)];
    if (!golden.snapshot.empty()) {
      orphans.insert(golden.snapshot);  // its successor was committed, then the daemon ended
    }
    golden.have = row->golden_key();
    golden.snapshot = row->id();
    golden.built_at = row->created_at();
    golden.bytes = row->bytes();
  });
}

void Engine::State::kick_goldens() {
  ++golden_kicks;
  golden_kick.beat();
}

async::Task<void> Engine::State::tend_goldens() {
  const std::shared_ptr<State> self = shared_from_this();
  while (!stopping) {
    const std::uint64_t seen = golden_kicks;
    bool busy = false;
    if (ready) {
      co_await refresh_goldens();
      const std::optional<Generation> next = next_golden();
      if (next) {
        co_await build_golden(*next);
        continue;
      }
      for (const auto& [generation, golden] : goldens) {
        busy = busy || !golden.usable();
      }
    }
    if (golden_kicks == seen) {
      const bool kicked =
          co_await golden_kick.wait_for(busy || !ready ? settings.tick : kLookAgain);
      static_cast<void>(kicked);  // either way everything is looked at again
    }
  }
}

/// Of the templates in force, and of the generations that actors were made from.
std::map<Generation, std::shared_ptr<const v1alpha1::ActorTemplate>> Engine::State::wanted_goldens()
    const {
  std::map<Generation, std::shared_ptr<const v1alpha1::ActorTemplate>> wanted;
  for (const auto& source : templates.in_force()) {
    if (asks(*source)) {
      wanted.emplace(generation_of(*source), source);
    }
  }
  for (const Generation& generation : actors.generations()) {
    const auto& [atespace, name, number] = generation;
    const auto source = templates.find_template(atespace, name, number);
    if (source != nullptr && asks(*source)) {
      wanted.emplace(generation, source);
    }
  }
  return wanted;
}

async::Task<void> Engine::State::refresh_goldens() {
  const auto wanted = wanted_goldens();
  for (auto& [generation, golden] : goldens) {
    const auto found = wanted.find(generation);
    golden.source = found == wanted.end() ? nullptr : found->second;
  }
  for (const auto& [generation, source] : wanted) {
    goldens[generation].source = source;
    const Result<std::pair<std::string, core::BakedSize>> made = co_await golden_key(source);
    Golden& golden = goldens[generation];
    if (!made) {
      golden.key.clear();
      golden.error = made.error().message();
      continue;
    }
    golden.size = made->second;
    if (golden.key != made->first) {
      golden.key = made->first;
      golden.failures = 0;
      golden.not_before = {};
      golden.error.clear();
    }
  }
  for (auto it = goldens.begin(); it != goldens.end();) {
    const bool gone = it->second.source == nullptr;
    const Generation generation = it->first;
    if (gone) {
      const bool dropped = co_await drop_golden(generation);
      it = goldens.upper_bound(generation);
      if (dropped) {
        goldens.erase(generation);
      }
    } else {
      ++it;
    }
  }
  golden_news.beat();
}

/// What one built now would be made of.
async::Task<Result<std::pair<std::string, core::BakedSize>>> Engine::State::golden_key(
    std::shared_ptr<const v1alpha1::ActorTemplate> source) {
  const std::string class_name = v1alpha1::SandboxClass_Name(source->spec().sandbox_class());
  const auto runtime = runtimes.find(class_name);
  if (runtime == runtimes.end()) {
    co_return fail(Errc::Unavailable, "this node has no runtime of class " + class_name);
  }
  ATE_CO_ASSIGN(const core::Demand demand, workers.demand(source->spec(), nullptr));
  ATE_CO_ASSIGN(const Workers::Least least, workers.least(demand));
  const auto config = templates.sandbox_config(least.sandbox_config, class_name);
  if (config == nullptr) {
    co_return fail(Errc::Unavailable, "there is no SandboxConfig for it");
  }
  core::GoldenParts parts;
  parts.spec_digest = source->status().object().digest();
  for (const v1alpha1::ImageStatus& image : source->status().images()) {
    parts.images[image.container()] = image.digest();
  }
  const auto& pinned = config->status().pinned();
  std::map<std::string, std::string> options;
  if (!config->spec().gvisor().platform().empty()) {
    options["platform"] = config->spec().gvisor().platform();
  }
  ATE_CO_ASSIGN(parts.runtime, co_await runtime->second->fingerprint({pinned.begin(), pinned.end()},
                                                                     std::move(options)));
  parts.memory_bytes = least.size.memory_bytes;
  parts.vcpus = least.size.vcpus;
  co_return std::pair(artifacts::sha256_text(core::golden_text(parts)), least.size);
}

std::optional<Generation> Engine::State::next_golden() const {
  for (const auto& [generation, golden] : goldens) {
    if (golden.source != nullptr && !golden.key.empty() && !golden.usable() &&
        now() >= golden.not_before) {
      return generation;
    }
  }
  return std::nullopt;
}

/// False while a start still reads it.
async::Task<bool> Engine::State::drop_golden(Generation generation) {
  const auto found = goldens.find(generation);
  if (found == goldens.end() || found->second.snapshot.empty()) {
    co_return true;
  }
  const std::string id = found->second.snapshot;
  const bool dropped = co_await drop_golden_row(id);
  if (dropped) {
    goldens[generation].snapshot.clear();
  }
  co_return dropped;
}

async::Task<bool> Engine::State::drop_golden_row(std::string id) {
  const SnapshotRows::Row row = snapshot_rows.find(id);
  if (row == nullptr) {
    co_return true;
  }
  if (held.contains(id)) {
    co_return false;
  }
  const MarkedIds going(leaving, {id});
  const Status status = co_await drop_row(row);
  co_return status.has_value();
}

const Golden* Engine::State::golden_of(const EntryPtr& entry) const {
  const std::shared_ptr<const v1alpha1::Actor> actor = entry->actor();
  const v1alpha1::TemplateRef& reference = actor->spec().template_();
  const auto found = goldens.find({entry->atespace(), reference.name(), reference.generation()});
  return found == goldens.end() ? nullptr : &found->second;
}

std::string Engine::State::usable_golden(const EntryPtr& entry) const {
  const Golden* golden = goldens.empty() ? nullptr : golden_of(entry);
  const bool usable = golden != nullptr && golden->usable() && !leaving.contains(golden->snapshot);
  return usable ? golden->snapshot : std::string();
}

async::Task<Result<std::string>> Engine::State::await_golden(EntryPtr entry, RunPtr run) {
  StageTimer timer(*run, clock, "golden");
  const SteadyTime deadline = now() + settings.park_limit;
  std::string id = usable_golden(entry);
  core::GoldenState state = core::GoldenState::Pending;
  std::string why;
  while (id.empty()) {
    const Golden* golden = golden_of(entry);
    // Off: it is not looked at yet, the daemon has just begun.
    state = golden == nullptr || golden->source == nullptr ? core::GoldenState::Pending
                                                           : core::golden_state(golden->facts());
    why = golden == nullptr ? std::string() : golden->error;
    const auto left = std::max(deadline - now(), SteadyTime::duration::zero());
    if (state == core::GoldenState::Failed || left == SteadyTime::duration::zero()) {
      break;
    }
    const bool news = co_await golden_news.wait_for(std::min<SteadyTime::duration>(left, kCancel));
    static_cast<void>(news);  // it is looked at again either way
    ATE_CO_TRY(next_stage(*run));
    id = usable_golden(entry);
  }
  if (!id.empty()) {
    co_return id;
  }
  Error error(state == core::GoldenState::Failed ? Errc::StateConflict : Errc::Unavailable,
              "actor " + entry->label() +
                  " was saved with scope DATA_ON_GOLDEN, and the golden snapshot of its template "
                  "generation is " +
                  std::string(core::name(state)) + (why.empty() ? "" : " (" + why + ")") +
                  ": `resume` with {\"boot\": true} starts cold on its volumes");
  error = std::move(error).with("goldenState", std::string(core::name(state)));
  if (error.code() == Errc::Unavailable) {
    error = std::move(error).with("retryAfterSeconds", kRetryAfterSeconds);
  }
  co_return fail(std::move(error));
}

core::Facts Engine::State::facts_now(const EntryPtr& entry) const {
  core::Facts facts = entry->facts();
  facts.golden = !usable_golden(entry).empty();
  return facts;
}

/// One that did not give a running actor is not used again: new actors boot cold until there is
/// another. On an actor's own volumes a failure may be theirs.
void Engine::State::distrust_golden(const EntryPtr& entry, const Start& start, const Error& error) {
  const bool told = error.code() == Errc::SnapshotCorrupt ||
                    error.code() == Errc::SnapshotIncompatible ||
                    error.code() == Errc::RestoreFailed;
  const bool its_fault = told && (start.source == core::Source::Golden || start.bad_memory);
  const std::string& snapshot = start.choice.memory;
  const std::shared_ptr<const v1alpha1::Actor> actor = entry->actor();
  const v1alpha1::TemplateRef& reference = actor->spec().template_();
  const auto found = goldens.find({entry->atespace(), reference.name(), reference.generation()});
  if (!its_fault || found == goldens.end() || found->second.snapshot != snapshot) {
    return;
  }
  log.error("a golden snapshot is given up",
            {{"template", reference.name()}, {"snapshot", snapshot}, {"error", error.message()}});
  found->second.have.clear();
  found->second.error = error.message();
  kick_goldens();
}

std::optional<v1alpha1::GoldenStatus> Engine::State::golden_status(
    const v1alpha1::ActorTemplate& source) const {
  if (!asks(source)) {
    return std::nullopt;
  }
  v1alpha1::GoldenStatus status;
  const auto found = goldens.find(generation_of(source));
  if (found == goldens.end()) {
    status.set_state(std::string(core::name(core::GoldenState::Pending)));
    return status;
  }
  const Golden& golden = found->second;
  core::GoldenFacts facts = golden.facts();
  facts.wanted = true;
  status.set_state(std::string(core::name(core::golden_state(facts))));
  status.set_key(golden.key);
  status.set_error(escape_text(golden.error, 1024));
  if (!golden.snapshot.empty()) {
    status.set_snapshot(golden.snapshot);
    status.set_built_at(golden.built_at);
    status.set_bytes(golden.bytes);
  }
  return status;
}

}  // namespace ate::engine
