#include "http/stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <tuple>

namespace ate::http {

namespace {

namespace asio = boost::asio;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

}  // namespace

void Slices::add(std::string_view piece) noexcept {
  if (!piece.empty() && end_ < pieces_.size()) {
    // SAFETY: iovec serves reading too; sendmsg does not write through it.
    pieces_[end_] = iovec{const_cast<char*>(piece.data()), piece.size()};  // NOLINT
    ++end_;
  }
}

void Slices::advance(std::size_t bytes) noexcept {
  while (first_ < end_ && bytes >= pieces_[first_].iov_len) {
    bytes -= pieces_[first_].iov_len;
    ++first_;
  }
  if (first_ < end_) {
    pieces_[first_].iov_base = static_cast<char*>(pieces_[first_].iov_base) + bytes;
    pieces_[first_].iov_len -= bytes;
  }
}

std::size_t Slices::size() const noexcept {
  std::size_t total = 0;
  for (std::size_t i = first_; i < end_; ++i) {
    total += pieces_[i].iov_len;
  }
  return total;
}

Result<Stream> Stream::open(asio::any_io_executor executor, UniqueFd fd) {
  int family = 0;
  socklen_t length = sizeof family;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &family, &length) != 0) {
    return fail(Error::from_errno("use a socket", errno));
  }
  if (family != AF_UNIX) {
    // A small piece of a stream must not wait for the ack of the one before. IGNORED: a socket that
    // knows no such option only is slower.
    const int on = 1;
    static_cast<void>(::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  }
  Socket socket(std::move(executor));
  boost::system::error_code error;
  socket.assign(asio::generic::stream_protocol(family, 0), fd.get(), error);
  if (error) {
    return fail(Error::from_errno("watch a socket", error.value()));
  }
  static_cast<void>(fd.release());
  socket.non_blocking(true, error);
  if (error) {
    return fail(Error::from_errno("make a socket non-blocking", error.value()));
  }
  return Stream(std::move(socket));
}

async::Task<long> Stream::read_some(char* into, std::size_t size) {
  const std::tuple<boost::system::error_code, std::size_t> result =
      co_await socket_.async_read_some(asio::buffer(into, size), kTuple);
  const boost::system::error_code error = std::get<0>(result);
  if (error == asio::error::eof) {
    co_return 0;
  }
  co_return error ? -1 : static_cast<long>(std::get<1>(result));
}

Stream::Sent Stream::send_now(Slices& slices) noexcept {
  while (!slices.empty()) {
    msghdr message{};
    message.msg_iov = slices.data();
    message.msg_iovlen = slices.count();
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      slices.advance(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Sent::Blocked;
    } else if (errno != EINTR) {
      return Sent::Failed;
    }
  }
  return Sent::All;
}

async::Task<bool> Stream::wait_writable() {
  const std::tuple<boost::system::error_code> waited =
      co_await socket_.async_wait(Socket::wait_write, kTuple);
  co_return !std::get<0>(waited);
}

bool Stream::hung_up() const noexcept {
  // POLLHUP of a unix socket: both directions have ended, that is, the peer closed.
  pollfd entry{socket_.native_handle(), 0, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

async::Task<void> Stream::wait_hung_up() {
  while (!hung_up()) {
    // epoll reports a hang-up whatever one waits for; wait_error is woken by little else.
    const std::tuple<boost::system::error_code> waited =
        co_await socket_.async_wait(Socket::wait_error, kTuple);
    if (std::get<0>(waited)) {
      co_return;
    }
  }
}

void Stream::cancel() noexcept {
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

void Stream::shut_down_sending() noexcept {
  static_cast<void>(::shutdown(socket_.native_handle(), SHUT_WR));
}

bool Stream::peer_finished() const noexcept {
  pollfd entry{socket_.native_handle(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & POLLRDHUP) != 0;
}

void Stream::end() noexcept {
  static_cast<void>(::shutdown(socket_.native_handle(), SHUT_RDWR));
}

void Stream::cut() noexcept {
  end();
  cancel();
}

}  // namespace ate::http
