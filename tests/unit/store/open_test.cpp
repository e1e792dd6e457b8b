// What stands at the path before the store may use it.
#include <sqlite3.h>

#include <algorithm>
#include <array>

#include "fixture.hpp"
#include "store/files.hpp"
#include "store/schema.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::test;
using ate::test::Contains;
using store::Batch;
using store::Store;

namespace {

void run_sql(const std::string& path, const std::string& sql) {
  sqlite3* handle = nullptr;
  char* message = nullptr;
  const bool opened = sqlite3_open(path.c_str(), &handle) == SQLITE_OK;
  const bool done =
      opened && sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, &message) == SQLITE_OK;
  const std::string text = message == nullptr ? "" : message;
  sqlite3_free(message);
  sqlite3_close(handle);
  if (!done) {
    throw std::runtime_error("fixture: " + text);
  }
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

/// A store with 50 actors, closed again.
void make_store(const std::string& path) {
  with_store(path, [](Store& store) -> async::Task<void> {
    Batch batch;
    for (int i = 0; i < 50; ++i) {
      batch.put_actors.push_back(actor("u" + std::to_string(i), "n" + std::to_string(i), i));
    }
    const Status done = co_await store.commit(batch);
    static_cast<void>(done);
  });
}

std::size_t count_actors(const std::string& path) {
  std::size_t count = 0;
  with_store(path, [&](Store& store) -> async::Task<void> {
    count = store.load().value().actors.size();
    co_return;
  });
  return count;
}

}  // namespace

TEST_CASE("store: a new database has mode 0600 and nothing else is left beside it") {
  const TempDir dir;
  make_store(dir.file("state.db"));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    names.push_back(entry.path().filename());
    CHECK((entry.status().permissions() & std::filesystem::perms(077)) ==
          std::filesystem::perms::none);
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"state.db", "state.db.lock"});
}

TEST_CASE("store: a file that is no database is refused and left as it is") {
  const TempDir dir;
  const std::string path = dir.file("state.db");
  const auto [content, expected] = GENERATE(
      std::pair<std::string, std::string>{"", "is empty"},
      std::pair<std::string, std::string>{"hello", "is not a database"},
      std::pair<std::string, std::string>{std::string(8192, '\xa5'), "is not a database"},
      std::pair<std::string, std::string>{std::string("SQLite format 3\0x", 17), "is truncated"});
  write_file(path, content);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  CHECK_THAT(refusal(path), Contains(expected) && Contains("left as it is"));
  CHECK(read_file(path) == content);
  CHECK_FALSE(std::filesystem::exists(path + "-wal"));
}

TEST_CASE("store: another program's database is refused") {
  const TempDir dir;
  run_sql(dir.file("state.db"), "CREATE TABLE other (a)");
  const std::string before = read_file(dir.file("state.db"));
  CHECK_THAT(refusal(dir.file("state.db")), Contains("another program"));
  CHECK(read_file(dir.file("state.db")) == before);
}

TEST_CASE("store: a database cut at any page is refused, never repaired by losing rows") {
  const TempDir dir;
  const std::string path = dir.file("state.db");
  make_store(path);
  const std::string whole = read_file(path);
  REQUIRE(whole.size() > 4096);
  for (std::size_t size = 4096; size < whole.size(); size += 4096) {
    write_file(path, whole.substr(0, size));
    CHECK_THAT(refusal(path), Contains("truncated"));
    CHECK(read_file(path).size() == size);
  }
  write_file(path, whole);
  CHECK(count_actors(path) == 50);
}

TEST_CASE("store: garbage in a page of actors is noticed at start") {
  const TempDir dir;
  const std::string path = dir.file("state.db");
  make_store(path);
  std::string whole = read_file(path);
  const std::size_t at = whole.find("CREATE TABLE actors");
  REQUIRE(at != std::string::npos);
  SECTION("in rows") {
    int refused = 0;
    for (std::size_t page = 1; page * 4096 < whole.size(); ++page) {
      std::string damaged = whole;
      std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(page * 4096), 64, '\xee');
      write_file(path, damaged);
      refused += refusal(path).empty() ? 0 : 1;
    }
    CHECK(refused == static_cast<int>(whole.size() / 4096) - 1);
  }
  SECTION("in the schema") {
    whole.replace(at, 12, "CREATE XABLE");
    write_file(path, whole);
    CHECK_THAT(refusal(path), Contains("damaged"));
  }
}

TEST_CASE("store: a log without its database is refused") {
  const TempDir dir;
  write_file(dir.file("state.db-wal"), "frames");
  CHECK_THAT(refusal(dir.file("state.db")), Contains("is missing but its log"));
}

