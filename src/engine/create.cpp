// Actors are made and changed; nothing is started here.
#include "ate/codec/codec.hpp"
#include "ate/core/validate.hpp"
#include "ate/util/ids.hpp"
#include "ate/util/scope_exit.hpp"
#include "engine/state.hpp"

namespace ate::engine {

namespace {

Error invalid(const std::string& field, const std::string& detail) {
  Problem problem;
  problem.field = field;
  problem.detail = detail;
  return core::to_error({problem});
}

Status check_actor(const v1alpha1::Actor& actor) {
  std::vector<Problem> problems = core::validate(actor);
  if (!problems.empty()) {
    return fail(core::to_error(std::move(problems)));
  }
  return {};
}

/// A fork has the template generation of its snapshot.
Status complete_fork(v1alpha1::Actor& actor, const std::string& atespace,
                     const SnapshotRows::Row& row) {
  const std::string& id = actor.spec().from_snapshot();
  if (row == nullptr || row->actor().atespace() != atespace) {
    return fail(
        invalid("spec.fromSnapshot", "there is no snapshot " + id + " in atespace " + atespace));
  }
  v1alpha1::TemplateRef& reference = *actor.mutable_spec()->mutable_template_();
  const v1alpha1::TemplateRef& saved = row->template_();
  if (!reference.name().empty() && reference.name() != saved.name()) {
    return fail(invalid("spec.template.name", "snapshot " + id + " is of ActorTemplate " +
                                                  saved.name() + "; leave the template out"));
  }
  if (reference.generation() != 0 && reference.generation() != saved.generation()) {
    return fail(invalid("spec.template.generation", "snapshot " + id + " is of generation " +
                                                        std::to_string(saved.generation()) +
                                                        "; leave the template out"));
  }
  reference = saved;
  return {};
}

/// The template that an actor names; the generation it leaves open is the current one.
Result<std::shared_ptr<const v1alpha1::ActorTemplate>> settle_generation(
    v1alpha1::Actor& actor, const std::string& atespace, const Templates& templates) {
  v1alpha1::TemplateRef& reference = *actor.mutable_spec()->mutable_template_();
  const auto blueprint =
      templates.find_template(atespace, reference.name(), reference.generation());
  if (blueprint == nullptr) {
    const std::string which = reference.generation() == 0
                                  ? std::string()
                                  : " with generation " + std::to_string(reference.generation());
    return fail(
        invalid(reference.generation() == 0 ? "spec.template.name" : "spec.template.generation",
                "there is no ActorTemplate " + reference.name() + which + " in atespace " +
                    atespace + "; GET /v1/files tells what is wrong in the object files"));
  }
  reference.set_generation(blueprint->metadata().generation());
  return blueprint;
}

/// Fills in what the request leaves open; the template must exist.
Status complete(v1alpha1::Actor& actor, const std::string& atespace, const Templates& templates,
                const SnapshotRows::Row& base) {
  v1alpha1::Metadata& metadata = *actor.mutable_metadata();
  if (!metadata.atespace().empty() && metadata.atespace() != atespace) {
    return fail(invalid("metadata.atespace", "is " + metadata.atespace() +
                                                 ", but the request goes to atespace " + atespace));
  }
  metadata.set_atespace(atespace);
  ATE_TRY(check_actor(actor));
  if (!actor.spec().from_snapshot().empty()) {
    ATE_TRY(complete_fork(actor, atespace, base));
  }
  ATE_ASSIGN(const std::shared_ptr<const v1alpha1::ActorTemplate> blueprint,
             settle_generation(actor, atespace, templates));
  if (actor.spec().restart_policy() == v1alpha1::Unset) {
    const v1alpha1::RestartPolicy policy = blueprint->spec().restart_policy();
    actor.mutable_spec()->set_restart_policy(policy == v1alpha1::Unset ? v1alpha1::Never : policy);
  }
  if (actor.spec().ttl().empty()) {
    actor.mutable_spec()->set_ttl(blueprint->spec().ttl());
  }
  return {};
}

std::shared_ptr<v1alpha1::ActorRecord> new_record(v1alpha1::Actor actor, std::int64_t version,
                                                  WallTime now) {
  auto record = std::make_shared<v1alpha1::ActorRecord>();
  v1alpha1::Metadata& metadata = *actor.mutable_metadata();
  metadata.set_uid(make_ulid(now));
  metadata.set_resource_version(std::to_string(version));
  metadata.set_generation(1);
  metadata.set_created_at(format_rfc3339(now));
  v1alpha1::ActorStatus& status = *actor.mutable_status();
  status.Clear();
  status.set_state(v1alpha1::ActorStatus::SUSPENDED);
  status.set_reason("new");
  status.set_since(metadata.created_at());
  *record->mutable_actor() = std::move(actor);
  record->set_next_serial(1);
  if (!record->actor().spec().from_snapshot().empty()) {
    // It begins with the volumes of its snapshot, also when its first start is cold.
    record->mutable_volumes()->set_restore(record->actor().spec().from_snapshot());
  }
  return record;
}

/// An operation that is over in the transaction that makes the change.
std::shared_ptr<v1alpha1::Operation> instant_operation(const std::string& verb,
                                                       const v1alpha1::ActorRef& actor,
                                                       const Caller& caller, WallTime now) {
  auto operation = std::make_shared<v1alpha1::Operation>();
  operation->set_id("op-" + make_ulid(now));
  operation->set_verb(verb);
  *operation->mutable_actor() = actor;
  operation->set_state(v1alpha1::Operation::DONE);
  operation->set_request_id(caller.request_id);
  operation->set_created_at(format_rfc3339(now));
  operation->set_finished_at(operation->created_at());
  operation->set_duration_ms(0);
  return operation;
}

const std::vector<std::string>& patchable() {
  static const std::vector<std::string> kPaths{"metadata.labels", "metadata.annotations",
                                               "spec.idle",       "spec.restartPolicy",
                                               "spec.ttl",        "spec.template.generation"};
  return kPaths;
}

}  // namespace

/// Null when there is none, or none any more in a moment.
SnapshotRows::Row Engine::State::forkable(const std::string& id) const {
  const SnapshotRows::Row row = snapshot_rows.find(id);
  if (row == nullptr || leaving.contains(id) || row->kind() == "golden") {
    return nullptr;
  }
  // A delete that could not be finished may have removed the files already.
  const EntryPtr owner = stands_alone(*row) ? nullptr : actors.find_uid(row->actor().uid());
  return owner != nullptr && owner->state() == core::State::Deleting ? nullptr : row;
}

async::Task<Result<std::shared_ptr<const v1alpha1::Actor>>> Engine::State::create(
    std::string atespace, std::string json, Caller caller) {
  const std::shared_ptr<State> self = shared_from_this();
  ATE_CO_TRY(open_for_verbs());
  v1alpha1::Actor actor;
  const Status read = codec::from_json(json, "Actor", actor);
  if (!read) {
    co_return fail(codec::with_findings(read.error(), core::validate(actor)));
  }
  if (atespace.empty()) {
    atespace = "default";
  }
  const std::string base = actor.spec().from_snapshot();
  ATE_CO_TRY(complete(actor, atespace, templates, forkable(base)));
  const std::pair<std::string, std::string> name(atespace, actor.metadata().name());
  if (creating.contains(name) || actors.find(ActorKey{name.first, name.second}) != nullptr) {
    co_return fail(Errc::AlreadyExists,
                   "actor " + name.second + " exists in atespace " + name.first);
  }
  creating.insert(name);
  const auto reserved = held.insert(base);
  const ScopeExit forget([this, &name, reserved]() {
    creating.erase(name);
    held.erase(reserved);
  });
  const std::shared_ptr<v1alpha1::ActorRecord> record =
      new_record(std::move(actor), journal.next_version(), clock.wall());
  const auto entry = std::make_shared<Entry>(record);
  const auto operation = instant_operation("create", entry->ref(), caller, clock.wall());
  record->mutable_actor()->mutable_status()->set_last_operation(operation->id());
  std::shared_ptr<v1alpha1::Event> event = journal.event("actor.created", entry->ref());
  event->set_to("SUSPENDED");
  event->set_reason("new");
  event->set_operation(operation->id());
  event->set_message(base.empty() ? "" : "fork of snapshot " + base);
  store::Batch batch;
  batch.put_actors.push_back(record);
  batch.put_operations.push_back(operation);
  batch.events.push_back(std::move(event));
  ATE_CO_TRY(co_await journal.commit(std::move(batch)));
  entry->set(record);
  actors.insert(entry);
  note_ttl(*record);
  ++ended_since_trim;
  log.info("actor created",
           {{"actor", entry->label()}, {"uid", entry->uid()}, {"request", caller.request_id}});
  co_return std::shared_ptr<const v1alpha1::Actor>(record, &record->actor());
}

/// Its next start is cold on the durable data: a memory of other images can't be restored.
Status Engine::State::move_generation(const EntryPtr& entry, v1alpha1::Actor& actor) const {
  const bool busy = entry->live != nullptr && entry->live->run != nullptr;
  if (entry->state() != core::State::Suspended || busy) {
    return fail(Error(Errc::StateConflict, "actor " + entry->label() +
                                               ": its template generation can be changed while "
                                               "it is SUSPENDED only")
                    .with_field("spec.template.generation"));
  }
  ATE_TRY(settle_generation(actor, entry->atespace(), templates));
  return {};
}

async::Task<Result<std::shared_ptr<const v1alpha1::Actor>>> Engine::State::patch(
    ActorKey key, std::string merge_patch, std::optional<std::string> if_match, Caller caller) {
  const std::shared_ptr<State> self = shared_from_this();
  ATE_CO_TRY(open_for_verbs());
  ATE_CO_ASSIGN(const EntryPtr entry, find(key));
  const std::shared_ptr<Live> live = this->live(entry);
  const core::Decision decision = core::decide(entry->facts(), core::Command::Patch);
  if (decision.step == core::Step::Refuse) {
    co_return fail(decision.code, "actor " + entry->label() + ": " + decision.message);
  }
  const async::Mutex::Lock lock = co_await live->write.lock();
  if (entry->removed) {
    co_return fail(Errc::NotFound, "actor " + entry->label() + " is gone");
  }
  auto record = std::make_shared<v1alpha1::ActorRecord>(*entry->record());
  v1alpha1::Actor& actor = *record->mutable_actor();
  const std::string etag = actor.metadata().resource_version();
  if (if_match && *if_match != etag) {
    co_return fail(
        Error(Errc::PreconditionFailed, "actor " + entry->label() + " has resourceVersion " + etag)
            .with("resourceVersion", etag));
  }
  const std::string before = codec::canonical_bytes(actor);
  const v1alpha1::TemplateRef blueprint = actor.spec().template_();
  ATE_CO_TRY(codec::merge_patch(merge_patch, patchable(), actor));
  if (actor.spec().restart_policy() == v1alpha1::Unset) {
    actor.mutable_spec()->set_restart_policy(v1alpha1::Never);
  }
  ATE_CO_TRY(check_actor(actor));
  if (actor.spec().template_().generation() != blueprint.generation()) {
    ATE_CO_TRY(move_generation(entry, actor));
  }
  if (codec::canonical_bytes(actor) == before) {
    co_return entry->actor();
  }
  const auto operation = instant_operation("patch", entry->ref(), caller, clock.wall());
  actor.mutable_metadata()->set_resource_version(std::to_string(journal.next_version()));
  actor.mutable_status()->set_last_operation(operation->id());
  std::shared_ptr<v1alpha1::Event> event = journal.event("actor.updated", entry->ref());
  event->set_operation(operation->id());
  store::Batch batch;
  batch.put_actors.push_back(record);
  batch.put_operations.push_back(operation);
  batch.events.push_back(std::move(event));
  ATE_CO_TRY(co_await journal.commit(std::move(batch)));
  swap_in(entry, record, Change{});
  co_return std::shared_ptr<const v1alpha1::Actor>(record, &record->actor());
}

}  // namespace ate::engine
