#include "daemon/backend.hpp"

#include <utility>

#include "ate/artifacts/artifacts.hpp"
#include "ate/util/ids.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::daemon {

ServiceBackend::ServiceBackend(engine::Engine& engine, objects::Catalog& catalog,
                               store::Store& store, const core::Paths& paths, Node node)
    : engine_(engine), catalog_(catalog), store_(store), paths_(paths), node_(std::move(node)) {}

std::vector<api::Check> ServiceBackend::checks() const {
  std::vector<api::Check> out = node_.checks();
  for (api::Check& check : engine_.checks()) {
    out.push_back(std::move(check));
  }
  return out;
}

std::string ServiceBackend::enforcement() const {
  return node_.enforcement;
}

std::vector<ServiceBackend::Template> ServiceBackend::templates(const std::string& atespace) const {
  std::vector<Template> out = catalog_.templates(atespace);
  for (Template& source : out) {
    source = with_golden(std::move(source));
  }
  return out;
}

ServiceBackend::Template ServiceBackend::with_golden(Template source) const {
  const std::optional<v1alpha1::GoldenStatus> golden =
      source == nullptr ? std::nullopt : engine_.golden_status(*source);
  if (!golden) {
    return source;
  }
  auto copy = std::make_shared<v1alpha1::ActorTemplate>(*source);
  *copy->mutable_status()->mutable_golden() = *golden;
  return copy;
}

std::vector<ServiceBackend::Pool> ServiceBackend::pools() const {
  std::vector<Pool> out = catalog_.pools();
  for (Pool& pool : out) {
    pool = annotated(std::move(pool));
  }
  return out;
}

ServiceBackend::Pool ServiceBackend::annotated(Pool pool) const {
  if (pool == nullptr) {
    return pool;
  }
  auto copy = std::make_shared<v1alpha1::WorkerPool>(*pool);
  engine_.describe(*copy);
  return copy;
}

ServiceBackend::Config ServiceBackend::annotated(Config config) const {
  if (config == nullptr) {
    return config;
  }
  auto copy = std::make_shared<v1alpha1::SandboxConfig>(*config);
  node_.annotate(*copy);
  return copy;
}

std::vector<ServiceBackend::Config> ServiceBackend::sandbox_configs() const {
  std::vector<Config> out = catalog_.sandbox_configs();
  for (Config& config : out) {
    config = annotated(std::move(config));
  }
  return out;
}

ServiceBackend::Template ServiceBackend::find_template(const std::string& atespace,
                                                       const std::string& name) const {
  return with_golden(catalog_.find_template(atespace, name, 0));
}

ServiceBackend::Pool ServiceBackend::find_pool(const std::string& name) const {
  return annotated(catalog_.find_pool(name));
}

ServiceBackend::Config ServiceBackend::find_sandbox_config(const std::string& name) const {
  return annotated(catalog_.find_sandbox_config(name));
}

async::Task<Result<objects::Catalog::Put>> ServiceBackend::put_object(
    objects::Kind kind, std::string atespace, std::string name, std::string json,
    std::optional<std::string> if_match) {
  auto put = co_await catalog_.put(kind, std::move(atespace), std::move(name), std::move(json),
                                   std::move(if_match));
  if (put) {
    put->as_pool = annotated(std::move(put->as_pool));
    put->as_sandbox_config = annotated(std::move(put->as_sandbox_config));
  }
  co_return put;
}

async::Task<Status> ServiceBackend::remove_object(objects::Kind kind, std::string atespace,
                                                  std::string name,
                                                  std::optional<std::string> if_match) {
  return catalog_.remove(kind, std::move(atespace), std::move(name), std::move(if_match));
}

std::vector<objects::Catalog::FileStatus> ServiceBackend::files() const {
  return catalog_.files();
}

async::Task<Result<ServiceBackend::Actor>> ServiceBackend::create(std::string atespace,
                                                                  std::string json,
                                                                  engine::Caller caller) {
  return engine_.create(std::move(atespace), std::move(json), std::move(caller));
}

Result<ServiceBackend::Actor> ServiceBackend::actor(const engine::ActorKey& key) const {
  return engine_.get(key);
}

Result<engine::ActorPage> ServiceBackend::actors(const engine::ActorQuery& query) const {
  return engine_.list(query);
}

async::Task<Result<ServiceBackend::Actor>> ServiceBackend::patch(
    engine::ActorKey key, std::string patch, std::optional<std::string> if_match,
    engine::Caller caller) {
  return engine_.patch(std::move(key), std::move(patch), std::move(if_match), std::move(caller));
}

async::Task<Result<engine::VerbResult>> ServiceBackend::run(api::Verb verb, engine::ActorKey key,
                                                            engine::VerbOptions options,
                                                            engine::Caller caller) {
  switch (verb) {
    case api::Verb::Resume:
      return engine_.resume(std::move(key), std::move(options), std::move(caller));
    case api::Verb::Pause:
      return engine_.pause(std::move(key), std::move(options), std::move(caller));
    case api::Verb::Suspend:
      return engine_.suspend(std::move(key), std::move(options), std::move(caller));
    case api::Verb::Revert:
      return engine_.revert(std::move(key), std::move(options), std::move(caller));
    case api::Verb::Snapshot:
      return engine_.make_snapshot(std::move(key), std::move(options), std::move(caller));
    case api::Verb::Delete:
    case api::Verb::DeleteForce:
      break;
  }
  return engine_.remove(std::move(key), verb == api::Verb::DeleteForce, std::move(options),
                        std::move(caller));
}

