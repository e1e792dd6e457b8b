#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/engine/engine.hpp"
#include "ate/objects/catalog.hpp"

namespace ate::api {

/// One line of /readyz.
using Check = engine::Engine::Check;

enum class Verb : std::uint8_t { Resume, Pause, Suspend, Revert, Snapshot, Delete, DeleteForce };

/// What the routes need from the rest of the daemon; daemon/compose.cpp implements it with the
/// engine, the catalog and the store, unit tests with a fake. Values and errors as in
/// engine/engine.hpp and objects/catalog.hpp.
class Backend {
 public:
  Backend() = default;
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  Backend(Backend&&) = delete;
  Backend& operator=(Backend&&) = delete;

  // Node.
  [[nodiscard]] virtual std::vector<Check> checks() const = 0;
  /// "required" or "off"; shown by /readyz.
  [[nodiscard]] virtual std::string enforcement() const = 0;

  // Objects.
  using Template = std::shared_ptr<const v1alpha1::ActorTemplate>;
  using Pool = std::shared_ptr<const v1alpha1::WorkerPool>;
  using Config = std::shared_ptr<const v1alpha1::SandboxConfig>;
  [[nodiscard]] virtual std::vector<Template> templates(const std::string& atespace) const = 0;
  [[nodiscard]] virtual std::vector<Pool> pools() const = 0;
  [[nodiscard]] virtual std::vector<Config> sandbox_configs() const = 0;
  [[nodiscard]] virtual Template find_template(const std::string& atespace,
                                               const std::string& name) const = 0;
  [[nodiscard]] virtual Pool find_pool(const std::string& name) const = 0;
  [[nodiscard]] virtual Config find_sandbox_config(const std::string& name) const = 0;
  [[nodiscard]] virtual async::Task<Result<objects::Catalog::Put>> put_object(
      objects::Kind kind, std::string atespace, std::string name, std::string json,
      std::optional<std::string> if_match) = 0;
  [[nodiscard]] virtual async::Task<Status> remove_object(objects::Kind kind, std::string atespace,
                                                          std::string name,
                                                          std::optional<std::string> if_match) = 0;
  [[nodiscard]] virtual std::vector<objects::Catalog::FileStatus> files() const = 0;

  // Actors.
  using Actor = std::shared_ptr<const v1alpha1::Actor>;
  [[nodiscard]] virtual async::Task<Result<Actor>> create(std::string atespace, std::string json,
                                                          engine::Caller caller) = 0;
  [[nodiscard]] virtual Result<Actor> actor(const engine::ActorKey& key) const = 0;
  [[nodiscard]] virtual Result<engine::ActorPage> actors(const engine::ActorQuery& query) const = 0;
  [[nodiscard]] virtual async::Task<Result<Actor>> patch(engine::ActorKey key, std::string patch,
                                                         std::optional<std::string> if_match,
                                                         engine::Caller caller) = 0;
  [[nodiscard]] virtual async::Task<Result<engine::VerbResult>> run(Verb verb, engine::ActorKey key,
                                                                    engine::VerbOptions options,
                                                                    engine::Caller caller) = 0;
  [[nodiscard]] virtual async::Task<Status> signal(engine::ActorKey key, int signo,
                                                   std::string container,
                                                   engine::Caller caller) = 0;
  [[nodiscard]] virtual async::Task<Result<core::ExecOutput>> exec(engine::ActorKey key,
                                                                   core::ExecPlan plan) = 0;
  [[nodiscard]] virtual async::Task<Result<engine::Connected>> connect(engine::ActorKey key,
                                                                       std::uint16_t port) = 0;
  virtual void touch(const std::string& uid) = 0;
  /// While it lives the actor is not idle.
  [[nodiscard]] virtual std::shared_ptr<void> hold(const std::string& uid) = 0;
  /// It may be idle all the same: counts for the grace of a suspend only.
  [[nodiscard]] virtual std::shared_ptr<void> hold_tunnel(const std::string& uid) = 0;
  /// Where the actor's stdio files are.
  [[nodiscard]] virtual std::string log_directory(const std::string& uid) const = 0;

