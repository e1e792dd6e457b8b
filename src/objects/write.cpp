// Changes through the API.
#include <google/protobuf/message.h>

#include "ate/codec/codec.hpp"
#include "ate/objects/check.hpp"
#include "ate/util/ids.hpp"
#include "ate/util/scope_exit.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"
#include "objects/state.hpp"

namespace ate::objects {
namespace {

/// The name in the path rules; the body may repeat it.
void check_name(const std::string& path, const std::string& wanted, std::string* given,
                std::vector<Problem>& problems) {
  if (given->empty()) {
    *given = wanted;
  } else if (*given != wanted) {
    Problem problem;
    problem.field = path;
    problem.detail = "does not match the path of the request";
    problems.push_back(std::move(problem));
  }
}

void append(std::vector<Problem>& to, std::vector<Problem> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

std::string_view event_type(Change::What what) {
  switch (what) {
    case Change::What::Created:
      return "object.created";
    case Change::What::Updated:
      return "object.updated";
    case Change::What::Removed:
      return "object.deleted";
  }
  return "";
}

Catalog::Put as_put(const ObjectPtr& object, bool created) {
  Catalog::Put put;
  put.created = created;
  put.as_template = std::dynamic_pointer_cast<const v1alpha1::ActorTemplate>(object);
  put.as_pool = std::dynamic_pointer_cast<const v1alpha1::WorkerPool>(object);
  put.as_sandbox_config = std::dynamic_pointer_cast<const v1alpha1::SandboxConfig>(object);
  return put;
}

/// Pools that name the config.
std::vector<std::string> pools_of(const Book& book, const Key& key) {
  std::vector<std::string> out;
  for (const ObjectPtr& object : book.list(Kind::WorkerPool, "")) {
    const auto& pool = dynamic_cast<const v1alpha1::WorkerPool&>(*object);
    if (pool.spec().sandbox_config() == key.name) {
      out.push_back("/v1/pools/" + pool.metadata().name());
    }
  }
  return out;
}

}  // namespace

Stamp Catalog::State::make_stamp() const {
  Stamp stamp;
  stamp.uid = make_ulid(clock.wall());
  stamp.created_at = format_rfc3339(clock.wall());
  stamp.version = next_version ? next_version() : 1;
  return stamp;
}

void Catalog::State::add_to(store::Batch& batch, const Change& change) const {
  batch.put_objects.insert(batch.put_objects.end(), change.put_rows.begin(), change.put_rows.end());
  batch.delete_objects.insert(batch.delete_objects.end(), change.delete_rows.begin(),
                              change.delete_rows.end());
  batch.put_meta.insert(batch.put_meta.end(), change.meta.begin(), change.meta.end());
  auto event = std::make_shared<v1alpha1::Event>();
  event->set_time(format_rfc3339(clock.wall()));
  event->set_type(std::string(event_type(change.what)));
  event->set_message(text_of(change.key) + " generation " + std::to_string(change.generation) +
                     (change.source == kApiSource ? " through the API" : " from " + change.source));
  batch.events.push_back(std::move(event));
}

void Catalog::State::apply(const Change& change) {
  book.apply(change, clock.steady());
  if (change.what == Change::What::Removed) {
    settled.erase(change.key);
  }
  const std::string verb = change.what == Change::What::Removed ? " removed" : " in force";
  on_log(false, text_of(change.key) + " generation " + std::to_string(change.generation) + verb +
                    (change.source == kApiSource ? "" : " (" + change.source + ")"));
  on_change(change.key.kind, change.key.atespace, change.key.name);
}

Status Catalog::State::check_write(const Key& key,
                                   const std::optional<std::string>& if_match) const {
  const std::string owner = book.source(key);
  if (!owner.empty() && owner != kApiSource) {
    return fail(Error(Errc::FileOwned, text_of(key) + " comes from " + owner + "; change it there")
                    .with("file", owner));
  }
  if (!if_match) {
    return {};
  }
  const ObjectPtr now = book.current(key);
  if (now == nullptr) {
    return fail(Errc::PreconditionFailed, text_of(key) + " does not exist");
  }
  const std::string& version = metadata_of(*now).resource_version();
  if (*if_match != "*" && *if_match != version && *if_match != "\"" + version + "\"") {
    return fail(Errc::PreconditionFailed,
                text_of(key) + " is at resource version " + version + " by now");
  }
  return {};
}

std::string Catalog::State::other_default(const Key& key, const Message& object) const {
  std::string sandbox_class;
  if (!is_default_config(object, &sandbox_class)) {
    return {};
  }
  for (const Key& other : book.keys()) {
    std::string other_class;
    if (other != key && other.kind == Kind::SandboxConfig &&
        is_default_config(*book.current(other), &other_class) && other_class == sandbox_class) {
      return other.name;
    }
  }
  return {};
}

async::Task<Result<Catalog::Put>> Catalog::State::put(Kind kind, std::string atespace,
                                                      std::string name, std::string json,
                                                      std::optional<std::string> if_match) {
  const std::shared_ptr<Message> object = make_object(kind);
  const Status read = codec::from_json(json, objects::name(kind), *object);
  std::vector<Problem> problems;
  check_name("metadata.name", name, metadata_of(*object).mutable_name(), problems);
  if (kind == Kind::ActorTemplate) {
    check_name("metadata.atespace", atespace, metadata_of(*object).mutable_atespace(), problems);
  }
  append(problems, check_object(*object));
  if (!read) {
    co_return fail(codec::with_findings(read.error(), std::move(problems)));
  }
  if (!problems.empty()) {
    co_return fail(codec::problems_error(std::move(problems)));
  }
  fill_defaults(*object);
  const Key key = key_of(kind, *object);
  // Before the work, and again when nothing can come in between.
  ATE_CO_TRY(check_write(key, if_match));
  Resolved resolved;
  ++arriving;
  const ScopeExit arrived([this] { --arriving; });
  problems = co_await pin(object, resolved);
  if (!problems.empty()) {
    co_return fail(codec::problems_error(std::move(problems)));
  }
  async::Mutex::Lock lock = co_await writes.lock();
  ATE_CO_TRY(check_write(key, if_match));
  const std::string other = other_default(key, *object);
  if (!other.empty()) {
    Problem problem;
    problem.field = "spec.default";
    problem.detail = "SandboxConfig " + other + " is the default of this class already";
    co_return fail(codec::problems_error({std::move(problem)}));
  }
  const auto stamp = [this] { return make_stamp(); };
  std::optional<Change> change = book.plan_put(key, *object, std::string(kApiSource), stamp);
  if (!change) {
    co_return as_put(book.current(key), false);
  }
  store::Batch batch;
  add_to(batch, *change);
  Status stored = co_await store.commit(std::move(batch));
  ATE_CO_TRY(std::move(stored));
  apply(*change);
  start_unpacks();
  co_return as_put(change->object, change->what == Change::What::Created);
}

async::Task<Status> Catalog::State::remove(Kind kind, std::string atespace, std::string name,
                                           std::optional<std::string> if_match) {
  const Key key{kind, kind == Kind::ActorTemplate ? atespace : std::string(), name};
  async::Mutex::Lock lock = co_await writes.lock();
  if (book.current(key) == nullptr) {
    co_return fail(Errc::NotFound, text_of(key) + " does not exist");
  }
  ATE_CO_TRY(check_write(key, if_match));
  if (kind == Kind::SandboxConfig) {
    std::vector<std::string> pools = pools_of(book, key);
    if (!pools.empty()) {
      co_return fail(
          Error(Errc::InUse, text_of(key) + " is named by pools").with("usedBy", std::move(pools)));
    }
  }
  const Change change = book.plan_remove(key);
  store::Batch batch;
  add_to(batch, change);
  Status stored = co_await store.commit(std::move(batch));
  ATE_CO_TRY(std::move(stored));
  apply(change);
  co_return Status{};
}

}  // namespace ate::objects
