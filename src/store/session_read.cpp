#include <algorithm>
#include <utility>

#include "ate/v1alpha1/actor.pb.h"
#include "store/session.hpp"

namespace ate::store {

namespace {

constexpr std::size_t kMaxRows = 1000;  // of one query: the writer's thread answers it

std::unexpected<Error> unreadable(const char* what, const std::string& id) {
  return fail(Errc::Internal, std::string("state database: the record of ") + what + " " + id +
                                  " can't be read; put a backup in its place");
}

template <class Message>
Result<std::shared_ptr<Message>> parse(std::string_view bytes, const char* what,
                                       const std::string& id) {
  auto message = std::make_shared<Message>();
  if (!message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return unreadable(what, id);
  }
  return message;
}

/// Hands every row of `rows` to `use`, until that fails.
template <class Use>
Status each_row(Execution& rows, Use use) {
  for (;;) {
    ATE_ASSIGN(const bool row, rows.next());
    if (!row) {
      return {};
    }
    ATE_TRY(use());
  }
}

/// The messages of rows `id, record`, in order.
template <class Message>
Result<std::vector<std::shared_ptr<Message>>> parse_all(Execution& rows, const char* what) {
  std::vector<std::shared_ptr<Message>> found;
  ATE_TRY(each_row(rows, [&]() -> Status {
    ATE_ASSIGN(auto record, parse<Message>(rows.column_bytes(1), what, rows.column_text(0)));
    found.push_back(std::move(record));
    return {};
  }));
  return found;
}

std::int64_t clamp(std::size_t limit) {
  return static_cast<std::int64_t>(std::min(limit, kMaxRows));
}

}  // namespace

Result<Session> Session::start(Opened opened) {
  Session session;
  session.opened_ = std::move(opened);
  ATE_TRY(session.prepare());
  return session;
}

Result<Loaded> Session::load() {
  Loaded loaded;
  ATE_TRY(load_actors(loaded));
  ATE_TRY(load_snapshots(loaded));
  ATE_TRY(load_objects(loaded));
  ATE_TRY(load_operations(loaded));
  ATE_TRY(load_meta(loaded));
  ATE_ASSIGN(loaded.last_event_id, opened_.database.query_integer(
                                       "SELECT seq FROM sqlite_sequence WHERE name = 'events'"));
  resource_version_ = std::max(resource_version_, loaded.last_resource_version);
  opened_.database.release_memory();
  return loaded;
}

Status Session::load_actors(Loaded& loaded) {
  ATE_ASSIGN(const std::int64_t count,
             opened_.database.query_integer("SELECT count(*) FROM actors"));
  loaded.actors.reserve(static_cast<std::size_t>(count));
  ATE_ASSIGN(Statement statement, opened_.database.prepare("SELECT uid, record FROM actors"));
  Execution rows(statement);
  return each_row(rows, [&]() -> Status {
    ATE_ASSIGN(auto record,
               parse<v1alpha1::ActorRecord>(rows.column_bytes(1), "actor", rows.column_text(0)));
    loaded.last_resource_version = std::max(
        loaded.last_resource_version, parse_version(record->actor().metadata().resource_version()));
    loaded.actors.push_back(std::move(record));
    return {};
  });
}

Status Session::load_snapshots(Loaded& loaded) {
  ATE_ASSIGN(Statement statement,
             opened_.database.prepare("SELECT id, record FROM snapshots ORDER BY id"));
  Execution rows(statement);
  ATE_ASSIGN(loaded.snapshots, parse_all<v1alpha1::Snapshot>(rows, "snapshot"));
  return {};
}

Status Session::load_objects(Loaded& loaded) {
  ATE_ASSIGN(Statement statement,
             opened_.database.prepare("SELECT kind, atespace, name, generation, digest, source, "
                                      "hidden, record FROM objects "
                                      "ORDER BY kind, atespace, name, generation"));
  Execution rows(statement);
  return each_row(rows, [&]() -> Status {
    ObjectRow object{.kind = rows.column_text(0),
                     .atespace = rows.column_text(1),
                     .name = rows.column_text(2),
                     .generation = rows.column_integer(3),
                     .digest = rows.column_text(4),
                     .source = rows.column_text(5),
                     .hidden = rows.column_integer(6) != 0,
                     .bytes = rows.column_text(7)};
    loaded.last_resource_version = std::max(loaded.last_resource_version, object_version(object));
    loaded.objects.push_back(std::move(object));
    return {};
  });
}

Status Session::load_operations(Loaded& loaded) {
  ATE_ASSIGN(Statement statement,
             opened_.database.prepare(
                 "SELECT id, record FROM operations WHERE state = 'RUNNING' ORDER BY id"));
  Execution rows(statement);
  ATE_ASSIGN(loaded.running_operations, parse_all<v1alpha1::Operation>(rows, "operation"));
  return {};
}

Status Session::load_meta(Loaded& loaded) {
  ATE_ASSIGN(Statement statement, opened_.database.prepare("SELECT key, value FROM meta"));
  Execution rows(statement);
  return each_row(rows, [&]() -> Status {
    std::string key = rows.column_text(0);
    std::string value = rows.column_text(1);
    if (key == kVersionKey) {
      loaded.last_resource_version = std::max(loaded.last_resource_version, parse_version(value));
    } else {
      loaded.meta.emplace_back(std::move(key), std::move(value));
    }
    return {};
  });
}

Result<std::vector<std::shared_ptr<v1alpha1::Operation>>> Session::operations(
    const OperationQuery& query) {
  // Conditions that are not asked for are left out, so that the index of the rest is used.
  std::string sql = "SELECT id, record FROM operations WHERE ";
  sql += query.after.empty() ? "?1 = ''" : "id < ?1";
  sql += query.actor_uid ? " AND actor_uid = ?2" : " AND ?2 = ''";
  sql += query.state ? " AND state = ?3" : " AND ?3 = ''";
  sql += " ORDER BY id DESC LIMIT ?4";
  ATE_ASSIGN(Statement statement, opened_.database.prepare(sql));
  const std::string actor_uid = query.actor_uid.value_or("");
  const std::string state = query.state.value_or("");
  Execution rows(statement);
  rows.text(query.after).text(actor_uid).text(state).integer(clamp(query.limit));
  return parse_all<v1alpha1::Operation>(rows, "operation");
}

Result<std::shared_ptr<v1alpha1::Operation>> Session::operation(const std::string& id) {
  ATE_ASSIGN(Statement statement,
             opened_.database.prepare("SELECT record FROM operations WHERE id = ?"));
  Execution rows(statement);
  rows.text(id);
  ATE_ASSIGN(const bool row, rows.next());
  if (!row) {
    return fail(Errc::NotFound, "there is no operation " + id);
  }
  return parse<v1alpha1::Operation>(rows.column_bytes(0), "operation", id);
}

Result<std::vector<std::shared_ptr<v1alpha1::Event>>> Session::events(const EventQuery& query) {
  std::string sql = "SELECT id, record FROM events WHERE id > ?1";
  sql += query.actor_uid ? " AND actor_uid = ?2" : " AND ?2 = ''";
  sql += " ORDER BY id LIMIT ?3";
  ATE_ASSIGN(Statement statement, opened_.database.prepare(sql));
  const std::string actor_uid = query.actor_uid.value_or("");
  Execution rows(statement);
  rows.integer(query.since).text(actor_uid).integer(clamp(query.limit));
  std::vector<std::shared_ptr<v1alpha1::Event>> found;
  ATE_TRY(each_row(rows, [&]() -> Status {
    const std::int64_t id = rows.column_integer(0);
    ATE_ASSIGN(auto record,
               parse<v1alpha1::Event>(rows.column_bytes(1), "event", std::to_string(id)));
    record->set_id(id);  // the column is the only place where it is stored
    found.push_back(std::move(record));
    return {};
  }));
  return found;
}

Result<std::int64_t> Session::first_event_id() {
  return opened_.database.query_integer(
      "SELECT coalesce((SELECT min(id) FROM events), "
      "(SELECT seq + 1 FROM sqlite_sequence WHERE name = 'events'), 1)");
}

Result<std::optional<KeptRequest>> Session::kept_request(const std::string& key) {
  ATE_ASSIGN(Statement statement,
             opened_.database.prepare("SELECT created_ms, record FROM requests WHERE key = ?"));
  Execution rows(statement);
  rows.text(key);
  ATE_ASSIGN(const bool row, rows.next());
  if (!row) {
    return std::optional<KeptRequest>();
  }
  return KeptRequest{key, rows.column_integer(0), std::string(rows.column_bytes(1))};
}

Result<std::shared_ptr<v1alpha1::Operation>> Session::operation_of(const std::string& request_id,
                                                                   const std::string& not_before) {
  ATE_ASSIGN(Statement statement,
             opened_.database.prepare("SELECT id, record FROM operations WHERE id >= ? "
                                      "ORDER BY id"));
  Execution rows(statement);
  rows.text(not_before);
  for (;;) {
    ATE_ASSIGN(const bool row, rows.next());
    if (!row) {
      return std::shared_ptr<v1alpha1::Operation>();
    }
    ATE_ASSIGN(auto record,
               parse<v1alpha1::Operation>(rows.column_bytes(1), "operation", rows.column_text(0)));
    if (record->request_id() == request_id) {
      return record;
    }
  }
}

void Session::checkpoint() {
  // IGNORED: what could not be moved stays in the log and is moved the next time.
  static_cast<void>(opened_.database.checkpoint(false));
}

void Session::close() {
  if (!opened_.database) {
    return;
  }
  // IGNORED: a foreign reader may hold the log; nothing is lost by leaving it.
  static_cast<void>(opened_.database.checkpoint(true));
  statements_ = Statements{};
  opened_.database.close();
  opened_.lock.reset();
}

}  // namespace ate::store
