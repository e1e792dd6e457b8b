#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ate/util/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace ate::store {

/// A prepared statement. Runs only through Execution, which resets it.
class Statement {
 public:
  Statement() noexcept = default;
  explicit Statement(sqlite3_stmt* handle) noexcept;

 private:
  friend class Execution;

  struct Finalize {
    void operator()(sqlite3_stmt* handle) const noexcept;
  };

  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
};

/// One run of a statement: parameters are bound in order, and whatever happens the statement is
/// reset at the end of the scope (one that is not keeps a read transaction open). What is bound is
/// borrowed until then.
class Execution {
 public:
  explicit Execution(Statement& statement) noexcept;
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  Execution(Execution&&) = delete;
  Execution& operator=(Execution&&) = delete;

  Execution& text(std::string_view value);
  Execution& blob(std::string_view value);
  Execution& integer(std::int64_t value);

  /// true: a row is there to be read; false: the end.
  [[nodiscard]] Result<bool> next();
  /// Runs to the end, dropping rows.
  [[nodiscard]] Status run();

  [[nodiscard]] std::string column_text(int column) const;
  [[nodiscard]] std::string_view column_bytes(int column) const;
  [[nodiscard]] std::int64_t column_integer(int column) const;

 private:
  sqlite3_stmt* handle_;
  int parameter_ = 0;
  int bound_ = 0;  // first error of a bind, SQLITE_OK = 0
};

/// The connection. Used by one thread at a time.
class Database {
 public:
  enum class Mode { Existing, Create };

  Database() noexcept = default;
  /// Opens `path`; Create makes the file (its mode is the caller's umask: pre-create it).
  [[nodiscard]] static Result<Database> open(const std::string& path, Mode mode);

  /// Defensive mode: SQL can't write the schema or the file's own structures.
  [[nodiscard]] Status harden();
  [[nodiscard]] Result<Statement> prepare(std::string_view sql);
  /// Runs statements of our own text.
  [[nodiscard]] Status execute(const std::string& sql);
  /// First column of the first row as text or number; "" or 0 when there is none.
  [[nodiscard]] Result<std::string> query_text(std::string_view sql);
  [[nodiscard]] Result<std::int64_t> query_integer(std::string_view sql);

  [[nodiscard]] bool in_transaction() const noexcept;
  [[nodiscard]] std::int64_t last_insert_id() const noexcept;
  /// Turns SQLite's own checkpoints off and begins to count frames of the log.
  [[nodiscard]] Status own_checkpoints();
  /// Frames in the write-ahead log after the last commit.
  [[nodiscard]] int wal_frames() const noexcept;
  /// Moves the log's content into the file; `truncate` also empties the log.
  [[nodiscard]] Status checkpoint(bool truncate);
  /// Interrupts statements after `milliseconds` from now; 0 = no limit.
  void set_time_limit(std::int64_t milliseconds) noexcept;
  void release_memory() noexcept;

  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != nullptr; }

  void close() noexcept { handle_.reset(); }

 private:
  struct Close {
    void operator()(sqlite3* handle) const noexcept;
  };

  // Behind a pointer: SQLite's hooks keep its address while the Database moves.
  struct Observed {
    int wal_frames = 0;
    std::int64_t deadline_ns = 0;
  };

  std::unique_ptr<Observed> observed_;
  std::unique_ptr<sqlite3, Close> handle_;
};

/// An error of SQLite is not a plain Internal: full disk, busy (a foreign writer), failed I/O.
enum class Failure { Constraint, DiskFull, Busy, InputOutput, Interrupted, Damaged, Other };

/// What kind of failure the last call on `handle` was, by its extended code.
[[nodiscard]] Failure classify(int extended_code, int system_errno) noexcept;
/// The kind that an Error made by this module carries (member `sqliteCode`).
[[nodiscard]] Failure failure_of(const Error& error) noexcept;

}  // namespace ate::store
