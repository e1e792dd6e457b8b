#pragma once

#include <sys/uio.h>

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ate/async/task.hpp"
#include "ate/util/fd.hpp"

namespace ate::http {

/// Pieces of memory that one system call sends together. The memory is borrowed.
class Slices {
 public:
  void add(std::string_view piece) noexcept;
  /// Forgets the first `bytes`.
  void advance(std::size_t bytes) noexcept;

  [[nodiscard]] bool empty() const noexcept { return first_ == end_; }

  [[nodiscard]] std::size_t size() const noexcept;

  [[nodiscard]] iovec* data() noexcept { return pieces_.data() + first_; }

  [[nodiscard]] std::size_t count() const noexcept { return end_ - first_; }

 private:
  std::array<iovec, 4> pieces_{};
  std::size_t first_ = 0;
  std::size_t end_ = 0;
};

/// One connected stream socket (unix or TCP) on the loop. Knows no time: who uses it arms a
/// deadline and calls cancel() when it passes.
class Stream {
 public:
  enum class Sent : std::uint8_t { All, Blocked, Failed };

  /// Takes `fd`, which must be a connected stream socket; it is made non-blocking.
  [[nodiscard]] static Result<Stream> open(boost::asio::any_io_executor executor, UniqueFd fd);

  /// Bytes read; 0 at the end of the stream, -1 on an error or cancel().
  [[nodiscard]] async::Task<long> read_some(char* into, std::size_t size);
  /// Sends what the socket takes now and advances `slices`. Raises no SIGPIPE.
  [[nodiscard]] Sent send_now(Slices& slices) noexcept;
  /// Waits until the socket takes more; false on an error or cancel().
  [[nodiscard]] async::Task<bool> wait_writable();
  /// Completes when the peer closed its socket altogether (not when it only ended its sending), or
  /// on cancel(). For unix sockets.
  [[nodiscard]] async::Task<void> wait_hung_up();
  [[nodiscard]] bool hung_up() const noexcept;

  /// Ends the waits that are under way; the socket stays usable.
  void cancel() noexcept;
  void shut_down_sending() noexcept;
  /// The peer has said that it sends no more.
  [[nodiscard]] bool peer_finished() const noexcept;
  /// Nothing is sent any more; what came can be read, then the end.
  void end() noexcept;
  /// Nothing goes through any more, either way; the descriptor stays ours until destruction.
  void cut() noexcept;

 private:
  using Socket = boost::asio::generic::stream_protocol::socket;

  explicit Stream(Socket socket) noexcept : socket_(std::move(socket)) {}

  // Its native_handle() is not const.
  mutable Socket socket_;
};

}  // namespace ate::http
