#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "ate/http/server.hpp"
#include "ate/util/clock.hpp"

namespace ate::http {

class Connection;

/// What the connections of one server share: settings, counts, who is idle, whose time is up.
/// One timer serves all deadlines: arming one costs a comparison, not a timer.
class Core : public std::enable_shared_from_this<Core> {
 public:
  using Connections = std::list<Connection*>;

  Core(async::Context& context, Limits limits, Handler handler, RenderError render_error,
       std::function<void(const std::string&)> on_trouble);

  [[nodiscard]] std::string next_request_id();

  /// Makes sure that deadlines are looked at no later than `when`.
  void watch_deadline(SteadyTime when);

  /// Counts `connection` in; it must call leave() with the iterator before it ends.
  [[nodiscard]] Connections::iterator join(Connection& connection);
  void leave(Connections::iterator place) noexcept;
  void mark_idle(Connections::iterator place) noexcept;
  void mark_busy(Connections::iterator place) noexcept;

  /// `connection` is cut: its place may be taken at once.
  void uncount() noexcept { --counted_; }

  /// Whether a connection of `uid` may be served; closes the one that is idle for longest when
  /// there is no room.
  [[nodiscard]] bool admit(uid_t uid) noexcept;
  /// Room for one more that is only told that there is none.
  [[nodiscard]] bool may_refuse_politely() const noexcept;

  [[nodiscard]] bool take_stream() noexcept;

  void release_stream() noexcept { --streams_; }

  [[nodiscard]] std::size_t connections() const noexcept { return busy_.size() + idle_.size(); }

  /// Cuts the connection that is idle for longest; false when none is.
  bool evict_idle() noexcept;
  /// Cuts what has no request in flight, and streams, which have no end to wait for.
  void cut_unserved() noexcept;
  void cut_all() noexcept;

  async::Context& context;
  const Limits limits;
  const Handler handler;
  const RenderError render_error;
  const std::function<void(const std::string&)> on_trouble;
  async::TaskScope scope;
  async::Event freed;  // a connection ended
  bool stopping = false;

 private:
  void arm(SteadyTime when);
  void on_timer();

  boost::asio::steady_timer timer_;
  SteadyTime next_look_ = SteadyTime::max();
  Connections busy_;
  Connections idle_;         // the one that is idle for longest first
  std::size_t counted_ = 0;  // neither refused nor cut
  std::size_t streams_ = 0;
  std::uint64_t id_seed_ = 0;
  std::uint64_t ids_ = 0;
};

}  // namespace ate::http
