#include "http/framing.hpp"

#include <algorithm>
#include <charconv>

#include "http/headers.hpp"

namespace ate::http {

namespace {

constexpr std::size_t kMaxMethod = 32;
constexpr std::size_t kMaxChunkLine = 1024;      // a chunk's size with its extensions
constexpr std::size_t kMaxTrailer = 8UL * 1024;  // all trailer fields

/// Every value of the header `name`.
struct Values {
  std::size_t count = 0;
  std::string_view first;
};

Values values_of(const Headers& headers, std::string_view name) {
  Values values;
  for (const auto& [key, value] : headers) {
    if (iequals(key, name)) {
      values.first = values.count == 0 ? std::string_view(value) : values.first;
      ++values.count;
    }
  }
  return values;
}

Result<std::uint64_t> parse_length(const Values& values) {
  if (values.count > 1) {
    return fail(Errc::Malformed, "more than one Content-Length");
  }
  const std::string_view text = values.first;
  std::uint64_t length = 0;
  // from_chars takes digits only: no sign, no blank, no list.
  const std::from_chars_result end =
      std::from_chars(text.data(), text.data() + text.size(), length);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) {
    return fail(Errc::Malformed, "Content-Length is not one decimal number");
  }
  return length;
}

/// What requests and replies have in common.
Result<Framing> check_framing(const Head& head) {
  if (head.version != 10 && head.version != 11) {
    return fail(Errc::Malformed, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  Framing framing;
  framing.keep_alive = head.version == 11 ? !has_token(head.headers, "connection", "close")
                                          : has_token(head.headers, "connection", "keep-alive");
  const Values length = values_of(head.headers, "content-length");
  const Values coding = values_of(head.headers, "transfer-encoding");
  if (length.count != 0 && coding.count != 0) {
    return fail(Errc::Malformed, "Content-Length together with Transfer-Encoding");
  }
  if (coding.count != 0) {
    if (head.version != 11) {
      return fail(Errc::Malformed, "Transfer-Encoding needs HTTP/1.1");
    }
    if (coding.count > 1 || !iequals(coding.first, "chunked")) {
      return fail(Errc::Malformed, "the only Transfer-Encoding spoken here is 'chunked'");
    }
    framing.kind = BodyKind::Chunked;
  }
  if (length.count != 0) {
    ATE_ASSIGN(framing.length, parse_length(length));
    framing.announced = true;
    framing.kind = framing.length == 0 ? BodyKind::None : BodyKind::Length;
  }
  return framing;
}

int hex_value(unsigned char c) noexcept {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool is_control(unsigned char c) noexcept {
  return (c < 0x20 && c != '\t') || c == 0x7f;
}

}  // namespace

Result<Framing> check_request(const Head& head) {
  ATE_ASSIGN(Framing framing, check_framing(head));
  const std::size_t hosts = values_of(head.headers, "host").count;
  if (hosts > 1 || (hosts == 0 && head.version == 11)) {
    return fail(Errc::Malformed, "exactly one Host header is required");
  }
  if (head.method.size() > kMaxMethod) {
    return fail(Errc::Malformed, "the method's name is too long");
  }
  if (head.target.empty() || head.target.front() != '/') {
    return fail(Errc::Malformed, "the request target must be a path that begins with '/'");
  }
  if (head.target.find('#') != std::string::npos) {
    return fail(Errc::Malformed, "the request target holds a fragment ('#')");
  }
  const Values expect = values_of(head.headers, "expect");
  if (expect.count > 1 || (expect.count == 1 && !iequals(expect.first, "100-continue"))) {
    return fail(Errc::Malformed, "the only expectation known here is '100-continue'");
  }
  return framing;
}

Result<Framing> check_reply(const Head& head, std::string_view method) {
  ATE_ASSIGN(Framing framing, check_framing(head));
  if (method == "HEAD" || head.status == 204 || head.status == 304) {
    framing.kind = BodyKind::None;
    return framing;
  }
  if (framing.kind == BodyKind::None && !framing.announced) {
    framing.kind = BodyKind::UntilClose;
    framing.keep_alive = false;
  }
  return framing;
}

bool BodyDecoder::ends_at_close() const noexcept {
  return done() || kind_ == BodyKind::UntilClose;
}

Result<BodyDecoder::Piece> BodyDecoder::next(std::string_view input) {
  Piece piece;
  if (done()) {
    piece.step = Step::End;
    return piece;
  }
  if (kind_ == BodyKind::Chunked) {
    while (state_ != State::Data && state_ != State::Done && piece.consumed < input.size()) {
      ATE_TRY(chunk_byte(static_cast<unsigned char>(input[piece.consumed])));
      ++piece.consumed;
    }
    if (state_ == State::Done) {
      piece.step = Step::End;
      return piece;
    }
  }
  std::string_view rest = input.substr(piece.consumed);
  if (rest.empty()) {
    return piece;
  }
  if (kind_ != BodyKind::UntilClose) {
    rest = rest.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(left_, rest.size())));
    left_ -= rest.size();
    if (kind_ == BodyKind::Chunked && left_ == 0) {
      state_ = State::DataCr;
    }
  }
  piece.step = Step::Data;
  piece.data = rest;
  piece.consumed += rest.size();
  return piece;
}

Status BodyDecoder::size_byte(unsigned char c) {
  const int digit = hex_value(c);
  if (digit >= 0) {
    if (left_ >> 59 != 0) {
      return fail(Errc::Malformed, "a chunk's size is out of range");
    }
    left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
    state_ = State::Size;
    return {};
  }
  if (state_ == State::SizeFirst) {
    return fail(Errc::Malformed, "a chunk begins without its size");
  }
  if (c == '\r') {
    state_ = State::SizeLf;
    return {};
  }
  if (c == ';' || c == ' ' || c == '\t') {
    state_ = State::Extension;
    return {};
  }
  return fail(Errc::Malformed, "a chunk's size is not a hexadecimal number");
}

Status BodyDecoder::trailer_byte(unsigned char c) {
  if (c == '\r') {
    state_ = state_ == State::LineStart ? State::LastLf : State::LineLf;
    return {};
  }
  if (is_control(c)) {
    return fail(Errc::Malformed, "a trailer holds a control character");
  }
  state_ = State::Line;
  return {};
}

Status BodyDecoder::chunk_byte(unsigned char c) {
  const bool in_trailer = state_ >= State::LineStart;
  if (++framing_bytes_ > (in_trailer ? kMaxTrailer : kMaxChunkLine)) {
    return fail(Errc::Malformed,
                in_trailer ? "the trailer is too long" : "a chunk's extensions are too long");
  }
  switch (state_) {
    case State::SizeFirst:
    case State::Size:
      return size_byte(c);
    case State::Extension:
      if (c == '\r') {
        state_ = State::SizeLf;
      } else if (is_control(c)) {
        return fail(Errc::Malformed, "a chunk's extension holds a control character");
      }
      return {};
    case State::DataCr:
      if (c != '\r') {
        return fail(Errc::Malformed, "a chunk is longer than its size");
      }
      state_ = State::DataLf;
      return {};
    case State::LineStart:
    case State::Line:
      return trailer_byte(c);
    case State::SizeLf:
    case State::DataLf:
    case State::LineLf:
    case State::LastLf:
      if (c != '\n') {
        return fail(Errc::Malformed, "a line of the chunk framing ends with a bare CR");
      }
      break;
    case State::Data:
    case State::Done:
      return {};
  }
  if (state_ == State::SizeLf) {
    state_ = left_ == 0 ? State::LineStart : State::Data;
    framing_bytes_ = 0;
  } else if (state_ == State::DataLf) {
    state_ = State::SizeFirst;
    framing_bytes_ = 0;
  } else {
    state_ = state_ == State::LineLf ? State::LineStart : State::Done;
  }
  return {};
}

}  // namespace ate::http