async::Task<Status> ServiceBackend::signal(engine::ActorKey key, int signo, std::string container,
                                           engine::Caller caller) {
  return engine_.signal(std::move(key), signo, std::move(container), std::move(caller));
}

async::Task<Result<core::ExecOutput>> ServiceBackend::exec(engine::ActorKey key,
                                                           core::ExecPlan plan) {
  return engine_.exec(std::move(key), std::move(plan));
}

async::Task<Result<engine::Connected>> ServiceBackend::connect(engine::ActorKey key,
                                                               std::uint16_t port) {
  return engine_.connect(std::move(key), port);
}

void ServiceBackend::touch(const std::string& uid) {
  engine_.touch(uid);
}

std::shared_ptr<void> ServiceBackend::hold_tunnel(const std::string& uid) {
  return engine_.hold_tunnel(uid);
}

std::shared_ptr<void> ServiceBackend::hold(const std::string& uid) {
  return engine_.hold(uid);
}

std::string ServiceBackend::log_directory(const std::string& uid) const {
  return paths_.actor_logs(uid);
}

std::vector<ServiceBackend::Snapshot> ServiceBackend::snapshots(
    const std::optional<engine::ActorKey>& actor) const {
  return engine_.snapshots(actor);
}

Result<ServiceBackend::Snapshot> ServiceBackend::snapshot(const std::string& id) const {
  return engine_.snapshot(id);
}

async::Task<Status> ServiceBackend::verify_snapshot(std::string id) {
  return engine_.verify_snapshot(std::move(id));
}

async::Task<Status> ServiceBackend::remove_snapshot(std::string id, engine::Caller caller) {
  return engine_.remove_snapshot(std::move(id), std::move(caller));
}

async::Task<Result<ServiceBackend::Snapshot>> ServiceBackend::patch_snapshot(
    std::string id, std::string patch, engine::Caller caller) {
  return engine_.patch_snapshot(std::move(id), std::move(patch), std::move(caller));
}

async::Task<Result<ServiceBackend::StorageReport>> ServiceBackend::storage() {
  return node_.storage();
}

async::Task<Result<ServiceBackend::Collected>> ServiceBackend::collect(bool dry_run) {
  return node_.collect(dry_run);
}

std::vector<ServiceBackend::Worker> ServiceBackend::workers() const {
  return engine_.workers();
}

v1alpha1::Capacity ServiceBackend::capacity(const v1alpha1::ActorTemplate* blueprint) const {
  return engine_.capacity(blueprint);
}

Result<ServiceBackend::Worker> ServiceBackend::worker(const std::string& name) const {
  return engine_.worker(name);
}

async::Task<Result<std::vector<ServiceBackend::Operation>>> ServiceBackend::operations(
    std::string after, std::size_t limit, std::optional<std::string> actor_uid,
    std::optional<std::string> state) {
  store::OperationQuery query;
  query.after = std::move(after);
  query.limit = limit;
  query.actor_uid = std::move(actor_uid);
  query.state = std::move(state);
  auto found = co_await store_.operations(std::move(query));
  if (!found) {
    co_return fail(std::move(found).error());
  }
  co_return std::vector<Operation>(found->begin(), found->end());
}

async::Task<Result<ServiceBackend::Operation>> ServiceBackend::operation(
    std::string id, std::chrono::milliseconds wait) {
  if (wait.count() == 0) {
    return engine_.operation(std::move(id));
  }
  return engine_.wait_operation(std::move(id), wait);
}

async::Task<Result<std::vector<ServiceBackend::Event>>> ServiceBackend::events(std::int64_t since,
                                                                               std::size_t limit) {
  store::EventQuery query;
  query.since = since;
  query.limit = limit;
  auto found = co_await store_.events(std::move(query));
  if (!found) {
    co_return fail(std::move(found).error());
  }
  co_return std::vector<Event>(found->begin(), found->end());
}

async::Task<Result<std::int64_t>> ServiceBackend::first_event_id() {
  return store_.first_event_id();
}

std::int64_t ServiceBackend::last_event() const {
  return engine_.last_event();
}

async::Task<std::int64_t> ServiceBackend::wait_event(std::int64_t seen,
                                                     std::chrono::milliseconds limit) {
  return engine_.wait_event(seen, limit);
}

async::Task<Result<std::optional<ServiceBackend::KeptRequest>>> ServiceBackend::kept_request(
    std::string key) {
  ATE_CO_ASSIGN(std::optional<store::KeptRequest> kept,
                co_await store_.kept_request(std::move(key)));
  if (!kept) {
    co_return std::optional<KeptRequest>();
  }
  co_return KeptRequest{std::move(kept->key), kept->created_ms, std::move(kept->record)};
}

async::Task<Status> ServiceBackend::keep_request(KeptRequest request) {
  store::Batch batch;
  batch.put_requests.push_back(
      {std::move(request.key), request.created_ms, std::move(request.record)});
  return store_.commit(std::move(batch));
}

async::Task<Status> ServiceBackend::drop_request(std::string key) {
  store::Batch batch;
  batch.delete_requests.push_back(std::move(key));
  return store_.commit(std::move(batch));
}

async::Task<Result<ServiceBackend::Operation>> ServiceBackend::operation_of(std::string request_id,
                                                                            std::int64_t since_ms) {
  const WallTime since{std::chrono::milliseconds(since_ms)};
  auto found = co_await store_.operation_of(std::move(request_id), "op-" + ulid_floor(since));
  if (!found) {
    co_return fail(std::move(found).error());
  }
  co_return Operation(std::move(*found));
}

std::string ServiceBackend::digest(const std::string& text) const {
  return artifacts::sha256_text(text);
}

}  // namespace ate::daemon
