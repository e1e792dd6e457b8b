#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

/// Opens (creates 0600, O_APPEND, O_NOFOLLOW) the pair of a container, whose name is a DNS label.
/// `directory` and missing parents are created 0700.
[[nodiscard]] Result<StdioFiles> open_stdio(const std::string& directory,
                                            const std::string& container);

/// Punches out everything but the newest `keep_bytes` of a file, page-aligned; returns the bytes
/// freed. The file's size and the offsets of what stays do not change. NotFound when missing.
[[nodiscard]] Result<std::int64_t> bound_file(const std::string& path, std::int64_t keep_bytes);

/// The same for every container's files in a directory. A directory that is missing has nothing to
/// shorten.
[[nodiscard]] Result<std::int64_t> bound_directory(const std::string& directory,
                                                   std::int64_t keep_bytes);

/// A place in both files, to continue from.
struct Cursor {
  std::int64_t out = 0;
  std::int64_t err = 0;
};

struct ReadOptions {
  std::string container;         // "" = the only one
  std::string stream;            // "" = both, "stdout", "stderr"
  std::int64_t tail_lines = -1;  // of each stream; -1 = everything kept
  bool unfinished = false;       // also what follows the last newline (not when following)
  /// Nothing from here on: an actor that writes faster than somebody reads would else never let a
  /// reader come to an end. A file that is truncated meanwhile ends there too. None = follow.
  std::optional<Cursor> until;
};

/// What a reader is to hand out: from the place of `tail_lines` to the ends as they are now.
struct Range {
  Cursor begin;
  Cursor end;
};

/// Complete lines from the cursor on (about `limit` bytes), each prefixed by nothing: the bytes as
/// written, but a line of more than 16 KiB is cut into several. Punched holes are skipped. Moves
/// the cursor. stdout comes before stderr: their order is not known.
struct Chunk {
  std::string bytes;     // empty: nothing more for now
  bool dropped = false;  // bytes between the cursor and the first kept byte are gone
};

/// Reads logs of one actor's directory. Blocking work on the pool. NotFound: it never wrote any, or
/// has no such container; InvalidValue: it has several, name one.
[[nodiscard]] async::Task<Result<Chunk>> read(async::Context& context, std::string directory,
                                              ReadOptions options, std::shared_ptr<Cursor> cursor,
                                              std::size_t limit);
/// Finds `tail_lines` and the ends without reading more of the files than those lines. The same
/// errors.
[[nodiscard]] async::Task<Result<Range>> start(async::Context& context, std::string directory,
                                               ReadOptions options);

}  // namespace ate::logs
