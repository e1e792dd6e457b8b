#include "ate/util/fd.hpp"

#include <unistd.h>

namespace ate {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

UniqueFd::~UniqueFd() {
  reset();
}

void UniqueFd::reset() noexcept {
  if (fd_ >= 0) {
    // IGNORED: after close(2) the descriptor is gone whatever it returns (Linux).
    static_cast<void>(::close(fd_));
    fd_ = -1;
  }
}

}  // namespace ate
