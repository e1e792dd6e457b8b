#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ate/util/result.hpp"
#include "http/parser.hpp"

namespace ate::http {

/// How the end of a body is known.
enum class BodyKind : std::uint8_t { None, Length, Chunked, UntilClose };

struct Framing {
  BodyKind kind = BodyKind::None;
  std::uint64_t length = 0;  // of Length; also of replies without a body that announce one (HEAD)
  bool announced = false;    // a Content-Length was there
  bool keep_alive = false;   // what the peer's head allows
};

/// The checks of our own before routing (Beast 1.81 accepts what they refuse): version, Host,
/// Content-Length, Transfer-Encoding, origin-form target. Malformed, BodyTooLarge never.
[[nodiscard]] Result<Framing> check_request(const Head& head);

/// Framing of a final reply to `method`; Malformed when it is ambiguous.
[[nodiscard]] Result<Framing> check_reply(const Head& head, std::string_view method);

/// Takes a body out of its framing, byte for byte, with a constant amount of state. Chunk
/// extensions and trailers are read over, within bounds.
class BodyDecoder {
 public:
  enum class Step : std::uint8_t { Data, NeedMore, End };

  struct Piece {
    Step step = Step::NeedMore;
    std::size_t consumed = 0;  // of the input, framing included
    std::string_view data;     // part of the input; not empty when step is Data
  };

  BodyDecoder() noexcept = default;

  explicit BodyDecoder(const Framing& framing) noexcept
      : kind_(framing.kind), left_(framing.kind == BodyKind::Length ? framing.length : 0) {}

  /// Malformed when the chunk framing is wrong. NeedMore consumes all of the input.
  [[nodiscard]] Result<Piece> next(std::string_view input);
  /// The peer will send no more: ok when the body is complete by that.
  [[nodiscard]] bool ends_at_close() const noexcept;

  [[nodiscard]] bool done() const noexcept {
    return kind_ == BodyKind::None || (kind_ == BodyKind::Length && left_ == 0) ||
           state_ == State::Done;
  }

  [[nodiscard]] BodyKind kind() const noexcept { return kind_; }

  /// Bytes still to come of a body of known length.
  [[nodiscard]] std::uint64_t left() const noexcept { return left_; }

 private:
  enum class State : std::uint8_t {
    SizeFirst,
    Size,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    LineStart,
    Line,
    LineLf,
    LastLf,
    Done
  };

  [[nodiscard]] Status chunk_byte(unsigned char c);
  [[nodiscard]] Status size_byte(unsigned char c);
  [[nodiscard]] Status trailer_byte(unsigned char c);

  BodyKind kind_ = BodyKind::None;
  State state_ = State::SizeFirst;
  std::uint64_t left_ = 0;
  std::size_t framing_bytes_ = 0;  // of this chunk's header line, or of the trailer
};

}  // namespace ate::http
