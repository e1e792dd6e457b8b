#include "logs/log_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

namespace ate::logs {

namespace {

constexpr std::int64_t kTailBlock = 64LL << 10;
constexpr int kPunchRetries = 4;

/// Appends `line` (without its newline), cut where it is too long, and a newline.
void append_line(std::string_view line, std::string& out) {
  while (line.size() > kMaxLineBytes) {
    out.append(line.substr(0, kMaxLineBytes));
    out += '\n';
    line.remove_prefix(kMaxLineBytes);
  }
  out.append(line);
  out += '\n';
}

/// Moves whole lines of `text` to `out`; how many bytes of it they were.
std::size_t take_lines(std::string_view text, std::string& out) {
  std::size_t taken = 0;
  for (;;) {
    const std::size_t newline = text.find('\n', taken);
    if (newline == std::string_view::npos) {
      return taken;
    }
    append_line(text.substr(taken, newline - taken), out);
    taken = newline + 1;
  }
}

}  // namespace

LogFile::LogFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

Result<LogFile> LogFile::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    return fail(Error::from_errno("open log " + path, errno,
                                  errno == ENOENT ? Errc::NotFound : Errc::Internal));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(Errc::Internal, "log " + path + " is not a regular file");
  }
  return LogFile(std::move(fd), path);
}

Result<std::int64_t> LogFile::size() const {
  struct stat info{};
  if (::fstat(fd_.get(), &info) != 0) {
    return fail(Error::from_errno("stat log " + path_, errno));
  }
  return info.st_size;
}

Result<std::int64_t> LogFile::first_kept(std::int64_t from) const {
  const off_t data = ::lseek(fd_.get(), from, SEEK_DATA);
  if (data >= 0) {
    return data;
  }
  if (errno == ENXIO) {  // a hole up to the end, or the end itself
    return size();
  }
  return fail(Error::from_errno("read log " + path_, errno));
}

Result<std::string> LogFile::bytes_at(std::int64_t offset, std::size_t count) const {
  std::string bytes(count, '\0');
  std::size_t got = 0;
  while (got < count) {
    const ssize_t more = ::pread(fd_.get(), bytes.data() + got, count - got,
                                 offset + static_cast<std::int64_t>(got));
    if (more < 0 && errno == EINTR) {
      continue;
    }
    if (more < 0) {
      return fail(Error::from_errno("read log " + path_, errno));
    }
    if (more == 0) {
      break;
    }
    got += static_cast<std::size_t>(more);
  }
  bytes.resize(got);
  return bytes;
}

Result<LogFile::Window> LogFile::window(std::int64_t cursor, std::size_t limit) const {
  for (int attempt = 0; attempt < kPunchRetries; ++attempt) {
    Window window;
    ATE_ASSIGN(window.start, first_kept(cursor));
    ATE_ASSIGN(window.bytes, bytes_at(window.start, limit));
    window.at_end = window.bytes.size() < limit;
    // A hole punched between the two would read as zeros.
    ATE_ASSIGN(const std::int64_t still, first_kept(window.start));
    if (still == window.start) {
      return window;
    }
  }
  return fail(Errc::Unavailable, "log " + path_ + " is being shortened; try again");
}

void LogFile::Window::cut(std::int64_t until) {
  const std::int64_t surplus = start + static_cast<std::int64_t>(bytes.size()) - until;
  if (surplus >= 0) {
    bytes.resize(bytes.size() - std::min(bytes.size(), static_cast<std::size_t>(surplus)));
    at_end = true;
  }
}

Result<LogFile::Piece> LogFile::lines(std::int64_t cursor, const Bounds& bounds) const {
  ATE_ASSIGN(const std::int64_t end, size());
  const bool truncated = cursor > end;  // by somebody else: we only punch
  const std::int64_t from = truncated ? 0 : cursor;
  if (bounds.until >= 0 && (truncated || from >= bounds.until)) {
    return Piece{.bytes = {}, .next = cursor, .dropped = false};
  }
  // More than one longest line, so that there is always something to hand out.
  ATE_ASSIGN(Window kept, window(from, std::max(bounds.limit, 2 * kMaxLineBytes)));
  if (bounds.until >= 0) {
    kept.cut(bounds.until);
  }
  std::string_view text = kept.bytes;
  if (kept.start > from) {
    // What is kept begins within a line, unless that is one without end.
    const std::size_t newline = text.substr(0, kMaxLineBytes).find('\n');
    text.remove_prefix(newline == std::string_view::npos ? 0 : newline + 1);
  }
  Piece piece;
  text.remove_prefix(take_lines(text, piece.bytes));
  if (bounds.unfinished && kept.at_end && !text.empty()) {
    append_line(text, piece.bytes);
    text = {};
  } else if (piece.bytes.empty() && text.size() > kMaxLineBytes) {
    append_line(text.substr(0, kMaxLineBytes), piece.bytes);
    text.remove_prefix(kMaxLineBytes);
  }
  if (piece.bytes.empty()) {
    piece.next = cursor;  // also when bytes are gone: that is told with the next ones
    return piece;
  }
  piece.dropped = truncated || kept.start > from;
  piece.next = kept.start + static_cast<std::int64_t>(kept.bytes.size() - text.size());
  return piece;
}

Result<std::int64_t> LogFile::tail(std::int64_t count, bool unfinished) const {
  ATE_ASSIGN(std::int64_t end, size());
  std::int64_t left = count + 1;  // the newline in front of the first of them
  if (unfinished && end > 0) {
    ATE_ASSIGN(const std::string last, bytes_at(end - 1, 1));
    if (last != "\n" && --left == 0) {
      return end;
    }
  }
  while (end > 0) {
    const std::int64_t start = std::max<std::int64_t>(0, end - kTailBlock);
    ATE_ASSIGN(const std::string block, bytes_at(start, static_cast<std::size_t>(end - start)));
    for (std::size_t at = block.size(); at > 0; --at) {
      if (block[at - 1] == '\n' && --left == 0) {
        return start + static_cast<std::int64_t>(at);
      }
    }
    ATE_ASSIGN(const std::int64_t kept, first_kept(0));
    end = kept >= start ? 0 : start;  // below is nothing but a hole
  }
  return 0;
}

}  // namespace ate::logs
