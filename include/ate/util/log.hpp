#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace ate {

enum class LogLevel : std::uint8_t { Error = 3, Warning = 4, Info = 6, Debug = 7 };

/// Parses `error|warning|info|debug`; false when it is none of them.
[[nodiscard]] bool parse_log_level(std::string_view text, LogLevel& level);

/// The daemon's own log: one line per event to standard error, `<priority>` first when journald
/// reads it (JOURNAL_STREAM is set). Only engine, api and daemon log (style rule 16). Text is
/// escaped, so that nothing from a guest can forge a line.
class Log {
 public:
  using Fields = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  explicit Log(LogLevel threshold);

  void set_threshold(LogLevel threshold) noexcept { threshold_ = threshold; }

  void write(LogLevel level, std::string_view message, Fields fields) const;

  void error(std::string_view message, Fields fields) const {
    write(LogLevel::Error, message, fields);
  }

  void warning(std::string_view message, Fields fields) const {
    write(LogLevel::Warning, message, fields);
  }

  void info(std::string_view message, Fields fields) const {
    write(LogLevel::Info, message, fields);
  }

  void debug(std::string_view message, Fields fields) const {
    write(LogLevel::Debug, message, fields);
  }

 private:
  LogLevel threshold_;
  bool journal_;
};

/// Control characters escaped, at most `limit` bytes of input. Twice gives the same as once.
[[nodiscard]] std::string escape_text(std::string_view text, std::size_t limit);

}  // namespace ate
