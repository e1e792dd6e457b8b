#include "http/connection.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include "http/forwarding.hpp"
#include "http/headers.hpp"

namespace ate::http {

namespace {

// After so many pipelined requests others get their turn.
constexpr unsigned kTurn = 16;
// What a request may leave unread for the connection to be used again.
constexpr std::uint64_t kDrainBytes = 64UL * 1024;
// After a reply that ends the connection the client's unread bytes are taken for so long, so that
// it reads the reply instead of a reset.
constexpr std::chrono::milliseconds kLingerTime(2000);
constexpr std::size_t kLingerBytes = 8UL * 1024 * 1024;
constexpr std::size_t kReadSize = 16UL * 1024;
// Memory that an idle connection may keep.
constexpr std::size_t kKeptString = 1024;
constexpr std::size_t kKeptHeaders = 32;

void release(std::string& text) {
  if (text.capacity() > kKeptString) {
    std::string().swap(text);  // an assignment would keep the memory
  }
}

}  // namespace

Connection::Connection(std::shared_ptr<Core> core, Stream stream, Peer peer, bool refused)
    : core_(std::move(core)),
      stream_(std::move(stream)),
      input_(stream_, core_->limits.header_bytes, core_->limits.header_count),
      peer_(peer),
      refused_(refused) {
  place_ = core_->join(*this);
}

Connection::~Connection() {
  if (has_stream_slot_) {
    core_->release_stream();
  }
  core_->leave(place_);
}

async::Task<void> Connection::run(std::shared_ptr<Connection> self) {
  co_await self->serve_requests();
}

async::Task<void> Connection::serve_requests() {
  for (;;) {
    const Next head = co_await next_head();
    if (head == Next::Close) {
      co_return;
    }
    const Next after = co_await serve_one();
    if (after == Next::Close) {
      co_return;
    }
  }
}

async::Task<Connection::Next> Connection::next_head() {
  bool started = false;
  for (;;) {
    const HeadScan::State state = input_.scan_head();
    if (state == HeadScan::State::Complete) {
      set_idle(false);
      disarm();
      co_return Next::Serve;
    }
    if (state == HeadScan::State::Bad) {
      co_return co_await refuse(Error(Errc::Malformed, input_.scan_reason()));
    }
    if (state == HeadScan::State::TooLarge) {
      co_return co_await refuse(Error(Errc::HeaderTooLarge, "the request's head is too large"));
    }
    if (input_.buffer().empty()) {
      if (core_->stopping) {
        co_return Next::Close;
      }
      set_idle(true);
      arm(refused_ ? std::min(kLingerTime, core_->limits.idle_timeout)
                   : core_->limits.idle_timeout);
    } else if (!started) {
      started = true;
      set_idle(false);
      arm(core_->limits.header_timeout);
    }
    const long got = co_await input_.fill(Buffer::kSmall);
    served_without_pause_ = 0;
    if (started && expired_) {
      co_return co_await refuse(
          Error(Errc::RequestTimeout, "the request's head did not come in time"));
    }
    if (got <= 0) {
      co_return Next::Close;
    }
  }
}

Status Connection::accept_head() {
  ATE_TRY(parse_request_head(input_.head(), head_));
  ATE_ASSIGN(framing_, check_request(head_));
  return {};
}

void Connection::begin_exchange() {
  input_.begin_body(framing_);
  request_.method.swap(head_.method);
  request_.target.swap(head_.target);
  request_.headers.swap(head_.headers);
  const std::size_t mark = request_.target.find('?');
  request_.path.assign(request_.target, 0, mark);
  request_.query.clear();
  if (mark != std::string::npos) {
    request_.query.assign(request_.target, mark + 1);
  }
  request_.body.clear();
  request_.peer = peer_;
  request_.request_id = core_->next_request_id();
  request_.head_only = request_.method == "HEAD";
  replied_ = false;
  broken_ = false;
  streaming_ = false;
  finished_ = false;
  expired_ = false;
  close_after_ = !framing_.keep_alive;
  expect_continue_ = head_.version == 11 && framing_.kind != BodyKind::None &&
                     find_header(request_.headers, "expect").has_value();
}

async::Task<Connection::Next> Connection::serve_one() {
  const Status accepted = accept_head();
  if (!accepted) {
    co_return co_await refuse(accepted.error());
  }
  begin_exchange();
  if (refused_) {
    co_return co_await refuse(Error(Errc::TooManyConnections, "too many connections"));
  }
  if (++served_without_pause_ > kTurn) {
    served_without_pause_ = 0;
    co_await boost::asio::post(core_->context.loop, boost::asio::use_awaitable);
  }
  serving_ = true;
  const Status outcome = co_await call_handler();
  co_return co_await settle(outcome);
}

async::Task<Status> Connection::call_handler() {
  std::string escaped;
  try {
    const Status outcome = co_await core_->handler(*this);
    co_return outcome;
  } catch (const boost::system::system_error& error) {
    if (core_->stopping || cut_) {
      throw;  // cancelled
    }
    escaped = error.what();
  } catch (const std::exception& error) {
    escaped = error.what();
  }
  core_->on_trouble("request " + request_.request_id + ": exception: " + escaped);
  co_return fail(Errc::Internal, "internal error");
}

async::Task<Connection::Next> Connection::settle(Status outcome) {
  disarm();
  if (!replied_) {
    if (outcome) {
      core_->on_trouble("request " + request_.request_id + " was not answered");
      outcome = fail(Errc::Internal, "internal error");
    }
    Response response = core_->render_error(outcome.error(), &request_);
    outcome = co_await respond(std::move(response));
  } else if (streaming_ && finished_) {
    outcome = Status();
  } else if (streaming_ && outcome) {
    outcome = co_await finish();
  }
  streaming_ = false;
  serving_ = false;
  if (has_stream_slot_) {
    has_stream_slot_ = false;
    core_->release_stream();
  }
  if (!outcome || broken_) {
    cut();
    co_return Next::Close;
  }
  if (!close_after_ && !input_.body().done()) {
    co_await drain();
  }
  if (close_after_) {
    const bool unread = !input_.body().done() || !input_.buffer().empty();
    if (unread && !core_->stopping) {
      co_await linger();
    }
    co_return Next::Close;
  }
  co_return Next::Serve;
}

async::Task<Connection::Next> Connection::refuse(Error error) {
  set_idle(false);
  disarm();
  replied_ = false;
  streaming_ = false;
  close_after_ = true;
  request_.head_only = false;
  request_.request_id = core_->next_request_id();
  Response response = core_->render_error(error, nullptr);
  const Status sent = co_await respond(std::move(response));
  if (sent) {
    co_await linger();
  }
  co_return Next::Close;
}

async::Task<void> Connection::linger() {
  stream_.shut_down_sending();
  arm(kLingerTime);
  std::size_t total = 0;
  while (total < kLingerBytes && !expired_ && !core_->stopping) {
    input_.discard();
    const long got = co_await input_.fill(kReadSize);
    if (got <= 0) {
      break;
    }
    total += static_cast<std::size_t>(got);
  }
  disarm();
}

async::Task<void> Connection::drain() {
  arm(core_->limits.body_timeout);
  while (!expired_) {
    const Result<std::string_view> piece = co_await input_.next_piece(kReadSize);
    if (!piece) {
      close_after_ = true;
      break;
    }
    if (piece->empty()) {
      break;
    }
  }
  close_after_ = close_after_ || expired_;
  disarm();
}

void Connection::plan_after_reply() {
  const BodyDecoder& body = input_.body();
  const bool reusable = body.done() || (body.kind() == BodyKind::Length && !expect_continue_ &&
                                        body.left() <= kDrainBytes);
  close_after_ = close_after_ || !reusable || core_->stopping;
}

void Connection::set_idle(bool idle) noexcept {
  if (idle == idle_) {
    return;
  }
  idle_ = idle;
  if (!idle) {
    core_->mark_busy(place_);
    return;
  }
  core_->mark_idle(place_);
  input_.shrink();
  release(request_.body);
  release(request_.target);
  release(request_.path);
  release(request_.query);
  release(out_);
  for (Headers* headers : {&request_.headers, &head_.headers}) {
    headers->clear();
    if (headers->capacity() > kKeptHeaders) {
      headers->shrink_to_fit();
    }
  }
}

void Connection::arm(std::chrono::milliseconds limit) {
  expired_ = false;
  deadline_ = std::chrono::steady_clock::now() + limit;
  core_->watch_deadline(deadline_);
}

SteadyTime Connection::check_deadline(SteadyTime now) noexcept {
  if (deadline_ <= now) {
    deadline_ = SteadyTime::max();
    expired_ = true;
    stream_.cancel();
    if (forwarding_ != nullptr) {
      forwarding_->cancel_upstream();
    }
  }
  return deadline_;
}

void Connection::cut() noexcept {
  if (cut_) {
    return;
  }
  if (counts()) {
    core_->uncount();
  }
  cut_ = true;
  stream_.cut();
  if (forwarding_ != nullptr) {
    forwarding_->cancel_upstream();
  }
}

}  // namespace ate::http