  // Snapshots and workers.
  using Snapshot = std::shared_ptr<const v1alpha1::Snapshot>;
  using Worker = std::shared_ptr<const v1alpha1::Worker>;
  [[nodiscard]] virtual std::vector<Snapshot> snapshots(
      const std::optional<engine::ActorKey>& actor) const = 0;
  [[nodiscard]] virtual Result<Snapshot> snapshot(const std::string& id) const = 0;
  [[nodiscard]] virtual async::Task<Status> verify_snapshot(std::string id) = 0;
  [[nodiscard]] virtual async::Task<Status> remove_snapshot(std::string id,
                                                            engine::Caller caller) = 0;
  [[nodiscard]] virtual std::vector<Worker> workers() const = 0;
  [[nodiscard]] virtual Result<Worker> worker(const std::string& name) const = 0;
  /// With `blueprint` also what an actor of it would get where.
  [[nodiscard]] virtual v1alpha1::Capacity capacity(
      const v1alpha1::ActorTemplate* blueprint) const = 0;

  [[nodiscard]] virtual async::Task<Result<Snapshot>> patch_snapshot(std::string id,
                                                                     std::string patch,
                                                                     engine::Caller caller) = 0;

  // Storage.
  struct StoragePart {
    std::string name;  // images, snapshots, assets, actors, logs, store
    std::int64_t count = 0;
    std::int64_t logical_bytes = 0;  // sizes of the files
    std::int64_t allocated_bytes =
        0;  // blocks that they take; what holes and sharing save is not in it
  };

  struct StorageItem {
    std::string kind;  // image | asset | snapshot
    std::string id;
    std::int64_t bytes = 0;
    std::string reason;
  };

  struct StorageReport {
    std::vector<StoragePart> parts;
    std::int64_t free_bytes = 0;
    std::int64_t reserve_bytes = 0;
    std::int64_t budget_bytes = 0;  // 0 = none
    std::int64_t used_bytes = 0;    // of what the budget is about
    std::vector<StorageItem> collectable;
    std::string blocked;  // why some are not looked at now
  };

  struct Collected {
    std::vector<StorageItem> items;
    std::int64_t bytes = 0;
    std::string blocked;
  };

  [[nodiscard]] virtual async::Task<Result<StorageReport>> storage() = 0;
  [[nodiscard]] virtual async::Task<Result<Collected>> collect(bool dry_run) = 0;

  // Journal.
  using Operation = std::shared_ptr<const v1alpha1::Operation>;
  using Event = std::shared_ptr<const v1alpha1::Event>;
  /// Newest first, older than `after` ("" = from the newest).
  [[nodiscard]] virtual async::Task<Result<std::vector<Operation>>> operations(
      std::string after, std::size_t limit, std::optional<std::string> actor_uid,
      std::optional<std::string> state) = 0;
  /// The operation once it has ended, or as it is when `wait` has passed.
  [[nodiscard]] virtual async::Task<Result<Operation>> operation(
      std::string id, std::chrono::milliseconds wait) = 0;
  /// Ids greater than `since`, oldest first.
  [[nodiscard]] virtual async::Task<Result<std::vector<Event>>> events(std::int64_t since,
                                                                       std::size_t limit) = 0;
  [[nodiscard]] virtual async::Task<Result<std::int64_t>> first_event_id() = 0;
  /// The newest event of an actor; those of objects may be newer.
  [[nodiscard]] virtual std::int64_t last_event() const = 0;
  /// Completes when an event newer than `seen` exists or `limit` has passed.
  [[nodiscard]] virtual async::Task<std::int64_t> wait_event(std::int64_t seen,
                                                             std::chrono::milliseconds limit) = 0;

  // Requests with an Idempotency-Key.
  struct KeptRequest {
    std::string key;
    std::int64_t created_ms = 0;
    std::string record;
  };

  [[nodiscard]] virtual async::Task<Result<std::optional<KeptRequest>>> kept_request(
      std::string key) = 0;
  /// Durable when it returns.
  [[nodiscard]] virtual async::Task<Status> keep_request(KeptRequest request) = 0;
  [[nodiscard]] virtual async::Task<Status> drop_request(std::string key) = 0;
  /// The operation that a request began at `since_ms` or later; null when there is none.
  [[nodiscard]] virtual async::Task<Result<Operation>> operation_of(std::string request_id,
                                                                    std::int64_t since_ms) = 0;
  /// SHA-256, hexadecimal.
  [[nodiscard]] virtual std::string digest(const std::string& text) const = 0;
};

}  // namespace ate::api
