#include "ate/util/log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace ate {

namespace {

constexpr std::size_t kFieldLimit = 2048;

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::Error:
      return "error";
    case LogLevel::Warning:
      return "warning";
    case LogLevel::Info:
      return "info";
    case LogLevel::Debug:
      return "debug";
  }
  return "?";
}

/// Between quotes in a line, so that no value can pass for another field.
std::string quotable(std::string_view text) {
  std::string out;
  for (const char c : escape_text(text, kFieldLimit)) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

}  // namespace

bool parse_log_level(std::string_view text, LogLevel& level) {
  for (const LogLevel candidate :
       {LogLevel::Error, LogLevel::Warning, LogLevel::Info, LogLevel::Debug}) {
    if (text == level_name(candidate)) {
      level = candidate;
      return true;
    }
  }
  return false;
}

std::string escape_text(std::string_view text, std::size_t limit) {
  std::string out;
  const bool cut = text.size() > limit;
  text = text.substr(0, limit);
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (cut) {
    out += "...";
  }
  return out;
}

Log::Log(LogLevel threshold)
    : threshold_(threshold), journal_(std::getenv("JOURNAL_STREAM") != nullptr) {}

void Log::write(LogLevel level, std::string_view message, Fields fields) const {
  if (level > threshold_) {
    return;
  }
  std::string line =
      journal_ ? fmt::format("<{}>", int(level)) : fmt::format("{}: ", level_name(level));
  line += quotable(message);
  for (const auto& [key, value] : fields) {
    line += fmt::format(" {}=\"{}\"", key, quotable(value));
  }
  line += '\n';
  // IGNORED: a log that can't be written must not stop the daemon.
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

}  // namespace ate
