// Commits per second of the store, alone and with 64 writers, against a bare SQLite loop with the
// same pragmas and rows in the same run; then how long a start with 10,000 actors takes.
#include <sqlite3.h>
#include <sys/stat.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "ate/store/store.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "support/temp_dir.hpp"

namespace {

using namespace ate;
using Clock = std::chrono::steady_clock;

constexpr int kCommits = 1500;
constexpr int kWriters = 64;
constexpr int kActors = 10'000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::shared_ptr<v1alpha1::ActorRecord> make_actor(int number) {
  auto record = std::make_shared<v1alpha1::ActorRecord>();
  v1alpha1::Metadata* metadata = record->mutable_actor()->mutable_metadata();
  metadata->set_uid("01jdz00000000000000000" + std::to_string(1'000'000 + number));
  metadata->set_name("actor-" + std::to_string(number));
  metadata->set_atespace("default");
  metadata->set_resource_version(std::to_string(number));
  metadata->set_created_at("2026-11-30T18:35:52.123Z");
  (*metadata->mutable_labels())["tier"] = "small";
  record->mutable_actor()->mutable_spec()->mutable_template_()->set_name("counter");
  record->mutable_actor()->mutable_status()->set_reason("new");
  record->mutable_actor()->mutable_status()->set_snapshot("01jdz0000000000000000000s1");
  return record;
}

/// What a change of state writes: the actor, its operation, an event.
store::Batch make_batch(int number) {
  store::Batch batch;
  const auto actor = make_actor(number % kWriters);
  batch.put_actors = {actor};
  auto operation = std::make_shared<v1alpha1::Operation>();
  operation->set_id("op-01jdz000000000000" + std::to_string(1'000'000 + number / 2));
  operation->set_verb("resume");
  operation->mutable_actor()->set_uid(actor->actor().metadata().uid());
  batch.put_operations = {operation};
  auto event = std::make_shared<v1alpha1::Event>();
  event->set_type("actor.state");
  event->mutable_actor()->set_uid(actor->actor().metadata().uid());
  batch.events = {event};
  return batch;
}

void must(int code, sqlite3* database) {
  if (code != SQLITE_OK && code != SQLITE_DONE) {
    std::fprintf(stderr, "baseline: %s\n", sqlite3_errmsg(database));
    std::exit(1);
  }
}

/// The plainest loop that writes the same bytes with the same durability.
double bare_loop(const std::string& path) {
  sqlite3* database = nullptr;
  must(sqlite3_open(path.c_str(), &database), database);
  must(sqlite3_exec(database,
                    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = "
                    "ON; CREATE TABLE actors (uid TEXT PRIMARY KEY, record BLOB) STRICT;"
                    "CREATE TABLE operations (id TEXT PRIMARY KEY, record BLOB) STRICT;"
                    "CREATE TABLE events (id INTEGER PRIMARY KEY, record BLOB) STRICT;",
                    nullptr, nullptr, nullptr),
       database);
  std::vector<sqlite3_stmt*> statements;
  for (const char* sql : {"INSERT OR REPLACE INTO actors VALUES (?, ?)",
                          "INSERT OR REPLACE INTO operations VALUES (?, ?)",
                          "INSERT INTO events (record) VALUES (?2)"}) {
    must(sqlite3_prepare_v2(database, sql, -1, &statements.emplace_back(), nullptr), database);
  }
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kCommits; ++i) {
    const store::Batch batch = make_batch(i);
    const std::string keys[] = {batch.put_actors[0]->actor().metadata().uid(),
                                batch.put_operations[0]->id(), "x"};
    const std::string records[] = {batch.put_actors[0]->SerializeAsString(),
                                   batch.put_operations[0]->SerializeAsString(),
                                   batch.events[0]->SerializeAsString()};
    must(sqlite3_exec(database, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), database);
    for (std::size_t s = 0; s < statements.size(); ++s) {
      sqlite3_bind_text(statements[s], 1, keys[s].data(), static_cast<int>(keys[s].size()),
                        SQLITE_STATIC);
      sqlite3_bind_blob(statements[s], 2, records[s].data(), static_cast<int>(records[s].size()),
                        SQLITE_STATIC);
      must(sqlite3_step(statements[s]), database);
      must(sqlite3_reset(statements[s]), database);
    }
    must(sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr), database);
  }
  const double rate = kCommits / seconds_since(start);
  for (sqlite3_stmt* statement : statements) {
    sqlite3_finalize(statement);
  }
  sqlite3_close(database);
  return rate;
}

async::Task<void> writer(store::Store& store, int first, int step) {
  for (int i = first; i < kCommits; i += step) {
    const Status done = co_await store.commit(make_batch(i));
    if (!done) {
      std::fprintf(stderr, "commit: %s\n", done.error().message().c_str());
      std::exit(1);
    }
  }
}

async::Task<void> fill(store::Store& store) {
  store::Batch batch;
  for (int i = 0; i < kActors; ++i) {
    batch.put_actors.push_back(make_actor(i));
    batch.events.push_back(make_batch(i).events[0]);
  }
  const Status done = co_await store.commit(std::move(batch));
  if (!done) {
    std::exit(1);
  }
}

/// Runs `writers` coroutines (0: fills with actors) on a store of its own; seconds it took.
double with_store(const std::string& path, int writers) {
  boost::asio::io_context loop(1);
  boost::asio::thread_pool pool(1);
  async::Context context{loop, pool};
  std::unique_ptr<store::Store> store = store::open_sqlite(context, path).value();
  const auto rethrow = [](std::exception_ptr error) {
    if (error) {
      std::rethrow_exception(error);
    }
  };
  const Clock::time_point start = Clock::now();
  if (writers == 0) {
    boost::asio::co_spawn(loop, fill(*store), rethrow);
  }
  for (int i = 0; i < writers; ++i) {
    boost::asio::co_spawn(loop, writer(*store, i, writers), rethrow);
  }
  loop.run();
  const double seconds = seconds_since(start);
  loop.restart();
  boost::asio::co_spawn(loop, store->close(), rethrow);
  loop.run();
  return seconds;
}

void measure_start(const std::string& path) {
  boost::asio::io_context loop(1);
  boost::asio::thread_pool pool(1);
  async::Context context{loop, pool};
  const Clock::time_point start = Clock::now();
  std::unique_ptr<store::Store> store = store::open_sqlite(context, path).value();
  const double opened = seconds_since(start);
  const std::size_t count = store->load().value().actors.size();
  const double loaded = seconds_since(start);
  std::printf("start with %zu actors: open and check %.1f ms, load %.1f ms\n", count, opened * 1e3,
              (loaded - opened) * 1e3);
}

}  // namespace

int main() {
  const test::TempDir dir;
  const double bare = bare_loop(dir.file("bare.db"));
  const double alone = kCommits / with_store(dir.file("alone.db"), 1);
  const double many = kCommits / with_store(dir.file("many.db"), kWriters);
  std::printf("bare SQLite loop:   %8.0f commits/s\n", bare);
  std::printf("store, one writer:  %8.0f commits/s  ratio %.2f\n", alone, alone / bare);
  std::printf("store, %d writers: %8.0f commits/s  ratio %.2f\n", kWriters, many, many / bare);
  static_cast<void>(with_store(dir.file("start.db"), 0));
  measure_start(dir.file("start.db"));
  return 0;
}
