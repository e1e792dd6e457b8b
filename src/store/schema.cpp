#include "store/schema.hpp"

#include <array>

#include "store/files.hpp"

namespace ate::store {

namespace {

// Columns are what is searched by; the rest is in the message's bytes, so a new field of a message
// needs no migration. The lists in CHECK are closed: a state that this build does not know must
// never be read as "stopped". An index is a page more to sync in every commit, so there are two:
// history of one actor; what runs is found by a scan of a history that trim keeps short.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE objects (
  kind TEXT NOT NULL CHECK (kind <> ''),
  atespace TEXT NOT NULL,
  name TEXT NOT NULL CHECK (name <> ''),
  generation INTEGER NOT NULL,
  digest TEXT NOT NULL,
  source TEXT NOT NULL,
  hidden INTEGER NOT NULL CHECK (hidden IN (0, 1)),
  record BLOB NOT NULL,
  PRIMARY KEY (kind, atespace, name, generation)
) STRICT, WITHOUT ROWID;

CREATE TABLE actors (
  uid TEXT NOT NULL PRIMARY KEY CHECK (uid <> ''),
  atespace TEXT NOT NULL,
  name TEXT NOT NULL CHECK (name <> ''),
  state TEXT NOT NULL CHECK (state IN ('SUSPENDED', 'RESUMING', 'RUNNING', 'PAUSING', 'PAUSED',
    'SUSPENDING', 'REVERTING', 'EXITED', 'CRASHED', 'DELETING')),
  record BLOB NOT NULL,
  UNIQUE (atespace, name)
) STRICT;

CREATE TABLE operations (
  id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  actor_uid TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('RUNNING', 'DONE', 'FAILED', 'CANCELLED')),
  record BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX operations_by_actor ON operations (actor_uid, id);

CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  actor_uid TEXT NOT NULL,
  record BLOB NOT NULL
) STRICT;
CREATE INDEX events_by_actor ON events (actor_uid, id);

CREATE TABLE snapshots (
  id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  actor_uid TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('Pending', 'Ready', 'Deleting')),
  record BLOB NOT NULL
) STRICT;

CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
)sql";

// Requests with an Idempotency-Key. `record` last, so that a look at the ages reads no answers.
constexpr const char* kVersion2 = R"sql(
CREATE TABLE requests (
  key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
  created_ms INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  record BLOB NOT NULL
) STRICT;
)sql";

constexpr std::array<Migration, 2> kMigrations{{{1, kVersion1}, {2, kVersion2}}};

Status back_up(Database& database, const std::string& path, std::int64_t next_version) {
  const std::string target = path + ".before-v" + std::to_string(next_version);
  const std::string partial = target + ".partial";
  ATE_TRY(create_empty(partial));
  ATE_ASSIGN(Statement statement, database.prepare("VACUUM INTO ?1"));
  {
    Execution copy(statement);
    ATE_TRY(copy.text(partial).run());
  }
  return publish(partial, target);
}

Status apply(Database& database, const Migration& step) {
  std::string sql = "BEGIN IMMEDIATE;";
  sql += step.statements;
  sql += "PRAGMA user_version = " + std::to_string(step.version) + ";COMMIT;";
  Status done = database.execute(sql);
  if (!done && database.in_transaction()) {
    static_cast<void>(database.execute("ROLLBACK"));  // IGNORED: the first error is returned
  }
  return done;
}

}  // namespace

std::span<const Migration> migrations() {
  return kMigrations;
}

Status migrate(Database& database, const std::string& path, std::span<const Migration> steps) {
  ATE_ASSIGN(const std::int64_t version, database.query_integer("PRAGMA user_version"));
  const std::int64_t wanted = steps.back().version;
  if (version > wanted) {
    return fail(Errc::Internal,
                path + " is of schema version " + std::to_string(version) +
                    ", this ate-noded knows " + std::to_string(wanted) +
                    ". Start the newer ate-noded, or stop it and put back the copy " + path +
                    ".before-v" + std::to_string(wanted + 1));
  }
  if (version > 0 && version < wanted) {
    ATE_TRY(back_up(database, path, wanted));
  }
  for (const Migration& step : steps) {
    if (step.version <= version) {
      continue;
    }
    if (Status done = apply(database, step); !done) {
      return fail(std::move(done).error().context("migrating " + path + " to schema version " +
                                                  std::to_string(step.version)));
    }
  }
  return {};
}

}  // namespace ate::store
