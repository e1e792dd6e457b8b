#include "image/stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ate::image {

Status ByteSource::skip(std::uint64_t count) {
  std::array<std::byte, 16384> buffer{};
  while (count > 0) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(count, buffer.size()));
    ATE_ASSIGN(const std::size_t got, read(std::span(buffer.data(), want)));
    if (got == 0) {
      return fail(Errc::ImageInvalid, "the data ends early");
    }
    count -= got;
  }
  return {};
}

Result<std::size_t> FileRange::read(std::span<std::byte> out) {
  if (left_ == 0) {
    return 0;
  }
  const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(left_, out.size()));
  ssize_t got = -1;
  do {
    got = ::pread(fd_, out.data(), want, static_cast<off_t>(offset_));
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return fail(Error::from_errno("reading the image", errno));
  }
  if (got == 0) {
    return fail(Errc::ImageInvalid, "the file ends early: it was cut off or replaced");
  }
  const auto count = static_cast<std::size_t>(got);
  offset_ += count;
  left_ -= count;
  return count;
}

Status FileRange::skip(std::uint64_t count) {
  if (count > left_) {
    return fail(Errc::ImageInvalid, "the file ends early: it was cut off or replaced");
  }
  offset_ += count;
  left_ -= count;
  return {};
}

Result<std::size_t> MemorySource::read(std::span<std::byte> out) {
  const std::size_t count = std::min(out.size(), bytes_.size());
  std::memcpy(out.data(), bytes_.data(), count);
  bytes_ = bytes_.subspan(count);
  return count;
}

Result<std::size_t> HashingSource::read(std::span<std::byte> out) {
  ATE_ASSIGN(const std::size_t count, inner_.read(out));
  hash_.update(out.first(count));
  passed_ += count;
  return count;
}

Status HashingSource::verify(const std::string& digest, const std::string& what) {
  std::array<std::byte, 16384> rest{};
  while (true) {
    ATE_ASSIGN(const std::size_t count, read(rest));
    if (count == 0) {
      break;
    }
  }
  const std::string actual = "sha256:" + hash_.finish();
  if (actual != digest) {
    return fail(Errc::ImageInvalid, what + " has digest " + actual + ", expected " + digest +
                                        ": the image is damaged or was replaced");
  }
  return {};
}

}  // namespace ate::image
