// The replying half of a connection, as its handler sees it.
#include <algorithm>
#include <array>
#include <charconv>

#include "http/connection.hpp"
#include "http/headers.hpp"

namespace ate::http {

namespace {

constexpr std::size_t kReadSize = 16UL * 1024;
// A chunked body may take this much more on the wire than its data, and four times its data.
constexpr std::uint64_t kFramingSlack = 64UL * 1024;

}  // namespace

Status Connection::broken(const char* what) {
  broken_ = true;
  return fail(Errc::Cancelled, what);
}

async::Task<Status> Connection::send(Slices slices) {
  Stream::Sent sent = stream_.send_now(slices);
  while (sent == Stream::Sent::Blocked) {
    // Armed anew after each bit of progress: slow is allowed, stalled is not.
    arm(core_->limits.write_timeout);
    const bool writable = co_await stream_.wait_writable();
    if (!writable || expired_) {
      co_return broken("the client does not take the reply");
    }
    sent = stream_.send_now(slices);
  }
  disarm();
  if (sent == Stream::Sent::Failed) {
    co_return broken("the client is gone");
  }
  co_return Status();
}

async::Task<Status> Connection::read_body() {
  const std::uint64_t limit = core_->limits.body_bytes;
  const BodyDecoder& body = input_.body();
  if (body.kind() == BodyKind::Length && body.left() > limit) {
    close_after_ = true;
    co_return fail(Errc::BodyTooLarge,
                   "the body is larger than " + std::to_string(limit) + " bytes");
  }
  arm(core_->limits.body_timeout);
  if (expect_continue_) {
    expect_continue_ = false;
    if (input_.buffer().empty()) {
      Slices go_on;
      go_on.add("HTTP/1.1 100 Continue\r\n\r\n");
      ATE_CO_TRY(co_await send(go_on));
      arm(core_->limits.body_timeout);
    }
  }
  if (body.kind() == BodyKind::Length) {
    request_.body.reserve(
        static_cast<std::size_t>(std::min(body.left(), std::uint64_t{kReadSize})));
  }
  for (;;) {
    const Result<std::string_view> piece = co_await input_.next_piece(kReadSize);
    if (expired_) {
      close_after_ = true;
      co_return fail(Errc::RequestTimeout, "the request's body did not come in time");
    }
    if (!piece) {
      close_after_ = true;
      co_return fail(piece.error());
    }
    if (piece->empty()) {
      break;
    }
    request_.body.append(*piece);
    if (request_.body.size() > limit || input_.wire_bytes() > 4 * limit + kFramingSlack) {
      close_after_ = true;
      co_return fail(Errc::BodyTooLarge,
                     "the body is larger than " + std::to_string(limit) + " bytes");
    }
  }
  disarm();
  co_return Status();
}

void Connection::append_connection() {
  if (close_after_) {
    out_.append("Connection: close\r\n");
  } else if (head_.version == 10) {
    out_.append("Connection: keep-alive\r\n");
  }
}

void Connection::append_head(const Response& response) {
  out_.clear();
  out_.append("HTTP/1.1 ");
  append_decimal(out_, static_cast<std::uint64_t>(std::clamp(response.status, 100, 999)));
  out_.push_back(' ');
  out_.append(reason_phrase(response.status)).append("\r\n");
  if (!response.content_type.empty() && response.status != 204) {
    append_header(out_, "Content-Type", response.content_type);
  }
  for (const auto& [name, value] : response.headers) {
    append_header(out_, name, value);
  }
  out_.append("Request-Id: ").append(request_.request_id).append("\r\n");
}

async::Task<Status> Connection::respond(Response response) {
  if (replied_) {
    co_return fail(Errc::Internal, "a second reply to one request");
  }
  replied_ = true;
  plan_after_reply();
  append_head(response);
  const bool bodiless = response.status == 204 || response.status == 304;
  if (response.status != 204) {
    out_.append("Content-Length: ");
    append_decimal(out_, response.body.size());
    out_.append("\r\n");
  }
  append_connection();
  out_.append("\r\n");
  Slices slices;
  slices.add(out_);
  if (!request_.head_only && !bodiless) {
    slices.add(response.body);
  }
  co_return co_await send(slices);
}

Status Connection::admit_stream() {
  if (has_stream_slot_) {
    return {};
  }
  if (!core_->take_stream()) {
    return fail(Errc::TooManyConnections, "too many streams are open");
  }
  has_stream_slot_ = true;
  return {};
}

async::Task<Status> Connection::start_stream(Response head) {
  if (replied_) {
    co_return fail(Errc::Internal, "a second reply to one request");
  }
  if (core_->stopping) {
    co_return fail(Errc::Unavailable, "the daemon is shutting down");
  }
  ATE_CO_TRY(admit_stream());
  replied_ = true;
  streaming_ = true;
  plan_after_reply();
  if (request_.head_only) {
    reply_framing_ = ReplyFraming::None;
    finished_ = true;
  } else if (head_.version == 11) {
    reply_framing_ = ReplyFraming::Chunked;
  } else {
    reply_framing_ = ReplyFraming::Close;
    close_after_ = true;
  }
  append_head(head);
  if (head_.version == 11) {
    out_.append("Transfer-Encoding: chunked\r\n");
  }
  append_connection();
  out_.append("\r\n");
  Slices slices;
  slices.add(out_);
  ATE_CO_TRY(co_await send(slices));
  if (!head.body.empty() && !finished_) {
    ATE_CO_TRY(co_await write(std::move(head.body)));
  }
  co_return Status();
}

async::Task<Status> Connection::write(std::string chunk) {
  if (!streaming_ || finished_) {
    co_return fail(Errc::Cancelled, "the stream has ended");
  }
  if (broken_ || cut_) {
    co_return broken("the client is gone");
  }
  if (chunk.empty()) {
    co_return Status();  // as a chunk it would end the stream
  }
  Slices slices;
  std::array<char, 20> size{};
  if (reply_framing_ == ReplyFraming::Chunked) {
    slices.add(chunk_head(size, chunk.size()));
  }
  slices.add(chunk);
  if (reply_framing_ == ReplyFraming::Chunked) {
    slices.add("\r\n");
  }
  co_return co_await send(slices);
}

async::Task<Status> Connection::finish() {
  if (!streaming_ || finished_) {
    co_return Status();
  }
  finished_ = true;
  Slices slices;
  if (reply_framing_ == ReplyFraming::Chunked) {
    slices.add("0\r\n\r\n");
  }
  co_return co_await send(slices);
}

async::Task<void> Connection::peer_gone() {
  co_await stream_.wait_hung_up();
}

}  // namespace ate::http
