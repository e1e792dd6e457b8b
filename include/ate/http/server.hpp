#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ate/async/task.hpp"
#include "ate/http/message.hpp"
#include "ate/util/fd.hpp"

namespace ate::http {

/// Limits of design.md section 7; all of them are tested (case T57).
struct Limits {
  std::size_t header_bytes = 64UL * 1024;
  std::size_t header_count = 100;
  std::size_t body_bytes = 1024UL * 1024;
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{30'000};
  std::chrono::milliseconds idle_timeout{120'000};
  std::chrono::milliseconds write_timeout{30'000};
  std::size_t connections = 2048;  // all of them
  std::size_t streams = 1792;      // proxy, followers
  std::size_t root_reserve = 8;    // kept for uid 0
};

/// One request in flight. A handler replies exactly once: respond(), or start_stream() and then
/// write()... , or forward().
class Exchange {
 public:
  virtual ~Exchange() = default;
  [[nodiscard]] virtual Request& request() = 0;

  /// Reads the whole body within Limits::body_bytes and body_timeout into request().body.
  /// BodyTooLarge, RequestTimeout, Malformed: the error is to be answered and the connection
  /// closes.
  [[nodiscard]] virtual async::Task<Status> read_body() = 0;
  [[nodiscard]] virtual async::Task<Status> respond(Response response) = 0;

  /// Sends the head of a chunked reply (SSE, log followers); counts against Limits::streams:
  /// TooManyConnections when none is left, Unavailable while stopping (answer with respond()). To a
  /// HEAD request only the head is sent, and write() fails.
  [[nodiscard]] virtual async::Task<Status> start_stream(Response head) = 0;
  /// One chunk; fails when the client is gone or does not read for write_timeout.
  [[nodiscard]] virtual async::Task<Status> write(std::string chunk) = 0;
  [[nodiscard]] virtual async::Task<Status> finish() = 0;
  /// Completes when the peer closed or reset the connection, or the server cut it (for followers
  /// without data). A peer that only ended its sending is still there.
  [[nodiscard]] virtual async::Task<void> peer_gone() = 0;

  /// Takes a stream slot for forward(); TooManyConnections when none is left.
  [[nodiscard]] virtual Status admit_stream() = 0;

  struct Upstream {
    UniqueFd socket;                                       // connected stream socket, non-blocking
    std::string target;                                    // raw target to send
    std::function<void(std::uint64_t bytes)> on_activity;  // called as bytes pass, either way
    std::chrono::milliseconds head_timeout{60'000};        // until the reply's head
    std::chrono::milliseconds stall_timeout{120'000};      // no byte either way
    std::shared_ptr<async::Event> ended;                   // set when the peer is gone; may be null
    std::function<void()> on_switch;                       // from now on it is a tunnel
  };

  /// Streams this request to `upstream` and its reply back with flat memory, both directions at the
  /// same time; Host kept, hop-by-hop headers (and those that Connection names) dropped, header
  /// names in `drop` (lower case) dropped. An offer to upgrade to WebSocket is passed on and, if
  /// the upstream agrees, the connection is a tunnel from then on; other offers are not passed on.
  /// Fails with UpstreamFailed before anything was sent to the client (answer it with respond());
  /// afterwards the connection is simply cut.
  [[nodiscard]] virtual async::Task<Status> forward(Upstream upstream,
                                                    std::vector<std::string> drop) = 0;

  /// Answers 101 with `protocol` and carries bytes between client and `upstream` both ways, with
  /// flat memory; the end of what one side sends is passed on to the other. Returns when both have
  /// ended or either is gone. There is no time limit on silence.
  [[nodiscard]] virtual async::Task<Status> tunnel(Upstream upstream, std::string protocol) = 0;

  /// True once a reply was begun.
  [[nodiscard]] virtual bool replied() const noexcept = 0;
};

/// Handles one request; what it returns as an error before replying is turned into a reply by
/// `render_error` (api/problems.cpp).
using Handler = std::function<async::Task<Status>(Exchange&)>;
using RenderError = std::function<Response(const Error&, const Request*)>;

/// HTTP/1.1 on a listening unix socket.
class Server {
 public:
  Server(async::Context& context, Limits limits, Handler handler, RenderError render_error,
         std::function<void(const std::string&)> on_trouble);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  Server(Server&&) = delete;
  Server& operator=(Server&&) = delete;

  /// Accepts until stop(); `listener` is non-blocking and CLOEXEC.
  [[nodiscard]] async::Task<void> serve(UniqueFd listener);
  /// Stops accepting, lets requests in flight end for at most `grace`, cuts the rest (followers at
  /// once).
  [[nodiscard]] async::Task<void> stop(std::chrono::milliseconds grace);
  [[nodiscard]] std::size_t connections() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Binds `path` (<= 107 bytes) with `mode` and group: by a temporary name and rename; replaces a
/// stale socket that nobody answers on, refuses (AlreadyExists) one that is served.
[[nodiscard]] Result<UniqueFd> listen_unix(const std::string& path, mode_t mode, gid_t group);

/// GET over a connected socket, for readiness gates: the status code of the reply's head.
[[nodiscard]] async::Task<Result<int>> probe_status(UniqueFd socket, std::string host,
                                                    std::string path,
                                                    std::chrono::milliseconds timeout);

}  // namespace ate::http
