#pragma once

#include <functional>

#include "ate/api/backend.hpp"
#include "ate/core/paths.hpp"
#include "ate/store/store.hpp"

namespace ate::daemon {

/// api::Backend over the real engine, catalog and store.
class ServiceBackend final : public api::Backend {
 public:
  struct Node {
    std::string enforcement;                                 // required | off
    std::function<std::vector<api::Check>()> checks;         // beside the engine's
    std::function<void(v1alpha1::SandboxConfig&)> annotate;  // fills in the self-test's state
    std::function<async::Task<Result<api::Backend::StorageReport>>()> storage;
    std::function<async::Task<Result<api::Backend::Collected>>(bool dry_run)> collect;
  };

  ServiceBackend(engine::Engine& engine, objects::Catalog& catalog, store::Store& store,
                 const core::Paths& paths, Node node);

  [[nodiscard]] std::vector<api::Check> checks() const override;
  [[nodiscard]] std::string enforcement() const override;

  [[nodiscard]] std::vector<Template> templates(const std::string& atespace) const override;
  [[nodiscard]] std::vector<Pool> pools() const override;
  [[nodiscard]] std::vector<Config> sandbox_configs() const override;
  [[nodiscard]] Template find_template(const std::string& atespace,
                                       const std::string& name) const override;
  [[nodiscard]] Pool find_pool(const std::string& name) const override;
  [[nodiscard]] Config find_sandbox_config(const std::string& name) const override;
  [[nodiscard]] async::Task<Result<objects::Catalog::Put>> put_object(
      objects::Kind kind, std::string atespace, std::string name, std::string json,
      std::optional<std::string> if_match) override;
  [[nodiscard]] async::Task<Status> remove_object(objects::Kind kind, std::string atespace,
                                                  std::string name,
                                                  std::optional<std::string> if_match) override;
  [[nodiscard]] std::vector<objects::Catalog::FileStatus> files() const override;

  [[nodiscard]] async::Task<Result<Actor>> create(std::string atespace, std::string json,
                                                  engine::Caller caller) override;
  [[nodiscard]] Result<Actor> actor(const engine::ActorKey& key) const override;
  [[nodiscard]] Result<engine::ActorPage> actors(const engine::ActorQuery& query) const override;
  [[nodiscard]] async::Task<Result<Actor>> patch(engine::ActorKey key, std::string patch,
                                                 std::optional<std::string> if_match,
                                                 engine::Caller caller) override;
  [[nodiscard]] async::Task<Result<engine::VerbResult>> run(api::Verb verb, engine::ActorKey key,
                                                            engine::VerbOptions options,
                                                            engine::Caller caller) override;
  [[nodiscard]] async::Task<Status> signal(engine::ActorKey key, int signo, std::string container,
                                           engine::Caller caller) override;
  [[nodiscard]] async::Task<Result<core::ExecOutput>> exec(engine::ActorKey key,
                                                           core::ExecPlan plan) override;
  [[nodiscard]] async::Task<Result<engine::Connected>> connect(engine::ActorKey key,
                                                               std::uint16_t port) override;
  void touch(const std::string& uid) override;
  [[nodiscard]] std::shared_ptr<void> hold(const std::string& uid) override;
  [[nodiscard]] std::shared_ptr<void> hold_tunnel(const std::string& uid) override;
  [[nodiscard]] std::string log_directory(const std::string& uid) const override;

  [[nodiscard]] std::vector<Snapshot> snapshots(
      const std::optional<engine::ActorKey>& actor) const override;
  [[nodiscard]] Result<Snapshot> snapshot(const std::string& id) const override;
  [[nodiscard]] async::Task<Status> verify_snapshot(std::string id) override;
  [[nodiscard]] async::Task<Status> remove_snapshot(std::string id, engine::Caller caller) override;
  [[nodiscard]] async::Task<Result<Snapshot>> patch_snapshot(std::string id, std::string patch,
                                                             engine::Caller caller) override;
  [[nodiscard]] async::Task<Result<StorageReport>> storage() override;
  [[nodiscard]] async::Task<Result<Collected>> collect(bool dry_run) override;
  [[nodiscard]] std::vector<Worker> workers() const override;
  [[nodiscard]] v1alpha1::Capacity capacity(
      const v1alpha1::ActorTemplate* blueprint) const override;
  [[nodiscard]] Result<Worker> worker(const std::string& name) const override;

  [[nodiscard]] async::Task<Result<std::vector<Operation>>> operations(
      std::string after, std::size_t limit, std::optional<std::string> actor_uid,
      std::optional<std::string> state) override;
  [[nodiscard]] async::Task<Result<Operation>> operation(std::string id,
                                                         std::chrono::milliseconds wait) override;
  [[nodiscard]] async::Task<Result<std::vector<Event>>> events(std::int64_t since,
                                                               std::size_t limit) override;
  [[nodiscard]] async::Task<Result<std::int64_t>> first_event_id() override;
  [[nodiscard]] std::int64_t last_event() const override;
  [[nodiscard]] async::Task<std::int64_t> wait_event(std::int64_t seen,
                                                     std::chrono::milliseconds limit) override;

  [[nodiscard]] async::Task<Result<std::optional<KeptRequest>>> kept_request(
      std::string key) override;
  [[nodiscard]] async::Task<Status> keep_request(KeptRequest request) override;
  [[nodiscard]] async::Task<Status> drop_request(std::string key) override;
  [[nodiscard]] async::Task<Result<Operation>> operation_of(std::string request_id,
                                                            std::int64_t since_ms) override;
  [[nodiscard]] std::string digest(const std::string& text) const override;

 private:
  [[nodiscard]] Template with_golden(Template source) const;
  [[nodiscard]] Config annotated(Config config) const;
  [[nodiscard]] Pool annotated(Pool pool) const;

  engine::Engine& engine_;
  objects::Catalog& catalog_;
  store::Store& store_;
  const core::Paths& paths_;
  Node node_;
};

}  // namespace ate::daemon
