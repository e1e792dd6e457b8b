#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ate/util/result.hpp"

struct XXH3_state_s;

namespace ate::artifacts {

/// Streaming XXH3-128 for payloads: it finds damage, it does not resist an attacker; the manifest
/// that carries it is bound by SHA-256.
class Xxh3 {
 public:
  Xxh3();

  void update(std::span<const std::byte> bytes);
  /// 32 hexadecimal digits, as `xxhsum -H2` prints them.
  [[nodiscard]] std::string finish() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };

  std::unique_ptr<XXH3_state_s, Free> state_;
};

/// Buffer of everything that reads whole files: large enough for the disk, small enough for many at
/// once.
inline constexpr std::size_t kReadBytes = std::size_t{1} << 20U;

/// Reads at `offset` into `buffer`; the part that was filled, empty at the end.
[[nodiscard]] Result<std::span<const std::byte>> read_at(int fd, std::int64_t offset,
                                                         std::span<std::byte> buffer,
                                                         const std::string& name);

/// Identity of a file's content as the kernel tells it: dev, ino, size, mtime, ctime.
[[nodiscard]] std::string identity_of(const struct stat& info);

/// SHA-256 of all of `fd`, lower-case hex.
[[nodiscard]] Result<std::string> sha256_descriptor(int fd, const std::string& name);

}  // namespace ate::artifacts
