#include "artifacts/digest.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <vector>

#include "ate/artifacts/artifacts.hpp"
#include "ate/image/digest.hpp"
#include "ate/util/fd.hpp"

namespace ate::artifacts {

Xxh3::Xxh3() : state_(XXH3_createState()) {
  XXH3_128bits_reset(state_.get());
}

void Xxh3::Free::operator()(XXH3_state_s* state) const noexcept {
  XXH3_freeState(state);
}

void Xxh3::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string Xxh3::finish() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  XXH128_canonical_t canonical{};
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 0xfU];
  }
  return text;
}

Result<std::span<const std::byte>> read_at(int fd, std::int64_t offset, std::span<std::byte> buffer,
                                           const std::string& name) {
  for (;;) {
    const ssize_t got = ::pread(fd, buffer.data(), buffer.size(), offset);
    if (got >= 0) {
      return buffer.first(static_cast<std::size_t>(got));
    }
    if (errno != EINTR) {
      return fail(Error::from_errno("read " + name, errno));
    }
  }
}

std::string identity_of(const struct stat& info) {
  const auto nanoseconds = [](const struct timespec& time) {
    return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
  };
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) + ":" +
         std::to_string(info.st_size) + ":" + nanoseconds(info.st_mtim) + ":" +
         nanoseconds(info.st_ctim);
}

Result<std::string> sha256_descriptor(int fd, const std::string& name) {
  image::Sha256 digest;
  std::vector<std::byte> buffer(kReadBytes);
  std::int64_t offset = 0;
  for (;;) {
    ATE_ASSIGN(const std::span<const std::byte> part, read_at(fd, offset, buffer, name));
    if (part.empty()) {
      return digest.finish();
    }
    digest.update(part);
    offset += static_cast<std::int64_t>(part.size());
  }
}

std::string sha256_text(const std::string& text) {
  return image::sha256_hex(text);
}

}  // namespace ate::artifacts
