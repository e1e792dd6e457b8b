#include "store/sql.hpp"

#include <sqlite3.h>

#include <cerrno>
#include <chrono>
#include <utility>
#include <variant>

namespace ate::store {

namespace {

constexpr std::string_view kCodeMember = "sqliteCode";

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Errc code_of(Failure failure) {
  switch (failure) {
    case Failure::DiskFull:
      return Errc::DiskFull;
    case Failure::Busy:
      return Errc::Unavailable;
    case Failure::Constraint:
    case Failure::InputOutput:
    case Failure::Interrupted:
    case Failure::Damaged:
    case Failure::Other:
      return Errc::Internal;
  }
  return Errc::Internal;
}

Error make_error(sqlite3* handle, int code) {
  const int extended = handle == nullptr ? code : sqlite3_extended_errcode(handle);
  const int system = handle == nullptr ? 0 : sqlite3_system_errno(handle);
  const Failure failure = classify(extended, system);
  std::string text = "state database: ";
  // SQLite's own words for a full disk may be "disk I/O error" or "unable to open database file".
  text += failure == Failure::DiskFull ? "no space left on its disk"
          : handle == nullptr          ? sqlite3_errstr(code)
                                       : sqlite3_errmsg(handle);
  if (failure == Failure::Busy) {
    text += " (another process holds its write lock)";
  }
  return Error(code_of(failure), std::move(text), system)
      .with(std::string(kCodeMember), static_cast<std::int64_t>(extended));
}

}  // namespace

Failure classify(int extended_code, int system_errno) noexcept {
  switch (extended_code & 0xff) {
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return Failure::Constraint;
    case SQLITE_FULL:
      return Failure::DiskFull;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Failure::Busy;
    case SQLITE_INTERRUPT:
      return Failure::Interrupted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Failure::Damaged;
    case SQLITE_IOERR:
      // The log's index (-shm) is not data: SQLite says ENOSPC there as "disk I/O error".
      if (extended_code == SQLITE_IOERR_SHMSIZE || system_errno == ENOSPC ||
          system_errno == EDQUOT) {
        return Failure::DiskFull;
      }
      return Failure::InputOutput;
    default:  // SQLite's codes, not an enum of ours
      return Failure::Other;
  }
}

Failure failure_of(const Error& error) noexcept {
  for (const auto& [key, value] : error.members()) {
    const std::int64_t* code = std::get_if<std::int64_t>(&value);
    if (key == kCodeMember && code != nullptr) {
      return classify(static_cast<int>(*code), error.sys_errno());
    }
  }
  return Failure::Other;
}

Statement::Statement(sqlite3_stmt* handle) noexcept : handle_(handle) {}

void Statement::Finalize::operator()(sqlite3_stmt* handle) const noexcept {
  sqlite3_finalize(handle);  // IGNORED: repeats the error of the last step
}

Execution::Execution(Statement& statement) noexcept : handle_(statement.handle_.get()) {}

Execution::~Execution() {
  sqlite3_reset(handle_);  // IGNORED: repeats the error of the last step
  sqlite3_clear_bindings(handle_);
}

Execution& Execution::text(std::string_view value) {
  const int code = sqlite3_bind_text64(handle_, ++parameter_, value.data(), value.size(),
                                       SQLITE_STATIC, SQLITE_UTF8);
  bound_ = bound_ == SQLITE_OK ? code : bound_;
  return *this;
}

Execution& Execution::blob(std::string_view value) {
  const int code = sqlite3_bind_blob64(handle_, ++parameter_, value.empty() ? "" : value.data(),
                                       value.size(), SQLITE_STATIC);
  bound_ = bound_ == SQLITE_OK ? code : bound_;
  return *this;
}

Execution& Execution::integer(std::int64_t value) {
  const int code = sqlite3_bind_int64(handle_, ++parameter_, value);
  bound_ = bound_ == SQLITE_OK ? code : bound_;
  return *this;
}

Result<bool> Execution::next() {
  if (bound_ != SQLITE_OK) {
    return fail(make_error(sqlite3_db_handle(handle_), bound_));
  }
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) {
    return true;
  }
  if (code == SQLITE_DONE) {
    return false;
  }
  return fail(make_error(sqlite3_db_handle(handle_), code));
}

