// What history is let go of, a bounded number of rows at a time.
#include "ate/util/ids.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "store/session.hpp"

namespace ate::store {

namespace {

constexpr std::int64_t kTrimRows = 500;  // per turn of the thread, so that commits come between

WallTime wall(std::int64_t milliseconds) {
  return WallTime(std::chrono::milliseconds(milliseconds));
}

/// Runs a DELETE … RETURNING; whether there was a row.
Result<bool> removes_any(Execution& rows) {
  ATE_ASSIGN(const bool removed, rows.next());
  ATE_TRY(rows.run());
  return removed;
}

}  // namespace

Result<bool> Session::trim_some(const Retention& keep) {
  ATE_TRY(refuse_if_broken());
  Result<bool> removed = false;
  for (const auto trim :
       {&Session::trim_operations, &Session::trim_events, &Session::trim_requests}) {
    Result<bool> some = (this->*trim)(keep);
    if (!some) {
      note_failure(some.error());
      return some;
    }
    removed = *removed || *some;
  }
  return removed;
}

Result<bool> Session::trim_operations(const Retention& keep) {
  // Their ids begin with their time.
  ATE_ASSIGN(Statement statement,
             opened_.database.prepare(
                 "DELETE FROM operations WHERE id IN (SELECT id FROM operations WHERE "
                 "state <> 'RUNNING' ORDER BY id DESC LIMIT ?2 OFFSET ?1) OR id IN (SELECT id FROM "
                 "operations WHERE state <> 'RUNNING' AND id < ?3 ORDER BY id LIMIT ?2) "
                 "RETURNING 1"));
  const std::string oldest =
      keep.operations_since_ms <= 0 ? "" : "op-" + ulid_floor(wall(keep.operations_since_ms));
  Execution rows(statement);
  rows.integer(static_cast<std::int64_t>(keep.operations)).integer(kTrimRows).text(oldest);
  return removes_any(rows);
}

Result<bool> Session::trim_events(const Retention& keep) {
  // No column holds their time, but they are in its order: the oldest few tell.
  std::int64_t last_old = 0;
  if (keep.events_since_ms > 0) {
    const std::string oldest = format_rfc3339(wall(keep.events_since_ms));
    EventQuery query;
    query.limit = static_cast<std::size_t>(kTrimRows);
    ATE_ASSIGN(const auto events, this->events(query));
    for (const auto& event : events) {
      if (event->time() >= oldest) {
        break;
      }
      last_old = event->id();
    }
  }
  ATE_ASSIGN(
      Statement statement,
      opened_.database.prepare("DELETE FROM events WHERE id <= ?3 OR id IN (SELECT id FROM events "
                               "ORDER BY id DESC LIMIT ?2 OFFSET ?1) RETURNING 1"));
  Execution rows(statement);
  rows.integer(static_cast<std::int64_t>(keep.events)).integer(kTrimRows).integer(last_old);
  return removes_any(rows);
}

Result<bool> Session::trim_requests(const Retention& keep) {
  // Newest first, each with how many and how much there is up to it.
  ATE_ASSIGN(Statement statement,
             opened_.database.prepare(
                 "DELETE FROM requests WHERE key IN (SELECT key FROM (SELECT key, created_ms, "
                 "row_number() OVER newest AS place, sum(bytes) OVER newest AS held FROM requests "
                 "WINDOW newest AS (ORDER BY created_ms DESC, key)) "
                 "WHERE created_ms < ?1 OR place > ?2 OR held > ?3 LIMIT ?4) RETURNING 1"));
  Execution rows(statement);
  rows.integer(keep.requests_since_ms).integer(static_cast<std::int64_t>(keep.requests));
  rows.integer(keep.request_bytes).integer(kTrimRows);
  return removes_any(rows);
}

}  // namespace ate::store
