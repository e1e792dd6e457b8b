#include "http/forwarding.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>

#include "http/headers.hpp"

namespace ate::http {

namespace {

constexpr std::size_t kPumpSize = 64UL * 1024;
constexpr std::size_t kReplyHeadBytes = 64UL * 1024;
constexpr std::size_t kReplyHeadLines = 256;
constexpr int kMaxInterim = 16;  // 1xx replies before the final one

}  // namespace

async::Task<Status> Connection::carry(Upstream upstream, std::vector<std::string> drop,
                                      std::string protocol) {
  if (replied_) {
    co_return fail(Errc::Internal, "a second reply to one request");
  }
  Result<Stream> stream =
      Stream::open(core_->context.loop.get_executor(), std::move(upstream.socket));
  if (!stream) {
    co_return fail(std::move(stream).error().with_code(Errc::UpstreamFailed));
  }
  // From here on nothing throws at an await: the coroutines beside this one must have ended before
  // the frame goes, cancelled or not. Waits end by themselves then, with an error.
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  Status outcome;
  {
    Forwarding forwarding(*this, std::move(*stream), std::move(upstream), std::move(drop));
    if (protocol.empty()) {
      outcome = co_await forwarding.run();
    } else {
      outcome = co_await forwarding.run_tunnel(std::move(protocol));
    }
    co_await forwarding.end();
  }
  disarm();
  // What is left of the request, if its reply came early, is in the way of the next one.
  close_after_ = close_after_ || !input_.body().done();
  co_await boost::asio::this_coro::throw_if_cancelled(true);
  co_return outcome;
}

Forwarding::Forwarding(Connection& client, Stream stream, Exchange::Upstream upstream,
                       std::vector<std::string> drop)
    : client_(client),
      stream_(std::move(stream)),
      input_(stream_, kReplyHeadBytes, kReplyHeadLines),
      upstream_(std::move(upstream)),
      drop_(std::move(drop)),
      tasks_(client.core_->context,
             [core = client.core_.get()](const std::string& name, const std::string& what) {
               core->on_trouble(name + ": " + what);
             }),
      abort_reason_(Errc::UpstreamFailed, ""),
      sent_all_(client.core_->context) {
  client_.forwarding_ = this;
}

Forwarding::~Forwarding() {
  client_.forwarding_ = nullptr;
}

async::Task<void> Forwarding::end() {
  // A cancellation that comes while this waits ends the wait, not the coroutines waited for.
  while (!ended_) {
    try {
      co_await tasks_.close();
      ended_ = true;
    } catch (const boost::system::system_error&) {
      continue;
    }
  }
}

void Forwarding::abort(Error error) {
  if (!aborted_) {
    aborted_ = true;
    abort_reason_ = std::move(error);
  }
  sent_all_.set();
  stream_.cancel();
  if (switched_) {
    client_.stream_.cancel();
  }
}

Error Forwarding::reason(const char* otherwise) const {
  if (aborted_) {
    return abort_reason_;
  }
  if (client_.cut_) {
    return {Errc::Cancelled, "the connection was cut"};
  }
  if (lost_) {
    return {Errc::UpstreamFailed, "the actor's sandbox ended"};
  }
  if (client_.expired_) {
    return {Errc::UpstreamFailed, has_head_ || !upload_done_
                                      ? "no byte passed between client and actor for too long"
                                      : "the actor did not begin a reply in time"};
  }
  return {Errc::UpstreamFailed, otherwise};
}

void Forwarding::arm() {
  // Bytes that pass after a switch may be as far between as they like.
  if (!client_.expired_ && (!switched_ || client_gone_)) {
    client_.arm(has_head_ || !upload_done_ ? upstream_.stall_timeout : upstream_.head_timeout);
  }
}

void Forwarding::progress(std::size_t bytes) {
  arm();
  if (upstream_.on_activity) {
    upstream_.on_activity(bytes);
  }
}

async::Task<bool> Forwarding::send_upstream(Slices slices) {
  for (;;) {
    const std::size_t before = slices.size();
    const Stream::Sent sent = stream_.send_now(slices);
    if (slices.size() != before) {
      progress(before - slices.size());
    }
    if (sent != Stream::Sent::Blocked) {
      co_return sent == Stream::Sent::All;
    }
    const bool writable = co_await stream_.wait_writable();
    if (!writable || client_.expired_ || aborted_) {
      co_return false;
    }
  }
}

async::Task<Status> Forwarding::send_client(Slices slices) {
  for (;;) {
    const std::size_t before = slices.size();
    const Stream::Sent sent = client_.stream_.send_now(slices);
    if (slices.size() != before) {
      progress(before - slices.size());
    }
    if (sent == Stream::Sent::All) {
      co_return Status();
    }
    bool writable = false;
    if (sent == Stream::Sent::Blocked) {
      writable = co_await client_.stream_.wait_writable();
    }
    if (!writable || client_.expired_ || aborted_) {
      client_.broken_ = true;
      co_return fail(reason("the client is gone"));
    }
  }
}

void Forwarding::append_fields(std::string& out, const Headers& headers, bool reply) const {
  for (const auto& [name, value] : headers) {
    const bool dropped =
        !reply && std::any_of(drop_.begin(), drop_.end(),
                              [&](const std::string& one) { return iequals(one, name); });
    if (!dropped && !is_hop_by_hop(headers, name)) {
      append_header(out, name, value);
    }
  }
}

std::string Forwarding::request_head() const {
  const Request& request = client_.request_;
  std::string out;
  out.reserve(1024);
  out.append(request.method).append(" ").append(upstream_.target).append(" HTTP/1.1\r\n");
  if (!find_header(request.headers, "host").has_value()) {
    out.append("Host:\r\n");  // an HTTP/1.0 client need not name one, HTTP/1.1 does
  }
  append_fields(out, request.headers, false);
  if (client_.framing_.kind == BodyKind::Chunked) {
    out.append("Transfer-Encoding: chunked\r\n");
  } else if (client_.framing_.announced) {
    out.append("Content-Length: ");
    append_decimal(out, client_.framing_.length);
    out.append("\r\n");
  }
  out.append(offers_websocket_ ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                               : "Connection: close\r\n\r\n");
  return out;
}

async::Task<Status> Forwarding::run() {
  // The upstream asks for the body itself, if it does: its 100 is passed on.
  client_.expect_continue_ = false;
  client_.expired_ = false;
  upload_done_ = client_.input_.body().done();
  // Any other offer (h2c, say) is let fall, which RFC 9110 7.8 allows: the request is answered.
  offers_websocket_ = upload_done_ && client_.head_.version == 11 &&
                      has_token(client_.request_.headers, "connection", "upgrade") &&
                      has_token(client_.request_.headers, "upgrade", "websocket");
  const std::string head = request_head();
  Slices slices;
  slices.add(head);
  arm();
  spawn_watches();
  const bool sent = co_await send_upstream(slices);
  if (!sent && (client_.expired_ || client_.cut_ || aborted_)) {
    co_return fail(reason("the actor took no request"));
  }
  if (!sent) {
    upload_broken_ = true;  // it may have answered nevertheless
  } else if (!upload_done_) {
    tasks_.spawn("http upload", upload());
  }
  for (int interim = 0; interim < kMaxInterim; ++interim) {
    ATE_CO_TRY(co_await read_head());
    if (head_.status >= 200) {
      co_return co_await relay_reply();
    }
    if (head_.status == 101 && switch_agreed()) {
      ATE_CO_TRY(co_await send_switch(head_.headers, "websocket"));
      co_return co_await relay_bytes();
    }
    ATE_CO_TRY(co_await relay_interim());
  }
  co_return fail(Errc::UpstreamFailed, "the actor sent too many 1xx replies");
}

async::Task<void> Forwarding::upload() {
  const bool chunked = client_.framing_.kind == BodyKind::Chunked;
  for (;;) {
    const Result<std::string_view> piece = co_await client_.input_.next_piece(kPumpSize);
    if (client_.expired_ || aborted_) {
      co_return;
    }
    if (!piece) {
      abort(Error(piece.error()).context("request body"));
      co_return;
    }
    std::array<char, 20> room{};
    Slices slices;
    if (chunked) {
      slices.add(piece->empty() ? std::string_view("0\r\n\r\n") : chunk_head(room, piece->size()));
    }
    slices.add(*piece);
    if (chunked && !piece->empty()) {
      slices.add("\r\n");
    }
    const bool sent = co_await send_upstream(slices);
    if (!sent) {
      upload_broken_ = true;  // a reply may still come
      co_return;
    }
    if (client_.input_.body().done()) {
      break;
    }
  }
  upload_done_ = true;
  arm();
}

async::Task<Status> Forwarding::read_head() {
  for (;;) {
    const HeadScan::State state = input_.scan_head();
    if (state == HeadScan::State::Complete) {
      break;
    }
    if (state == HeadScan::State::TooLarge) {
      co_return fail(Errc::UpstreamFailed, "the actor's reply head is too large");
    }
    if (state == HeadScan::State::Bad) {
      co_return fail(Errc::UpstreamFailed,
                     std::string("the actor's reply is not HTTP: ") + input_.scan_reason());
    }
    const long got = co_await input_.fill(kPumpSize);
    if (got <= 0 || client_.expired_ || aborted_) {
      co_return fail(reason("the actor closed the connection without a reply"));
    }
  }
  Status parsed = parse_reply_head(input_.head(), head_);
  if (!parsed) {
    co_return fail(std::move(parsed).error().with_code(Errc::UpstreamFailed));
  }
  Result<Framing> framing = check_reply(head_, client_.request_.method);
  if (!framing) {
    co_return fail(
        std::move(framing).error().with_code(Errc::UpstreamFailed).context("the actor's reply"));
  }
  if (head_.status < 200) {
    framing->kind = BodyKind::None;
  }
  framing_ = *framing;
  input_.begin_body(framing_);
  progress(1);
  co_return Status();
}

async::Task<Status> Forwarding::relay_interim() {
  if (head_.status == 101) {
    co_return fail(Errc::UpstreamFailed, "the actor switched protocols unasked");
  }
  if (client_.head_.version != 11) {
    co_return Status();
  }
  out_ = "HTTP/1.1 ";
  append_decimal(out_, static_cast<std::uint64_t>(head_.status));
  out_.append(" ").append(head_.reason).append("\r\n");
  append_fields(out_, head_.headers, true);
  out_.append("\r\n");
  Slices slices;
  slices.add(out_);
  co_return co_await send_client(slices);
}

void Forwarding::plan_reply() {
  using ReplyFraming = Connection::ReplyFraming;
  const bool http11 = client_.head_.version == 11;
  switch (framing_.kind) {
    case BodyKind::None:
      client_.reply_framing_ = ReplyFraming::None;
      break;
    case BodyKind::Length:
      client_.reply_framing_ = ReplyFraming::Length;
      break;
    case BodyKind::Chunked:
    case BodyKind::UntilClose:
      client_.reply_framing_ = http11 ? ReplyFraming::Chunked : ReplyFraming::Close;
      break;
  }
  client_.close_after_ = client_.close_after_ || upload_broken_ || client_.core_->stopping ||
                         client_.reply_framing_ == ReplyFraming::Close;
}

async::Task<Status> Forwarding::relay_reply() {
  has_head_ = true;
  arm();
  plan_reply();
  out_ = "HTTP/1.1 ";
  append_decimal(out_, static_cast<std::uint64_t>(head_.status));
  out_.append(" ").append(head_.reason).append("\r\n");
  append_fields(out_, head_.headers, true);
  if (client_.reply_framing_ == Connection::ReplyFraming::Chunked) {
    out_.append("Transfer-Encoding: chunked\r\n");
  } else if (framing_.announced && head_.status != 204) {
    out_.append("Content-Length: ");
    append_decimal(out_, framing_.length);
    out_.append("\r\n");
  }
  if (client_.close_after_) {
    out_.append("Connection: close\r\n");
  } else if (client_.head_.version == 10) {
    out_.append("Connection: keep-alive\r\n");
  }
  out_.append("\r\n");
  client_.replied_ = true;
  co_return co_await relay_body();
}

async::Task<Status> Forwarding::relay_body() {
  const bool chunked = client_.reply_framing_ == Connection::ReplyFraming::Chunked;
  bool head_sent = false;
  bool ended = input_.body().done();
  do {
    Slices slices;
    std::array<char, 20> room{};
    if (!head_sent && !ended && input_.buffer().empty()) {
      // Nothing of the body is here yet: the head must not wait for it.
      slices.add(out_);
      ATE_CO_TRY(co_await send_client(slices));
      head_sent = true;
      continue;
    }
    std::string_view data;
    if (!ended) {
      const Result<std::string_view> piece = co_await input_.next_piece(kPumpSize);
      const bool cut_short = lost_ && piece && piece->empty() && !input_.body().done();
      if (!piece || cut_short || client_.expired_ || aborted_) {
        client_.broken_ = true;
        co_return fail(reason("the actor's reply ended too early"));
      }
      data = *piece;
      ended = data.empty();
    }
    if (!head_sent) {
      slices.add(out_);
      head_sent = true;
    }
    if (chunked) {
      slices.add(ended ? std::string_view("0\r\n\r\n") : chunk_head(room, data.size()));
    }
    slices.add(data);
    if (chunked && !ended) {
      slices.add("\r\n");
    }
    ended = ended || (!chunked && input_.body().done());
    if (!slices.empty()) {
      ATE_CO_TRY(co_await send_client(slices));
    }
  } while (!ended);
  co_return Status();
}

}  // namespace ate::http
