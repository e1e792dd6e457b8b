#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ate/image/digest.hpp"
#include "ate/util/result.hpp"
#include "image/oci.hpp"

namespace ate::image {

/// Bytes in order, from a file, through a hash, through a decompressor. Blocking.
class ByteSource {
 public:
  ByteSource() = default;
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ByteSource(ByteSource&&) = delete;
  ByteSource& operator=(ByteSource&&) = delete;

  /// At least one byte, or 0 at the end. `out` must not be empty.
  [[nodiscard]] virtual Result<std::size_t> read(std::span<std::byte> out) = 0;
  /// Passes over `count` bytes; ImageInvalid when there are fewer.
  [[nodiscard]] virtual Status skip(std::uint64_t count);
};

/// `size` bytes of a file from `offset`. `fd` is borrowed. A file that ends early is ImageInvalid.
class FileRange final : public ByteSource {
 public:
  FileRange(int fd, std::uint64_t offset, std::uint64_t size)
      : fd_(fd), offset_(offset), left_(size) {}

  [[nodiscard]] Result<std::size_t> read(std::span<std::byte> out) override;
  [[nodiscard]] Status skip(std::uint64_t count) override;

 private:
  int fd_;
  std::uint64_t offset_;
  std::uint64_t left_;
};

/// Bytes of memory that outlives it (tests, fuzzing).
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] Result<std::size_t> read(std::span<std::byte> out) override;

 private:
  std::span<const std::byte> bytes_;
};

/// Hashes what passes. `inner` is borrowed.
class HashingSource final : public ByteSource {
 public:
  explicit HashingSource(ByteSource& inner) : inner_(inner) {}

  [[nodiscard]] Result<std::size_t> read(std::span<std::byte> out) override;
  /// Reads to the end, then compares; `what` names the blob in the error.
  [[nodiscard]] Status verify(const std::string& digest, const std::string& what);

  [[nodiscard]] std::uint64_t passed() const noexcept { return passed_; }

 private:
  ByteSource& inner_;
  Sha256 hash_;
  std::uint64_t passed_ = 0;
};

/// Undoes `compression`; refuses data of another format, truncation and trailing junk. Several gzip
/// members and zstd frames in a row are one stream. `inner` is borrowed.
[[nodiscard]] std::unique_ptr<ByteSource> make_decompressor(ByteSource& inner,
                                                            Compression compression);

}  // namespace ate::image
