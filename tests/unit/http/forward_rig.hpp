#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "fixture.hpp"

namespace ate::test {

/// A server whose every request is forwarded to a scripted upstream on a thread of its own.
class ForwardRig {
 public:
  using Script = std::function<void(Client& upstream)>;

  explicit ForwardRig(Script script) : ForwardRig(std::move(script), http::Exchange::Upstream()) {}

  /// `settings`: the timeouts of it are used.
  ForwardRig(Script script, http::Exchange::Upstream settings);
  ~ForwardRig();
  ForwardRig(const ForwardRig&) = delete;
  ForwardRig& operator=(const ForwardRig&) = delete;
  ForwardRig(ForwardRig&&) = delete;
  ForwardRig& operator=(ForwardRig&&) = delete;

  [[nodiscard]] Client connect() const { return server_->connect(); }

  TestServer& server() { return *server_; }

  /// Bytes that on_activity told of.
  std::atomic<std::uint64_t> activity = 0;
  /// Scripts that have ended.
  std::atomic<int> ended = 0;
  /// Requests that were carried to their end, however.
  std::atomic<int> ended_requests = 0;
  /// How often a connection became a tunnel.
  std::atomic<int> switched = 0;
  /// Requests ask for a tunnel.
  bool tunnel = false;

  /// As if the sandbox of all upstreams had been killed. From a script's thread.
  void end_upstream();

 private:
  async::Task<Status> forward(http::Exchange& exchange);

  Script script_;
  std::chrono::milliseconds head_timeout_;
  std::chrono::milliseconds stall_timeout_;
  std::list<std::thread> threads_;
  std::shared_ptr<async::Event> upstream_ended_;
  std::unique_ptr<TestServer> server_;
};

/// `count` bytes of a pattern that begins at `offset`.
std::string pattern(std::size_t offset, std::size_t count);

}  // namespace ate::test
