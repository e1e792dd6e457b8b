#include "store/open.hpp"

#include <array>

#include "store/files.hpp"
#include "store/schema.hpp"

namespace ate::store {

namespace {

// Checking costs about 6 ms per MiB from a cold disk; history may be large and is not needed to
// run actors, so it gets what time is left of the start.
constexpr std::int64_t kHistoryCheckMs = 150;

Status secure(Database& database) {
  ATE_TRY(database.harden());
  return database.execute(
      "PRAGMA busy_timeout = 5000;"
      "PRAGMA trusted_schema = OFF;"
      "PRAGMA cell_size_check = ON;"
      "PRAGMA foreign_keys = ON;"
      "PRAGMA mmap_size = 0;"
      "PRAGMA temp_store = MEMORY;"
      "PRAGMA secure_delete = ON;"
      "PRAGMA synchronous = FULL;");
}

Status use_log(Database& database, const std::string& path) {
  ATE_ASSIGN(const std::string mode, database.query_text("PRAGMA journal_mode = WAL"));
  if (mode != "wal") {
    return fail(Errc::Internal, path + ": write-ahead logging is not possible here (journal_mode " +
                                    mode + "); the state directory needs a local file system");
  }
  // Checkpoints are ours alone (Writer), so that no commit pays for one while others wait.
  ATE_TRY(database.own_checkpoints());
  return database.execute("PRAGMA journal_size_limit = 33554432");
}

/// A new database appears under its name only when it is complete, so that an empty or foreign file
/// there is always damage and never half a creation.
Status create(const std::string& path) {
  const std::string partial = path + ".new";
  ATE_TRY(create_empty(partial));
  {
    ATE_ASSIGN(Database database, Database::open(partial, Database::Mode::Create));
    ATE_TRY(secure(database));
    ATE_TRY(database.execute("PRAGMA application_id = " + std::to_string(kApplicationId)));
    ATE_TRY(migrate(database, partial, migrations()));
  }
  return publish(partial, path);
}

Status damaged(const std::string& path, const std::string& what) {
  return fail(Errc::Internal, path + " is damaged (" + what +
                                  "). It was left as it is: put a backup in its place; " + path +
                                  ".before-v<N> is the copy made before the last migration.");
}

Status check_table(Database& database, const std::string& path, const std::string& table) {
  Result<std::string> verdict = database.query_text("PRAGMA quick_check('" + table + "')");
  if (!verdict) {
    switch (failure_of(verdict.error())) {
      case Failure::Interrupted:
        return {};  // out of time: only history is checked under a limit
      case Failure::Damaged:
        return damaged(path, verdict.error().message());
      case Failure::Constraint:
      case Failure::DiskFull:
      case Failure::Busy:
      case Failure::InputOutput:
      case Failure::Other:
        return fail(std::move(verdict).error().context("checking " + path));
    }
  }
  return *verdict == "ok" ? Status{} : damaged(path, *verdict);
}

Status check(Database& database, const std::string& path) {
  for (const char* table : {"objects", "actors", "snapshots", "meta", "sqlite_sequence"}) {
    ATE_TRY(check_table(database, path, table));
  }
  database.set_time_limit(kHistoryCheckMs);
  Status history;
  for (const char* table : {"operations", "events", "requests"}) {
    history = check_table(database, path, table);
    if (!history) {
      break;
    }
  }
  database.set_time_limit(0);
  return history;
}

/// The first statements that read the file: a damaged schema shows here, and only here.
Result<std::int64_t> first_look(Database& database) {
  ATE_TRY(secure(database));
  return database.query_integer("PRAGMA user_version");
}

Status prepare(Database& database, const std::string& path) {
  Result<std::int64_t> version = first_look(database);
  if (!version) {
    const Failure failure = failure_of(version.error());
    const bool broken = failure == Failure::Damaged || failure == Failure::Other;
    return broken ? damaged(path, version.error().message())
                  : Status(fail(std::move(version).error()));
  }
  if (*version <= 0) {
    return fail(Errc::Internal, path +
                                    " has no schema version; it is not a state database of "
                                    "ate-noded. It was left as it is.");
  }
  ATE_TRY(use_log(database, path));
  ATE_TRY(migrate(database, path, migrations()));
  return check(database, path);
}

Status open_locked(const std::string& path, Opened& opened) {
  ATE_ASSIGN(const Found found, inspect(path));
  if (found == Found::Nothing) {
    ATE_TRY(create(path));
  }
  ATE_ASSIGN(opened.database, Database::open(path, Database::Mode::Existing));
  return prepare(opened.database, path);
}

}  // namespace

Result<Opened> open_database(const std::string& path, const std::function<void()>& make_room) {
  Opened opened;
  ATE_ASSIGN(opened.lock, take_lock(path));
  Status ready = open_locked(path, opened);
  if (!ready && ready.error().code() == Errc::DiskFull && make_room) {
    make_room();
    ready = open_locked(path, opened);
  }
  ATE_TRY(std::move(ready));
  return opened;
}

}  // namespace ate::store
