#include <algorithm>
#include <utility>

#include "ate/util/failpoint.hpp"
#include "store/session.hpp"

namespace ate::store {

namespace {

constexpr std::string_view kPutActor =
    "INSERT INTO actors (uid, atespace, name, state, record) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (uid) DO UPDATE SET atespace = excluded.atespace, name = excluded.name, "
    "state = excluded.state, record = excluded.record";
constexpr std::string_view kPutOperation =
    "INSERT INTO operations (id, actor_uid, state, record) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET actor_uid = excluded.actor_uid, state = excluded.state, "
    "record = excluded.record";
constexpr std::string_view kPutSnapshot =
    "INSERT INTO snapshots (id, actor_uid, state, record) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET actor_uid = excluded.actor_uid, state = excluded.state, "
    "record = excluded.record";
constexpr std::string_view kPutObject =
    "INSERT INTO objects (kind, atespace, name, generation, digest, source, hidden, record) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, atespace, name, generation) DO UPDATE SET "
    "digest = excluded.digest, source = excluded.source, hidden = excluded.hidden, "
    "record = excluded.record";
constexpr std::string_view kPutMeta =
    "INSERT INTO meta (key, value) VALUES (?, ?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value";
constexpr std::string_view kPutRequest =
    "INSERT INTO requests (key, created_ms, bytes, record) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET created_ms = excluded.created_ms, bytes = excluded.bytes, "
    "record = excluded.record";

}  // namespace

Status Session::prepare() {
  const std::pair<Statement*, std::string_view> wanted[] = {
      {&statements_.begin, "BEGIN IMMEDIATE"},
      {&statements_.commit, "COMMIT"},
      {&statements_.rollback, "ROLLBACK"},
      {&statements_.savepoint, "SAVEPOINT batch"},
      {&statements_.release, "RELEASE batch"},
      {&statements_.undo, "ROLLBACK TO batch"},
      {&statements_.put_actor, kPutActor},
      {&statements_.delete_actor, "DELETE FROM actors WHERE uid = ?"},
      {&statements_.put_operation, kPutOperation},
      {&statements_.add_event, "INSERT INTO events (actor_uid, record) VALUES (?, ?)"},
      {&statements_.put_snapshot, kPutSnapshot},
      {&statements_.delete_snapshot, "DELETE FROM snapshots WHERE id = ?"},
      {&statements_.put_object, kPutObject},
      {&statements_.delete_object,
       "DELETE FROM objects WHERE kind = ? AND atespace = ? AND name = ? AND generation = ?"},
      {&statements_.delete_generations,
       "DELETE FROM objects WHERE kind = ? AND atespace = ? AND name = ?"},
      {&statements_.put_meta, kPutMeta},
      {&statements_.put_request, kPutRequest},
      {&statements_.delete_request, "DELETE FROM requests WHERE key = ?"},
  };
  for (const auto& [statement, sql] : wanted) {
    ATE_ASSIGN(*statement, opened_.database.prepare(sql));
  }
  return {};
}

Status Session::simple(Statement& statement) {
  Execution execution(statement);
  return execution.run();
}

Status Session::refuse_if_broken() const {
  if (broken_.empty()) {
    return {};
  }
  return fail(Errc::Internal,
              "the state database takes no more writes after an I/O error; restart ate-noded when "
              "the disk is well again (" +
                  broken_ + ")");
}

void Session::note_failure(const Error& error) {
  const Failure failure = failure_of(error);
  if (failure == Failure::InputOutput || failure == Failure::Damaged) {
    broken_ = error.message();
  }
}

void Session::write(std::span<Write* const> group) {
  if (const Status usable = refuse_if_broken(); !usable) {
    for (Write* write : group) {
      write->result = usable;
    }
    return;
  }
  Status done = transaction(group);
  if (!done && failure_of(done.error()) == Failure::DiskFull) {
    write_one_by_one(group);
    return;
  }
  if (!done) {
    note_failure(done.error());
    for (Write* write : group) {
      write->result = fail(done.error());
    }
  }
}

void Session::write_one_by_one(std::span<Write* const> group) {
  // Moving the log into the file lets the log start anew in the space it already has; and what is
  // too large for the disk must not refuse the smaller ones beside it.
  checkpoint();
  for (Write* const& write : group) {
    if (Status done = transaction(std::span<Write* const>(&write, 1)); !done) {
      note_failure(done.error());
      write->result = fail(std::move(done).error());
    }
  }
}

Status Session::transaction(std::span<Write* const> group) {
  ATE_TRY(simple(statements_.begin));
  Status whole;
  for (Write* write : group) {
    write->result = in_savepoint(*write);
    if (!opened_.database.in_transaction()) {
      // SQLite gave up the whole transaction (full disk, I/O error), not only this batch.
      return fail(write->result ? Error(Errc::Internal, "state database: transaction lost")
                                : write->result.error());
    }
  }
  whole = failpoint("store-commit-before")
              ? Status(fail(Errc::Internal, "failpoint store-commit-before"))
              : simple(statements_.commit);
  if (!whole && opened_.database.in_transaction()) {
    static_cast<void>(simple(statements_.rollback));  // IGNORED: the first error is returned
  }
  if (whole) {
    static_cast<void>(failpoint("store-commit-after"));  // only to die here: it is committed
  }
  return whole;
}

Status Session::in_savepoint(Write& write) {
  ATE_TRY(simple(statements_.savepoint));
  Status applied = apply(write);
  if (!applied) {
    if (opened_.database.in_transaction()) {
      Status undone = simple(statements_.undo);
      if (undone) {
        undone = simple(statements_.release);
      }
      if (!undone) {
        static_cast<void>(simple(statements_.rollback));  // IGNORED: reported as a lost transaction
      }
    }
    return applied;
  }
  return simple(statements_.release);
}

Status Session::apply(Write& write) {
  const Rows& rows = write.rows;
  write.event_ids.clear();
  const bool removes = !rows.gone_actors.empty() || !rows.gone_objects.empty();
  const std::int64_t version = std::max(resource_version_, rows.resource_version);
  // Removals first: a batch may put a new actor under the name of the one it removes.
  ATE_TRY(apply_removals(rows));
  ATE_TRY(apply_rows(write));
  ATE_TRY(apply_objects(rows));
  if (removes) {
    // The row with the highest version may be the one that goes; versions are never used twice.
    const std::string text = std::to_string(version);
    Execution put(statements_.put_meta);
    ATE_TRY(put.text(kVersionKey).text(text).run());
  }
  resource_version_ = version;
  return {};
}

Status Session::apply_removals(const Rows& rows) {
  for (const std::string& uid : rows.gone_actors) {
    Execution remove(statements_.delete_actor);
    ATE_TRY(remove.text(uid).run());
  }
  for (const std::string& id : rows.gone_snapshots) {
    Execution remove(statements_.delete_snapshot);
    ATE_TRY(remove.text(id).run());
  }
  for (const std::string& key : rows.gone_requests) {
    Execution remove(statements_.delete_request);
    ATE_TRY(remove.text(key).run());
  }
  for (const ObjectRow& row : rows.gone_objects) {
    const bool all = row.generation == 0;
    Execution remove(all ? statements_.delete_generations : statements_.delete_object);
    remove.text(row.kind).text(row.atespace).text(row.name);
    if (!all) {
      remove.integer(row.generation);
    }
    ATE_TRY(remove.run());
  }
  return {};
}

Status Session::apply_rows(Write& write) {
  const Rows& rows = write.rows;
  for (const Rows::Actor& actor : rows.actors) {
    Execution put(statements_.put_actor);
    put.text(actor.uid).text(actor.atespace).text(actor.name).text(actor.state);
    ATE_TRY(put.blob(actor.record).run());
  }
  for (const Rows::Keyed& operation : rows.operations) {
    Execution put(statements_.put_operation);
    put.text(operation.id).text(operation.actor_uid).text(operation.state);
    ATE_TRY(put.blob(operation.record).run());
  }
  for (const Rows::Event& event : rows.events) {
    Execution add(statements_.add_event);
    ATE_TRY(add.text(event.actor_uid).blob(event.record).run());
    write.event_ids.push_back(opened_.database.last_insert_id());
  }
  for (const Rows::Keyed& snapshot : rows.snapshots) {
    Execution put(statements_.put_snapshot);
    put.text(snapshot.id).text(snapshot.actor_uid).text(snapshot.state);
    ATE_TRY(put.blob(snapshot.record).run());
  }
  return {};
}

Status Session::apply_objects(const Rows& rows) {
  for (const ObjectRow& row : rows.objects) {
    Execution put(statements_.put_object);
    put.text(row.kind).text(row.atespace).text(row.name).integer(row.generation);
    put.text(row.digest).text(row.source).integer(row.hidden ? 1 : 0);
    ATE_TRY(put.blob(row.bytes).run());
  }
  for (const auto& [key, value] : rows.meta) {
    Execution put(statements_.put_meta);
    ATE_TRY(put.text(key).text(value).run());
  }
  for (const KeptRequest& request : rows.requests) {
    Execution put(statements_.put_request);
    put.text(request.key).integer(request.created_ms);
    put.integer(static_cast<std::int64_t>(request.record.size()));
    ATE_TRY(put.blob(request.record).run());
  }
  return {};
}

}  // namespace ate::store
