#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/util/fd.hpp"

namespace ate::logs {

/// Actor output is two O_APPEND files per container, `<directory>/<container>.stdout` and
/// `.stderr`, bounded by hole punching; never a pipe that we read (design.md section 4).
struct StdioFiles {
  UniqueFd out;
  UniqueFd err;
};

/// Opens (creates 0600, O_APPEND, O_NOFOLLOW) the pair of a container. `directory` is created 0700.
[[nodiscard]] Result<StdioFiles> open_stdio(const std::string& directory,
                                            const std::string& container);

/// Punches out everything but the newest `keep_bytes` of a file, page-aligned; returns the bytes
/// freed.
[[nodiscard]] Result<std::int64_t> bound_file(const std::string& path, std::int64_t keep_bytes);

struct ReadOptions {
  std::string container;         // "" = the only one
  std::string stream;            // "" = both, "stdout", "stderr"
  std::int64_t tail_lines = -1;  // -1 = everything kept
};

/// A place in both files, to continue from.
struct Cursor {
  std::int64_t out = 0;
  std::int64_t err = 0;
};

/// Complete lines from the cursor on (up to `limit` bytes), each prefixed by nothing: the bytes as
/// written. Punched holes are skipped. Moves the cursor.
struct Chunk {
  std::string bytes;
  bool dropped = false;  // bytes between the cursor and the first kept byte are gone
};

/// Reads logs of one actor's directory. Blocking work on the pool.
[[nodiscard]] async::Task<Result<Chunk>> read(async::Context& context, std::string directory,
                                              ReadOptions options, std::shared_ptr<Cursor> cursor,
                                              std::size_t limit);
/// Places the cursor for `tail_lines`.
[[nodiscard]] async::Task<Result<Cursor>> start(async::Context& context, std::string directory,
                                                ReadOptions options);

}  // namespace ate::logs
