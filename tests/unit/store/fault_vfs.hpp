#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ate::test {

/// One call of SQLite on the database or its log.
struct FileCall {
  enum class Kind { Write, Truncate, Sync };

  Kind kind = Kind::Write;
  bool log = false;  // on the -wal file
  std::int64_t offset = 0;
  std::string bytes;
};

/// Stands between SQLite and its "unix" VFS for as long as it lives: fails chosen calls, and
/// records what was written so that a power cut can be played.
class FaultVfs {
 public:
  FaultVfs();
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;
  FaultVfs(FaultVfs&&) = delete;
  FaultVfs& operator=(FaultVfs&&) = delete;

  /// The `nth` write from now (1 = the next) and all later ones return `code`; 0 = none.
  void fail_writes(int nth, int code);
  /// The next sync of the log returns SQLITE_IOERR_FSYNC.
  void fail_next_sync();
  /// True when a failure was handed out since the last call of this function.
  [[nodiscard]] bool was_hit();

  void record(bool on);
  [[nodiscard]] const std::vector<FileCall>& calls() const;
};

}  // namespace ate::test
