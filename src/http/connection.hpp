#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ate/http/server.hpp"
#include "http/core.hpp"
#include "http/framing.hpp"
#include "http/input.hpp"
#include "http/stream.hpp"

namespace ate::http {

class Forwarding;

/// One client: reads requests in order, hands each to the handler and is its Exchange.
class Connection final : public Exchange {
 public:
  /// `refused`: its first request is answered with TooManyConnections.
  Connection(std::shared_ptr<Core> core, Stream stream, Peer peer, bool refused);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection(Connection&&) = delete;
  Connection& operator=(Connection&&) = delete;

  static async::Task<void> run(std::shared_ptr<Connection> self);

  // Exchange
  [[nodiscard]] Request& request() override { return request_; }

  [[nodiscard]] async::Task<Status> read_body() override;
  [[nodiscard]] async::Task<Status> respond(Response response) override;
  [[nodiscard]] async::Task<Status> start_stream(Response head) override;
  [[nodiscard]] async::Task<Status> write(std::string chunk) override;
  [[nodiscard]] async::Task<Status> finish() override;
  [[nodiscard]] async::Task<void> peer_gone() override;
  [[nodiscard]] Status admit_stream() override;
  [[nodiscard]] async::Task<Status> forward(Upstream upstream,
                                            std::vector<std::string> drop) override;

  [[nodiscard]] async::Task<Status> tunnel(Upstream upstream, std::string protocol) override;

  [[nodiscard]] bool replied() const noexcept override { return replied_; }

  // For Core.
  /// Ends what waits when the deadline has passed; the time of the next one.
  SteadyTime check_deadline(SteadyTime now) noexcept;
  void cut() noexcept;

  [[nodiscard]] bool idle() const noexcept { return idle_; }

  /// False for one that is only refused, or was cut.
  [[nodiscard]] bool counts() const noexcept { return !refused_ && !cut_; }

  /// A request is being served whose end is worth waiting for: not a stream of our own (SSE, log
  /// followers), not a tunnel, nor what is left to be read after a reply.
  [[nodiscard]] bool in_flight() const noexcept { return serving_ && !streaming_ && !switched_; }

 private:
  friend class Forwarding;

  enum class Next : std::uint8_t { Serve, Close };
  /// How the client learns where a streamed reply ends.
  enum class ReplyFraming : std::uint8_t { Chunked, Length, Close, None };

  async::Task<void> serve_requests();
  async::Task<Next> next_head();
  async::Task<Next> serve_one();
  async::Task<Status> call_handler();
  async::Task<Status> carry(Upstream upstream, std::vector<std::string> drop, std::string protocol);
  async::Task<Next> settle(Status outcome);
  async::Task<Next> refuse(Error error);
  async::Task<void> linger();
  async::Task<void> drain();
  [[nodiscard]] Status accept_head();
  void begin_exchange();
  void set_idle(bool idle) noexcept;

  // Deadlines. What waits on the sockets is ended when one passes, and finds expired_ set.
  void arm(std::chrono::milliseconds limit);

  void disarm() noexcept { deadline_ = SteadyTime::max(); }

  // Writing.
  void plan_after_reply();
  void append_head(const Response& response);
  void append_connection();
  async::Task<Status> send(Slices slices);
  [[nodiscard]] Status broken(const char* what);

  std::shared_ptr<Core> core_;
  Stream stream_;
  Input input_;
  Peer peer_;
  Core::Connections::iterator place_;
  SteadyTime deadline_ = SteadyTime::max();
  Forwarding* forwarding_ = nullptr;

  Head head_;
  Request request_;
  Framing framing_;
  std::string out_;  // head of the reply

  unsigned served_without_pause_ = 0;
  bool refused_;
  bool idle_ = false;
  bool cut_ = false;
  bool expired_ = false;
  bool serving_ = false;
  // Of the exchange:
  bool replied_ = false;
  bool close_after_ = false;
  bool broken_ = false;           // the reply can't be completed: the connection is cut
  bool expect_continue_ = false;  // the client waits for our 100
  bool streaming_ = false;
  bool switched_ = false;  // it is a tunnel now
  bool finished_ = false;
  bool has_stream_slot_ = false;
  ReplyFraming reply_framing_ = ReplyFraming::None;
};

}  // namespace ate::http