TEST_CASE("store: wrong modes and kinds of file are refused with the command that helps") {
  const TempDir dir;
  const std::string path = dir.file("state.db");
  SECTION("file that others can read") {
    make_store(path);
    std::filesystem::permissions(path, std::filesystem::perms(0640));
    CHECK_THAT(refusal(path), Contains("chmod 0600"));
  }
  SECTION("directory that others can write") {
    std::filesystem::permissions(dir.path(), std::filesystem::perms(0770));
    CHECK_THAT(refusal(path), Contains("chmod go-w"));
  }
  SECTION("symlink") {
    std::filesystem::create_symlink("/etc/passwd", path);
    CHECK_FALSE(refusal(path).empty());
  }
  SECTION("directory") {
    std::filesystem::create_directory(path);
    CHECK_THAT(refusal(path), Contains("not a regular file"));
  }
  SECTION("no state directory") {
    CHECK_THAT(refusal(dir.file("none/state.db")), Contains("state directory"));
  }
}

// case T59
TEST_CASE("store: a second opener is refused while the first lives") {
  const TempDir dir;
  const std::string path = dir.file("state.db");
  with_store(path, [&](Store&) -> async::Task<void> {
    CHECK_THAT(refusal(path), Contains("another ate-noded uses"));
    co_return;
  });
  CHECK(refusal(path).empty());
}

TEST_CASE("store: a half-made creation is begun anew") {
  const TempDir dir;
  write_file(dir.file("state.db.new"), "half");
  CHECK(count_actors(dir.file("state.db")) == 0);
  CHECK_FALSE(std::filesystem::exists(dir.file("state.db.new")));
}

TEST_CASE("store: a newer schema is refused and names the copy to go back to") {
  const TempDir dir;
  const std::string path = dir.file("state.db");
  make_store(path);
  run_sql(path, "PRAGMA user_version = 999");
  CHECK_THAT(refusal(path), Contains("schema version 999") && Contains(".before-v"));
}

TEST_CASE("store: a database of version 1 is read by this build") {
  const TempDir dir;
  const std::string path = dir.file("state.db");
  run_sql(path, read_file(std::string(ATE_TEST_FIXTURES) + "/store/v1.sql"));
  store::Loaded loaded;
  with_store(path, [&](Store& store) -> async::Task<void> {
    loaded = store.load().value();
    co_return;
  });
  REQUIRE(loaded.actors.size() == 1);
  CHECK(loaded.actors[0]->actor().metadata().name() == "c1");
  CHECK(loaded.actors[0]->actor().status().state() == v1alpha1::ActorStatus::PAUSED);
  REQUIRE(loaded.objects.size() == 1);
  CHECK(loaded.objects[0].source == "/etc/ate/counter.yaml");
  REQUIRE(loaded.snapshots.size() == 1);
  REQUIRE(loaded.running_operations.size() == 1);
  CHECK(loaded.last_event_id == 41);
  CHECK(loaded.last_resource_version == 17);
}

TEST_CASE("store: a migration copies the database first and goes forward as a whole") {
  const TempDir dir;
  const std::string path = dir.file("state.db");
  make_store(path);
  const std::int64_t current = store::migrations().back().version;
  const store::Migration good{current + 1, "CREATE TABLE added (a INTEGER) STRICT;"};
  const store::Migration bad{current + 2, "CREATE TABLE half (a INTEGER) STRICT; SELECT nonsense;"};
  std::vector<store::Migration> steps(store::migrations().begin(), store::migrations().end());
  steps.push_back(good);

  auto database = store::Database::open(path, store::Database::Mode::Existing).value();
  SECTION("a step that works") {
    REQUIRE(store::migrate(database, path, steps));
    CHECK(database.query_integer("PRAGMA user_version").value() == current + 1);
    const std::string copy = path + ".before-v" + std::to_string(current + 1);
    CHECK((std::filesystem::status(copy).permissions() & std::filesystem::perms(077)) ==
          std::filesystem::perms::none);
    database.close();
    std::filesystem::rename(copy, path);
    CHECK(count_actors(path) == 50);
  }
  SECTION("a step that fails leaves the version before it") {
    steps.push_back(bad);
    const Status done = store::migrate(database, path, steps);
    REQUIRE_FALSE(done.has_value());
    CHECK_THAT(done.error().message(), Contains("migrating"));
    CHECK(database.query_integer("PRAGMA user_version").value() == current + 1);
    CHECK(
        database.query_integer("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").value() ==
        0);
  }
}

TEST_CASE("store: kinds of SQLite failures") {
  using store::classify;
  using store::Failure;
  CHECK(classify(SQLITE_FULL, 0) == Failure::DiskFull);
  CHECK(classify(SQLITE_IOERR_WRITE, EDQUOT) == Failure::DiskFull);
  CHECK(classify(SQLITE_IOERR_SHMSIZE, 0) == Failure::DiskFull);
  CHECK(classify(SQLITE_IOERR_FSYNC, EIO) == Failure::InputOutput);
  CHECK(classify(SQLITE_BUSY_SNAPSHOT, 0) == Failure::Busy);
  CHECK(classify(SQLITE_CONSTRAINT_UNIQUE, 0) == Failure::Constraint);
  CHECK(classify(SQLITE_NOTADB, 0) == Failure::Damaged);
  CHECK(classify(SQLITE_MISUSE, 0) == Failure::Other);
}