Status Execution::run() {
  for (;;) {
    ATE_ASSIGN(const bool row, next());
    if (!row) {
      return {};
    }
  }
}

std::string Execution::column_text(int column) const {
  return std::string(column_bytes(column));
}

std::string_view Execution::column_bytes(int column) const {
  const void* data = sqlite3_column_blob(handle_, column);
  const int size = sqlite3_column_bytes(handle_, column);
  if (data == nullptr || size <= 0) {
    return {};
  }
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

std::int64_t Execution::column_integer(int column) const {
  return sqlite3_column_int64(handle_, column);
}

void Database::Close::operator()(sqlite3* handle) const noexcept {
  sqlite3_close_v2(handle);  // IGNORED: v2 never fails for us
}

Result<Database> Database::open(const std::string& path, Mode mode) {
  Database database;
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE |
                    (mode == Mode::Create ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, "unix");
  database.handle_.reset(handle);
  if (code != SQLITE_OK) {
    return fail(make_error(handle, code).context("opening " + path));
  }
  database.observed_ = std::make_unique<Observed>();
  return database;
}

Status Database::harden() {
  for (const auto& [option, value] :
       {std::pair{SQLITE_DBCONFIG_DEFENSIVE, 1}, std::pair{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        std::pair{SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0}}) {
    if (const int code = sqlite3_db_config(handle_.get(), option, value, nullptr);
        code != SQLITE_OK) {
      return fail(make_error(handle_.get(), code));
    }
  }
  return {};
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) {
    return fail(make_error(handle_.get(), code));
  }
  return Statement(statement);
}

Status Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    return fail(make_error(handle_.get(), code));
  }
  return {};
}

Result<std::string> Database::query_text(std::string_view sql) {
  ATE_ASSIGN(Statement statement, prepare(sql));
  Execution execution(statement);
  ATE_ASSIGN(const bool row, execution.next());
  return row ? execution.column_text(0) : std::string{};
}

Result<std::int64_t> Database::query_integer(std::string_view sql) {
  ATE_ASSIGN(Statement statement, prepare(sql));
  Execution execution(statement);
  ATE_ASSIGN(const bool row, execution.next());
  return row ? execution.column_integer(0) : 0;
}

bool Database::in_transaction() const noexcept {
  return sqlite3_get_autocommit(handle_.get()) == 0;
}

std::int64_t Database::last_insert_id() const noexcept {
  return sqlite3_last_insert_rowid(handle_.get());
}

int Database::wal_frames() const noexcept {
  return observed_->wal_frames;
}

Status Database::own_checkpoints() {
  // The pragma first: it takes any hook away.
  ATE_TRY(execute("PRAGMA wal_autocheckpoint = 0"));
  sqlite3_wal_hook(
      handle_.get(),
      [](void* observed, sqlite3*, const char*, int frames) {
        static_cast<Observed*>(observed)->wal_frames = frames;
        return SQLITE_OK;
      },
      observed_.get());
  return {};
}

Status Database::checkpoint(bool truncate) {
  const int mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
  int left = 0;
  int done = 0;
  const int code = sqlite3_wal_checkpoint_v2(handle_.get(), nullptr, mode, &left, &done);
  if (code != SQLITE_OK) {
    return fail(make_error(handle_.get(), code));
  }
  // A complete pass lets the next commit start the log anew; the hook will say so.
  observed_->wal_frames = left > done ? left - done : 0;
  return {};
}

void Database::set_time_limit(std::int64_t milliseconds) noexcept {
  if (milliseconds == 0) {
    sqlite3_progress_handler(handle_.get(), 0, nullptr, nullptr);
    return;
  }
  observed_->deadline_ns = steady_ns() + milliseconds * 1'000'000;
  sqlite3_progress_handler(
      handle_.get(), 1000,
      [](void* observed) {
        return steady_ns() > static_cast<Observed*>(observed)->deadline_ns ? 1 : 0;
      },
      observed_.get());
}

void Database::release_memory() noexcept {
  sqlite3_db_release_memory(handle_.get());
}

}  // namespace ate::store
