#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ate/async/task.hpp"

namespace ate::v1alpha1 {
class ActorRecord;
class Operation;
class Event;
class Snapshot;
}  // namespace ate::v1alpha1

namespace ate::store {

/// A stored object of the catalog (template generation, pool, sandbox config) as deterministic
/// bytes.
struct ObjectRow {
  std::string kind;      // ActorTemplate | WorkerPool | SandboxConfig
  std::string atespace;  // "" for node-global kinds
  std::string name;
  std::int64_t generation = 0;
  std::string digest;   // of the canonical spec
  std::string source;   // "api" or the path of the owning file
  bool hidden = false;  // deleted, kept because something names it
  std::string bytes;    // serialized message, status cleared
};

/// What became of a request with an Idempotency-Key, by the key. `record` is the caller's.
struct KeptRequest {
  std::string key;
  std::int64_t created_ms = 0;  // wall clock
  std::string record;
};

/// One transaction: state, assignment, operation and event change together or not at all
/// (design.md section 7). Messages are copied in; pointers are never null. What is deleted goes
/// before what is put, so that a batch may give a freed name away again.
struct Batch {
  std::vector<std::shared_ptr<const v1alpha1::ActorRecord>> put_actors;
  std::vector<std::string> delete_actors;  // uids
  std::vector<std::shared_ptr<const v1alpha1::Operation>> put_operations;
  std::vector<std::shared_ptr<v1alpha1::Event>> events;  // id is assigned by commit and filled in
  std::vector<std::shared_ptr<const v1alpha1::Snapshot>> put_snapshots;
  std::vector<std::string> delete_snapshots;  // ids
  std::vector<ObjectRow> put_objects;
  std::vector<ObjectRow> delete_objects;  // by kind, atespace, name, generation (0 = all)
  std::vector<std::pair<std::string, std::string>> put_meta;
  std::vector<KeptRequest> put_requests;
  std::vector<std::string> delete_requests;  // keys
};

struct Loaded {
  std::vector<std::shared_ptr<v1alpha1::ActorRecord>> actors;
  std::vector<std::shared_ptr<v1alpha1::Snapshot>> snapshots;
  std::vector<ObjectRow> objects;
  std::vector<std::shared_ptr<v1alpha1::Operation>> running_operations;
  std::vector<std::pair<std::string, std::string>> meta;
  std::int64_t last_event_id = 0;
  std::int64_t last_resource_version = 0;  // highest in any row
};

struct OperationQuery {
  std::string after;  // page token: operations older than this id; newest first
  std::size_t limit = 100;
  std::optional<std::string> actor_uid;
  std::optional<std::string> state;
};

struct EventQuery {
  std::int64_t since = 0;  // ids greater than this, oldest first
  std::size_t limit = 100;
  std::optional<std::string> actor_uid;
};

/// How much history is kept: what is older than its time goes, and of the rest the oldest beyond
/// the count. What still runs is never touched.
struct Retention {
  std::size_t operations = 10'000;
  std::size_t events = 100'000;
  std::size_t requests = 10'000;
  std::int64_t request_bytes = std::int64_t{64} << 20;  // of all their records
  // Wall clock: what was made before goes; 0 = no age is too old.
  std::int64_t operations_since_ms = 0;
  std::int64_t events_since_ms = 0;
  std::int64_t requests_since_ms = 0;
};

/// What engine and objects see of persistence; tests have a fake with scripted failures.
class Store {
 public:
  virtual ~Store() = default;
  /// Everything that is kept in memory. Once, at start; blocking.
  [[nodiscard]] virtual Result<Loaded> load() = 0;
  /// Durable when it returns (WAL, synchronous=FULL). Batches that arrive while one is written
  /// share the next transaction (group commit); they keep their order. DiskFull, Unavailable (a
  /// foreign process held the write lock for 5 s), Internal: nothing of the batch happened. After
  /// an I/O error every later commit fails: what the kernel could not write it forgets, so a
  /// success would be a lie. A cancelled wait does not take the batch back.
  [[nodiscard]] virtual async::Task<Status> commit(Batch batch) = 0;
  [[nodiscard]] virtual async::Task<Result<std::vector<std::shared_ptr<v1alpha1::Operation>>>>
  operations(OperationQuery query) = 0;
  [[nodiscard]] virtual async::Task<Result<std::shared_ptr<v1alpha1::Operation>>> operation(
      std::string id) = 0;
  [[nodiscard]] virtual async::Task<Result<std::vector<std::shared_ptr<v1alpha1::Event>>>> events(
      EventQuery query) = 0;
  /// First event id that is still kept (for `resync`).
  [[nodiscard]] virtual async::Task<Result<std::int64_t>> first_event_id() = 0;
  /// The request of that key; nullopt when none is kept.
  [[nodiscard]] virtual async::Task<Result<std::optional<KeptRequest>>> kept_request(
      std::string key) = 0;
  /// The operation that a request began; null when there is none. `not_before` bounds the search:
  /// an operation id, older ones are not looked at.
  [[nodiscard]] virtual async::Task<Result<std::shared_ptr<v1alpha1::Operation>>> operation_of(
      std::string request_id, std::string not_before) = 0;
  /// Deletes what `keep` lets go of; in short transactions.
  [[nodiscard]] virtual async::Task<Status> trim(Retention keep) = 0;
  /// Waits for the writer, checkpoints the WAL, closes.
  [[nodiscard]] virtual async::Task<void> close() = 0;
};

/// Opens (creates, migrates) <path>. Takes a lock so that a second daemon fails with Unavailable.
/// Refuses a file that is not a database, a newer schema, wrong modes: Internal with the fix in the
/// text.
[[nodiscard]] Result<std::unique_ptr<Store>> open_sqlite(async::Context& context,
                                                         const std::string& path);
/// `make_room` is called once when the disk is too full to open it, under its lock; then it is
/// tried again.
[[nodiscard]] Result<std::unique_ptr<Store>> open_sqlite(async::Context& context,
                                                         const std::string& path,
                                                         const std::function<void()>& make_room);

}  // namespace ate::store
