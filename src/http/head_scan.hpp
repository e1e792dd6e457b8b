#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ate::http {

/// Looks at the bytes of a message head as they come, each once: finds its end and refuses, before
/// any parser sees them, what parsers disagree on (bare LF, folded lines, control characters) and
/// what is too large.
class HeadScan {
 public:
  enum class State : std::uint8_t { NeedMore, Complete, Bad, TooLarge };

  HeadScan(std::size_t max_bytes, std::size_t max_lines) noexcept
      : max_bytes_(max_bytes), max_lines_(max_lines) {}

  /// `head` is everything received of this head so far, from its first byte.
  State feed(std::string_view head) noexcept;

  /// Length of the head with its empty line; valid after Complete.
  [[nodiscard]] std::size_t length() const noexcept { return seen_; }

  /// What is wrong; valid after Bad.
  [[nodiscard]] const char* reason() const noexcept { return reason_; }

  /// Ready for the next message.
  void reset() noexcept;

 private:
  State bad(const char* reason) noexcept;

  std::size_t max_bytes_;
  std::size_t max_lines_;
  std::size_t seen_ = 0;
  std::size_t lines_ = 0;
  std::size_t line_length_ = 0;
  bool after_cr_ = false;
  const char* reason_ = "";
};

}  // namespace ate::http
