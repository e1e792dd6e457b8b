#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ate/store/store.hpp"
#include "store/open.hpp"
#include "store/rows.hpp"
#include "store/sql.hpp"

namespace ate::store {

/// Row of meta that remembers the highest resourceVersion of rows that are gone. Not for others.
inline constexpr const char* kVersionKey = "store/resourceVersion";

/// A batch that waits for its transaction, and what became of it.
struct Write {
  Rows rows;
  std::vector<std::int64_t> event_ids;
  Status result;
};

/// The database as the writer's thread uses it: statements prepared once, whole transactions.
class Session {
 public:
  [[nodiscard]] static Result<Session> start(Opened opened);

  [[nodiscard]] Result<Loaded> load();

  /// Writes all of `group` in one transaction, each batch in a savepoint of its own, so that one
  /// that fails takes no other with it; fills result and event_ids. After an I/O error nothing is
  /// written any more: the kernel forgets what it could not write, so a later success would be a
  /// lie.
  void write(std::span<Write* const> group);

  [[nodiscard]] Result<std::vector<std::shared_ptr<v1alpha1::Operation>>> operations(
      const OperationQuery& query);
  [[nodiscard]] Result<std::shared_ptr<v1alpha1::Operation>> operation(const std::string& id);
  [[nodiscard]] Result<std::vector<std::shared_ptr<v1alpha1::Event>>> events(
      const EventQuery& query);
  [[nodiscard]] Result<std::int64_t> first_event_id();

  [[nodiscard]] Result<std::optional<KeptRequest>> kept_request(const std::string& key);
  [[nodiscard]] Result<std::shared_ptr<v1alpha1::Operation>> operation_of(
      const std::string& request_id, const std::string& not_before);

  /// Deletes a bounded number of rows that `keep` lets go of; false when none was left.
  [[nodiscard]] Result<bool> trim_some(const Retention& keep);

  [[nodiscard]] int wal_frames() const noexcept { return opened_.database.wal_frames(); }

  void checkpoint();
  void close();

 private:
  struct Statements {
    Statement begin, commit, rollback, savepoint, release, undo;
    Statement put_actor, delete_actor, put_operation, add_event, put_snapshot, delete_snapshot;
    Statement put_object, delete_object, delete_generations, put_meta;
    Statement put_request, delete_request;
  };

  [[nodiscard]] Status prepare();
  [[nodiscard]] Status apply(Write& write);
  [[nodiscard]] Status apply_removals(const Rows& rows);
  [[nodiscard]] Status apply_rows(Write& write);
  [[nodiscard]] Status apply_objects(const Rows& rows);
  /// One transaction; an error: it is gone as a whole.
  [[nodiscard]] Status transaction(std::span<Write* const> group);
  void write_one_by_one(std::span<Write* const> group);
  [[nodiscard]] Status in_savepoint(Write& write);
  [[nodiscard]] Status refuse_if_broken() const;
  void note_failure(const Error& error);
  [[nodiscard]] Status simple(Statement& statement);

  // session_trim.cpp
  [[nodiscard]] Result<bool> trim_operations(const Retention& keep);
  [[nodiscard]] Result<bool> trim_events(const Retention& keep);
  [[nodiscard]] Result<bool> trim_requests(const Retention& keep);

  [[nodiscard]] Status load_actors(Loaded& loaded);
  [[nodiscard]] Status load_snapshots(Loaded& loaded);
  [[nodiscard]] Status load_objects(Loaded& loaded);
  [[nodiscard]] Status load_operations(Loaded& loaded);
  [[nodiscard]] Status load_meta(Loaded& loaded);

  Opened opened_;
  Statements statements_;
  std::int64_t resource_version_ = 0;  // highest ever written
  std::string broken_;                 // why nothing is written any more; "" = fine
};

}  // namespace ate::store
