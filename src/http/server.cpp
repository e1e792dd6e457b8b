#include "ate/http/server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <optional>
#include <tuple>

#include "http/connection.hpp"
#include "http/core.hpp"

namespace ate::http {

namespace {

namespace asio = boost::asio;

// How long accepting rests when descriptors are used up and no connection ends.
constexpr std::chrono::milliseconds kExhaustedPause(200);
constexpr std::chrono::minutes kTellAgain(1);
constexpr std::string_view kNoRoom =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    "Connection: close\r\n\r\n";

UniqueFd open_spare() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

UniqueFd accept_one(int listener) {
  return UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

bool somebody_waits(int listener) {
  pollfd entry{listener, POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

Peer peer_of(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  Peer peer{static_cast<uid_t>(-1), static_cast<gid_t>(-1), 0};
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
    peer = Peer{credentials.uid, credentials.gid, credentials.pid};
  }
  return peer;
}

/// Tells a client that there is no room, without anything of ours for it.
void turn_away(const UniqueFd& socket) {
  // IGNORED: a client that does not take it learns by the close.
  static_cast<void>(
      ::send(socket.get(), kNoRoom.data(), kNoRoom.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace

struct Server::State {
  explicit State(std::shared_ptr<Core> c) : core(std::move(c)) {}

  void start(UniqueFd socket) const;
  /// Takes what waits; false when descriptors are used up.
  bool accept_waiting(int descriptor);
  /// With the spare descriptor one client gets its 503 even now.
  void answer_with_spare(int descriptor);

  std::shared_ptr<Core> core;
  std::optional<asio::posix::stream_descriptor> listener;
  UniqueFd spare = open_spare();
  std::optional<std::chrono::steady_clock::time_point> told_exhausted;
};

void Server::State::start(UniqueFd socket) const {
  const Peer peer = peer_of(socket.get());
  const bool admitted = core->admit(peer.uid);
  if (!admitted && !core->may_refuse_politely()) {
    turn_away(socket);
    return;
  }
  Result<Stream> stream = Stream::open(core->context.loop.get_executor(), std::move(socket));
  if (!stream) {
    core->on_trouble("accept: " + stream.error().message());
    return;
  }
  auto connection = std::make_shared<Connection>(core, std::move(*stream), peer, !admitted);
  core->scope.spawn("http connection", Connection::run(std::move(connection)));
}

void Server::State::answer_with_spare(int descriptor) {
  spare.reset();
  {
    const UniqueFd socket = accept_one(descriptor);
    if (socket) {
      turn_away(socket);
    }
  }
  spare = open_spare();
}

bool Server::State::accept_waiting(int descriptor) {
  // A bound, so that a flood of connections does not keep the loop from everything else.
  for (int i = 0; i < 64; ++i) {
    UniqueFd socket = accept_one(descriptor);
    if (socket) {
      start(std::move(socket));
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) {
      return true;
    }
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      if (!somebody_waits(descriptor)) {
        return true;  // the kernel looks for a descriptor first, and for a client then
      }
      // Not for each client: one that gives up its descriptor makes room for one more only.
      const auto now = std::chrono::steady_clock::now();
      if (!told_exhausted || now - *told_exhausted > kTellAgain) {
        told_exhausted = now;
        core->on_trouble(Error::from_errno("accept", error).message());
      }
      // A client that is not using its descriptor gives it up; its end is told by `freed`.
      if (!core->evict_idle()) {
        answer_with_spare(descriptor);
      }
      return false;
    }
    // EINTR, ECONNABORTED and the network's own errors concern one connection only.
  }
  return true;
}

Server::Server(async::Context& context, Limits limits, Handler handler, RenderError render_error,
               std::function<void(const std::string&)> on_trouble)
    : state_(std::make_shared<State>(std::make_shared<Core>(
          context, limits, std::move(handler), std::move(render_error), std::move(on_trouble)))) {}

Server::~Server() = default;

async::Task<void> Server::serve(UniqueFd listener) {
  const std::shared_ptr<State> state = state_;
  const std::shared_ptr<Core> core = state->core;
  if (core->stopping) {
    co_return;
  }
  state->listener.emplace(core->context.loop);
  boost::system::error_code error;
  state->listener->assign(listener.get(), error);
  if (error) {
    core->on_trouble("listen: " + error.message());
    co_return;
  }
  static_cast<void>(listener.release());
  while (!core->stopping) {
    const std::tuple<boost::system::error_code> ready = co_await state->listener->async_wait(
        asio::posix::stream_descriptor::wait_read, asio::as_tuple(asio::use_awaitable));
    if (core->stopping || std::get<0>(ready)) {
      break;
    }
    core->freed.reset();
    if (!state->accept_waiting(state->listener->native_handle())) {
      // Waiting for the listener again would spin: clients are still in its queue.
      const bool freed = co_await core->freed.wait_for(kExhaustedPause);
      static_cast<void>(freed);
    }
  }
  state->listener.reset();
}

async::Task<void> Server::stop(std::chrono::milliseconds grace) {
  const std::shared_ptr<Core> core = state_->core;
  core->stopping = true;
  if (state_->listener.has_value()) {
    boost::system::error_code ignored;
    state_->listener->cancel(ignored);
  }
  core->freed.set();
  core->cut_unserved();
  const bool drained = co_await core->scope.drain(grace);
  if (!drained) {
    core->cut_all();
  }
  co_await core->scope.close();
}

std::size_t Server::connections() const noexcept {
  return state_->core->connections();
}

}  // namespace ate::http
