#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::logs {

/// Longest line that is handed out in one piece.
inline constexpr std::size_t kMaxLineBytes = std::size_t{16} << 10U;

/// One stream's file, read while it grows and is punched.
class LogFile {
 public:
  /// NotFound when missing.
  [[nodiscard]] static Result<LogFile> open(const std::string& path);

  struct Piece {
    std::string bytes;
    std::int64_t next = 0;  // cursor after it
    bool dropped = false;
  };

  struct Bounds {
    std::size_t limit = 0;    // bytes at once, about
    std::int64_t until = -1;  // offset where it ends, whatever is written beyond; -1 = none
    bool unfinished = false;  // also a last line without newline
  };

  /// Lines from `cursor` on.
  [[nodiscard]] Result<Piece> lines(std::int64_t cursor, const Bounds& bounds) const;
  /// Where the last `count` lines begin, one without newline counted where `unfinished`; 0 when
  /// there are no more than that.
  [[nodiscard]] Result<std::int64_t> tail(std::int64_t count, bool unfinished) const;
  [[nodiscard]] Result<std::int64_t> size() const;

 private:
  struct Window {
    std::string bytes;
    std::int64_t start = 0;  // offset of the first byte: the cursor, or where kept bytes begin
    bool at_end = false;     // nothing followed when it was read

    /// Drops what lies at `until` and beyond.
    void cut(std::int64_t until);
  };

  LogFile(UniqueFd fd, std::string path);
  [[nodiscard]] Result<Window> window(std::int64_t cursor, std::size_t limit) const;
  [[nodiscard]] Result<std::int64_t> first_kept(std::int64_t from) const;
  [[nodiscard]] Result<std::string> bytes_at(std::int64_t offset, std::size_t count) const;

  UniqueFd fd_;
  std::string path_;
};

}  // namespace ate::logs
