// What passes after a 101: bytes of another protocol, both ways, each with an end of its own. And
// the watches that end a forwarding of either kind.
#include <boost/system/system_error.hpp>

#include "http/forwarding.hpp"
#include "http/headers.hpp"

namespace ate::http {

namespace {

constexpr std::size_t kPumpSize = 64UL * 1024;

Framing until_close() {
  Framing framing;
  framing.kind = BodyKind::UntilClose;
  return framing;
}

}  // namespace

async::Task<Status> Connection::forward(Upstream upstream, std::vector<std::string> drop) {
  co_return co_await carry(std::move(upstream), std::move(drop), std::string());
}

async::Task<Status> Connection::tunnel(Upstream upstream, std::string protocol) {
  co_return co_await carry(std::move(upstream), {}, std::move(protocol));
}

void Forwarding::spawn_watches() {
  tasks_.spawn("http watch", watch_client());
  if (upstream_.ended != nullptr) {
    tasks_.spawn("http sandbox watch", watch_upstream(upstream_.ended));
  }
}

async::Task<void> Forwarding::watch_client() {
  co_await client_.stream_.wait_hung_up();
  if (!client_.stream_.hung_up()) {
    co_return;
  }
  client_.broken_ = true;
  client_gone_ = true;
  if (switched_ && !sent_all_.is_set()) {
    arm();  // what it sent before it left still goes to the actor
    co_return;
  }
  abort(Error(Errc::Cancelled, "the client is gone"));
}

/// A sandbox that is killed sends no FIN and no RST, so the socket would know of it after a quarter
/// of an hour.
async::Task<void> Forwarding::watch_upstream(std::shared_ptr<async::Event> ended) {
  co_await ended->wait();
  lost_ = !stream_.peer_finished();
  stream_.end();
}

bool Forwarding::switch_agreed() const {
  return offers_websocket_ && has_token(head_.headers, "upgrade", "websocket");
}

async::Task<Status> Forwarding::send_switch(const Headers& headers, const std::string& protocol) {
  out_ = "HTTP/1.1 101 Switching Protocols\r\n";
  append_fields(out_, headers, true);
  append_header(out_, "Connection", "Upgrade");
  append_header(out_, "Upgrade", protocol);
  out_.append("\r\n");
  has_head_ = true;
  arm();
  client_.replied_ = true;
  Slices slices;
  slices.add(out_);
  co_return co_await send_client(slices);
}

async::Task<Status> Forwarding::run_tunnel(std::string protocol) {
  client_.expired_ = false;
  upload_done_ = true;
  spawn_watches();
  const Headers none;
  ATE_CO_TRY(co_await send_switch(none, protocol));
  co_return co_await relay_bytes();
}

async::Task<Status> Forwarding::relay_bytes() {
  switched_ = true;
  client_.switched_ = true;
  client_.broken_ = true;  // no other request follows on this connection
  client_.disarm();
  if (upstream_.on_switch) {
    upstream_.on_switch();
  }
  client_.input_.begin_body(until_close());
  input_.begin_body(until_close());
  tasks_.spawn("http tunnel", upload_bytes());
  const bool ended = co_await pump(Way::Down);
  if (!ended || lost_) {
    abort(reason("the connection to the actor failed"));
    co_return fail(reason("the connection to the actor failed"));
  }
  client_.stream_.shut_down_sending();
  try {
    co_await sent_all_.wait();
  } catch (const boost::system::system_error&) {
    co_return fail(Errc::Cancelled, "the connection was cut");
  }
  co_return aborted_ ? Status(fail(abort_reason_)) : Status();
}

async::Task<void> Forwarding::upload_bytes() {
  const bool ended = co_await pump(Way::Up);
  if (!ended) {
    abort(reason("the tunnel broke"));
    co_return;
  }
  stream_.shut_down_sending();
  sent_all_.set();
  if (client_gone_) {
    abort(Error(Errc::Cancelled, "the client is gone"));
  }
}

/// True at the end of what that side sends.
async::Task<bool> Forwarding::pump(Way way) {
  Input& from = way == Way::Up ? client_.input_ : input_;
  for (;;) {
    const Result<std::string_view> piece = co_await from.next_piece(kPumpSize);
    if (!piece || aborted_ || client_.expired_ || client_.cut_) {
      co_return false;
    }
    if (piece->empty()) {
      co_return true;
    }
    const bool small = piece->size() < Buffer::kSmall;
    Slices slices;
    slices.add(*piece);
    bool sent = false;
    if (way == Way::Up) {
      sent = co_await send_upstream(slices);
    } else {
      const Status status = co_await send_client(slices);
      sent = status.has_value();
    }
    if (!sent) {
      co_return false;
    }
    if (small) {
      from.shrink();  // many tunnels are quiet most of the time
    }
  }
}

}  // namespace ate::http
