#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "http/connection.hpp"

namespace ate::http {

/// One request on its way to an upstream and its reply on the way back. Three coroutines: the
/// reply (run itself), the request's body, and a watch for the client's end. Lives on the frame of
/// Connection::forward.
class Forwarding {
 public:
  Forwarding(Connection& client, Stream stream, Exchange::Upstream upstream,
             std::vector<std::string> drop);
  ~Forwarding();
  Forwarding(const Forwarding&) = delete;
  Forwarding& operator=(const Forwarding&) = delete;
  Forwarding(Forwarding&&) = delete;
  Forwarding& operator=(Forwarding&&) = delete;

  async::Task<Status> run();
  /// Answers 101 with `protocol` and carries bytes both ways until both have ended.
  async::Task<Status> run_tunnel(std::string protocol);
  /// Ends the coroutines beside run(); to be awaited before destruction, uncancellable.
  async::Task<void> end();

  /// For the client's deadline and its cut: ends what waits on the upstream.
  void cancel_upstream() noexcept { stream_.cancel(); }

 private:
  enum class Way : std::uint8_t { Up, Down };

  async::Task<void> upload();
  async::Task<void> watch_client();
  async::Task<void> watch_upstream(std::shared_ptr<async::Event> ended);
  void spawn_watches();

  async::Task<Status> send_head();
  async::Task<Status> read_head();
  async::Task<Status> relay_interim();
  async::Task<Status> relay_reply();
  async::Task<Status> relay_body();

  // What follows a 101 (tunnel.cpp).
  async::Task<Status> send_switch(const Headers& headers, const std::string& protocol);
  async::Task<Status> relay_bytes();
  async::Task<void> upload_bytes();
  async::Task<bool> pump(Way way);
  [[nodiscard]] bool switch_agreed() const;

  [[nodiscard]] std::string request_head() const;
  void append_fields(std::string& out, const Headers& headers, bool reply) const;
  void plan_reply();

  async::Task<bool> send_upstream(Slices slices);
  async::Task<Status> send_client(Slices slices);
  /// Bytes passed: puts the deadline off.
  void progress(std::size_t bytes);
  void arm();
  void abort(Error error);
  /// Why the exchange can't go on, as far as known.
  [[nodiscard]] Error reason(const char* otherwise) const;

  Connection& client_;
  Stream stream_;
  Input input_;
  Exchange::Upstream upstream_;
  std::vector<std::string> drop_;
  async::TaskScope tasks_;

  Head head_;
  Framing framing_;
  std::string out_;
  Error abort_reason_;
  bool aborted_ = false;
  bool upload_done_ = false;
  bool upload_broken_ = false;  // the upstream takes no more of the request
  bool has_head_ = false;
  bool ended_ = false;
  bool offers_websocket_ = false;
  bool lost_ = false;         // the actor's sandbox is gone: what is here may still be read
  bool switched_ = false;     // bytes of another protocol pass, not HTTP
  bool client_gone_ = false;  // it will not read any more
  async::Event sent_all_;     // after a switch: the client's bytes have come to their end
};

}  // namespace ate::http
