#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "ate/async/task.hpp"
#include "http/framing.hpp"
#include "http/head_scan.hpp"
#include "http/stream.hpp"

namespace ate::http {

/// Bytes received and not yet used. Holds little until much is needed, and gives it back.
class Buffer {
 public:
  static constexpr std::size_t kSmall = 2048;

  [[nodiscard]] std::string_view view() const noexcept {
    return {data_.get() + begin_, end_ - begin_};
  }

  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }

  void consume(std::size_t bytes) noexcept;
  /// Makes room to receive into: at least one byte, in a buffer of at least `capacity`.
  void make_room(std::size_t capacity);

  [[nodiscard]] char* free_begin() noexcept { return data_.get() + end_; }

  [[nodiscard]] std::size_t free_size() const noexcept { return capacity_ - end_; }

  void received(std::size_t bytes) noexcept { end_ += bytes; }

  /// Goes back to the small size when what is held fits.
  void shrink();

 private:
  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

/// Takes messages off a stream: a head, then its body piece by piece.
class Input {
 public:
  Input(Stream& stream, std::size_t head_bytes, std::size_t head_lines) noexcept
      : stream_(stream), scan_(head_bytes, head_lines) {}

  /// Reads once: as Stream::read_some. The buffer begins small and grows up to `capacity` while
  /// reads fill it.
  [[nodiscard]] async::Task<long> fill(std::size_t capacity);

  [[nodiscard]] const Buffer& buffer() const noexcept { return buffer_; }

  /// Looks at what came; Complete: take_head() gives the head.
  [[nodiscard]] HeadScan::State scan_head() noexcept;

  [[nodiscard]] const char* scan_reason() const noexcept { return scan_.reason(); }

  /// The complete head; the view is valid until begin_body().
  [[nodiscard]] std::string_view head() const noexcept {
    return buffer_.view().substr(0, scan_.length());
  }

  /// Drops the head and goes on with the body of that framing.
  void begin_body(const Framing& framing) noexcept;

  /// The next piece of the body that is there. Its data are valid until the next fill().
  [[nodiscard]] Result<BodyDecoder::Piece> piece();
  /// The next piece, read if need be: empty at the end of the body. Malformed: wrong framing.
  /// Cancelled: the stream ended or failed before the body did.
  [[nodiscard]] async::Task<Result<std::string_view>> next_piece(std::size_t capacity);

  [[nodiscard]] const BodyDecoder& body() const noexcept { return body_; }

  /// Bytes of the body's framing and data taken so far.
  [[nodiscard]] std::uint64_t wire_bytes() const noexcept { return wire_bytes_; }

  /// Drops everything that is held.
  void discard() noexcept { buffer_.consume(buffer_.view().size()); }

  void shrink() {
    buffer_.shrink();
    read_size_ = Buffer::kSmall;
  }

 private:
  Stream& stream_;
  HeadScan scan_;
  Buffer buffer_;
  BodyDecoder body_;
  std::uint64_t wire_bytes_ = 0;
  std::size_t read_size_ = Buffer::kSmall;
  bool skipped_line_ = false;
};

}  // namespace ate::http
