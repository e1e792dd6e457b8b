#include "engine/actors.hpp"

#include "ate/util/ids.hpp"

namespace ate::engine {

static_assert(static_cast<int>(core::State::Deleting) == v1alpha1::ActorStatus::DELETING);
static_assert(static_cast<int>(core::State::Paused) == v1alpha1::ActorStatus::PAUSED);
static_assert(static_cast<int>(core::State::Exited) == v1alpha1::ActorStatus::EXITED);

core::State state_of(const v1alpha1::ActorRecord& record) {
  const int value = record.actor().status().state();
  return value >= 0 && value < static_cast<int>(core::kStateCount)
             ? static_cast<core::State>(value)
             : core::State::Crashed;  // written by something newer
}

void set_state(v1alpha1::ActorRecord& record, core::State state) {
  record.mutable_actor()->mutable_status()->set_state(
      static_cast<v1alpha1::ActorStatus::State>(state));
}

core::Pointers pointers_of(const v1alpha1::ActorRecord& record) {
  const v1alpha1::ActorStatus& status = record.actor().status();
  core::Pointers pointers;
  pointers.committed = status.snapshot();
  pointers.pause = status.pause_snapshot();
  pointers.pending = record.pending_snapshot();
  if (pointers.committed.empty()) {
    pointers.base = record.actor().spec().from_snapshot();
  }
  return pointers;
}

void set_pointers(v1alpha1::ActorRecord& record, const core::Pointers& pointers) {
  v1alpha1::ActorStatus& status = *record.mutable_actor()->mutable_status();
  if (pointers.committed.empty()) {
    status.clear_snapshot();
  } else {
    status.set_snapshot(pointers.committed);
  }
  if (pointers.pause.empty()) {
    status.clear_pause_snapshot();
  } else {
    status.set_pause_snapshot(pointers.pause);
  }
  record.set_pending_snapshot(pointers.pending);
}

core::VolumeMarks marks_of(const v1alpha1::ActorRecord& record) {
  const v1alpha1::VolumeMarks& stored = record.volumes();
  core::VolumeMarks marks;
  marks.match = stored.match();
  marks.restore = stored.restore();
  marks.cold = stored.cold();
  return marks;
}

void set_marks(v1alpha1::ActorRecord& record, const core::VolumeMarks& marks) {
  if (marks == core::VolumeMarks{}) {
    record.clear_volumes();
    return;
  }
  v1alpha1::VolumeMarks& stored = *record.mutable_volumes();
  stored.set_match(marks.match);
  stored.set_restore(marks.restore);
  stored.set_cold(marks.cold);
}

std::string encode_origin(core::State state, const std::string& reason) {
  std::string text(core::name(state));
  if (!reason.empty()) {
    text += ":" + reason;
  }
  return text;
}

std::pair<core::State, std::string> decode_origin(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::optional<core::State> state =
      core::parse_state(std::string_view(text).substr(0, colon));
  return {state.value_or(core::State::Suspended),
          colon == std::string::npos ? std::string() : text.substr(colon + 1)};
}

Entry::Entry(const std::shared_ptr<const v1alpha1::ActorRecord>& record)
    : uid_(record->actor().metadata().uid()),
      atespace_(record->actor().metadata().atespace()),
      name_(record->actor().metadata().name()) {
  set(record);
}

void Entry::set(const std::shared_ptr<const v1alpha1::ActorRecord>& record) {
  state_ = state_of(*record);
  const bool resting = !core::is_transient(state_) && state_ != core::State::Running;
  record_.set(record, resting);
}

std::shared_ptr<const v1alpha1::Actor> Entry::actor() const {
  const std::shared_ptr<const v1alpha1::ActorRecord> whole = record();
  return {whole, &whole->actor()};
}

v1alpha1::ActorRef Entry::ref() const {
  v1alpha1::ActorRef ref;
  ref.set_atespace(atespace_);
  ref.set_name(name_);
  ref.set_uid(uid_);
  return ref;
}

core::Facts Entry::facts() const {
  core::Facts facts;
  facts.state = state_;
  const std::shared_ptr<const v1alpha1::ActorRecord> whole = record();
  facts.pointers = pointers_of(*whole);
  facts.cold = whole->volumes().cold();
  if (live != nullptr && live->run != nullptr) {
    facts.running = live->run->command();
  }
  return facts;
}

namespace {

std::tuple<std::string, std::string, std::int64_t> template_key(const Entry& entry) {
  const std::shared_ptr<const v1alpha1::Actor> actor = entry.actor();
  const v1alpha1::TemplateRef& reference = actor->spec().template_();
  return {entry.atespace(), reference.name(), reference.generation()};
}

}  // namespace

void ActorTable::insert(const std::shared_ptr<Entry>& entry) {
  by_name_.insert(entry);
  by_uid_.emplace(entry->uid(), entry);
  ++uses_[template_key(*entry)];
  index_base(*entry, true);
}

void ActorTable::replace(const std::shared_ptr<Entry>& entry,
                         const std::shared_ptr<const v1alpha1::ActorRecord>& record) {
  index_base(*entry, false);
  forget_use(*entry);
  entry->set(record);
  ++uses_[template_key(*entry)];
  index_base(*entry, true);
}

void ActorTable::index_base(const Entry& entry, bool named) {
  const std::string base = pointers_of(*entry.record()).base;
  if (base.empty()) {
    return;
  }
  if (named) {
    forks_[base].insert(entry.uid());
    return;
  }
  const auto uids = forks_.find(base);
  if (uids != forks_.end() && uids->second.erase(entry.uid()) > 0 && uids->second.empty()) {
    forks_.erase(uids);
  }
}

std::vector<std::string> ActorTable::users_of(const v1alpha1::Snapshot& row,
                                              const std::string& but) const {
  std::vector<std::string> users;
  const std::shared_ptr<Entry> owner = find_uid(row.actor().uid());
  if (owner != nullptr && owner->uid() != but) {
    const core::Pointers pointers = pointers_of(*owner->record());
    if (pointers.committed == row.id() || pointers.pause == row.id()) {
      users.push_back(owner->label());
    }
  }
  const auto forks = forks_.find(row.id());
  if (forks == forks_.end()) {
    return users;
  }
  for (const std::string& uid : forks->second) {
    const std::shared_ptr<Entry> fork = uid == but ? nullptr : find_uid(uid);
    if (fork != nullptr) {
      users.push_back(fork->label());
    }
  }
  return users;
}

void ActorTable::erase(const std::shared_ptr<Entry>& entry) {
  entry->removed = true;
  index_base(*entry, false);
  by_uid_.erase(entry->uid());
  by_name_.erase(entry);
  forget_use(*entry);
}

void ActorTable::forget_use(const Entry& entry) {
  const auto used = uses_.find(template_key(entry));
  if (used != uses_.end() && --used->second == 0) {
    uses_.erase(used);
  }
}

std::size_t ActorTable::uses(const std::string& atespace, const std::string& name,
                             std::int64_t generation) const {
  const auto used = uses_.find({atespace, name, generation});
  return used == uses_.end() ? 0 : used->second;
}

std::vector<std::tuple<std::string, std::string, std::int64_t>> ActorTable::generations() const {
  std::vector<std::tuple<std::string, std::string, std::int64_t>> all;
  for (const auto& [generation, count] : uses_) {
    all.push_back(generation);
  }
  return all;
}

std::shared_ptr<Entry> ActorTable::find(const ActorKey& key) const {
  const auto found = by_name_.find(Name(key.atespace, key.name));
  if (found != by_name_.end()) {
    return *found;
  }
  std::shared_ptr<Entry> entry = is_ulid(key.name) ? find_uid(key.name) : nullptr;
  if (entry != nullptr && !key.atespace.empty() && entry->atespace() != key.atespace) {
    return nullptr;
  }
  return entry;
}

std::shared_ptr<Entry> ActorTable::find_uid(std::string_view uid) const {
  const auto found = by_uid_.find(uid);
  return found == by_uid_.end() ? nullptr : found->second;
}

void ActorTable::visit_after(
    Name after, const std::function<bool(const std::shared_ptr<Entry>&)>& visit) const {
  for (auto it = by_name_.upper_bound(after); it != by_name_.end(); ++it) {
    if (!visit(*it)) {
      return;
    }
  }
}

}  // namespace ate::engine
