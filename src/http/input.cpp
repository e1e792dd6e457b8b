#include "http/input.hpp"

#include <algorithm>
#include <cstring>

namespace ate::http {

void Buffer::consume(std::size_t bytes) noexcept {
  begin_ += bytes;
  if (begin_ == end_) {
    begin_ = 0;
    end_ = 0;
  }
}

void Buffer::make_room(std::size_t capacity) {
  const std::size_t held = end_ - begin_;
  if (capacity_ < capacity || held == capacity_) {
    const std::size_t grown =
        std::max({capacity, held == capacity_ ? capacity_ * 2 : capacity_, kSmall});
    auto fresh = std::make_unique_for_overwrite<char[]>(grown);
    if (held != 0) {
      std::memcpy(fresh.get(), data_.get() + begin_, held);
    }
    data_ = std::move(fresh);
    capacity_ = grown;
  } else if (begin_ != 0) {
    std::memmove(data_.get(), data_.get() + begin_, held);
  }
  begin_ = 0;
  end_ = held;
}

void Buffer::shrink() {
  const std::size_t held = end_ - begin_;
  if (capacity_ <= kSmall || held > kSmall) {
    return;
  }
  auto fresh = std::make_unique_for_overwrite<char[]>(kSmall);
  if (held != 0) {
    std::memcpy(fresh.get(), data_.get() + begin_, held);
  }
  data_ = std::move(fresh);
  capacity_ = kSmall;
  begin_ = 0;
  end_ = held;
}

async::Task<long> Input::fill(std::size_t capacity) {
  buffer_.make_room(std::min(capacity, read_size_));
  const std::size_t room = buffer_.free_size();
  const long got = co_await stream_.read_some(buffer_.free_begin(), room);
  if (got == static_cast<long>(room)) {
    read_size_ = std::max(read_size_, std::min(capacity, read_size_ * 4));
  }
  if (got > 0) {
    buffer_.received(static_cast<std::size_t>(got));
  }
  co_return got;
}

HeadScan::State Input::scan_head() noexcept {
  if (scan_.length() == 0 && !skipped_line_) {
    // RFC 9112 2.2: an empty line before a request is let pass, once.
    if (buffer_.view() == "\r") {
      return HeadScan::State::NeedMore;
    }
    if (buffer_.view().starts_with("\r\n")) {
      buffer_.consume(2);
      skipped_line_ = true;
    }
  }
  return scan_.feed(buffer_.view());
}

void Input::begin_body(const Framing& framing) noexcept {
  buffer_.consume(scan_.length());
  scan_.reset();
  skipped_line_ = false;
  body_ = BodyDecoder(framing);
  wire_bytes_ = 0;
}

Result<BodyDecoder::Piece> Input::piece() {
  Result<BodyDecoder::Piece> piece = body_.next(buffer_.view());
  if (piece) {
    wire_bytes_ += piece->consumed;
    buffer_.consume(piece->consumed);
  }
  return piece;
}

async::Task<Result<std::string_view>> Input::next_piece(std::size_t capacity) {
  for (;;) {
    ATE_CO_ASSIGN(const BodyDecoder::Piece found, piece());
    if (found.step == BodyDecoder::Step::Data) {
      co_return found.data;
    }
    if (found.step == BodyDecoder::Step::End) {
      co_return std::string_view();
    }
    const long got = co_await fill(capacity);
    if (got > 0) {
      continue;
    }
    if (got == 0 && body_.ends_at_close()) {
      co_return std::string_view();
    }
    co_return fail(Errc::Cancelled, "the connection ended before the body did");
  }
}

}  // namespace ate::http
