#pragma once

#include <utility>

namespace ate {

/// Sole owner of a file descriptor. A raw fd must be visibly given away
/// (`UniqueFd(std::move(fd))`).
class UniqueFd {
 public:
  UniqueFd() noexcept = default;

  explicit UniqueFd(int&& fd) noexcept : fd_(std::exchange(fd, -1)) {}

  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  /// Closes the old descriptor; safe for self-move.
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd();

  [[nodiscard]] int get() const noexcept { return fd_; }

  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

  /// Gives up ownership.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

  void reset() noexcept;

 private:
  int fd_ = -1;
};

}  // namespace ate
