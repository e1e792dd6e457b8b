#pragma once

#include <functional>
#include <memory>

#include "ate/async/task.hpp"
#include "ate/util/log.hpp"
#include "daemon/config.hpp"
#include "daemon/host.hpp"

namespace ate::daemon {

/// Every object of the daemon, built and wired in one place. Owns them; outlived by the context.
class Daemon {
 public:
  /// Opens the store, loads it, prepares the directories. Nothing runs yet. Unavailable when
  /// another daemon holds the store.
  [[nodiscard]] static Result<std::unique_ptr<Daemon>> compose(async::Context& context,
                                                               const Config& config, Host host,
                                                               const Log& log);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  Daemon(Daemon&&) = delete;
  Daemon& operator=(Daemon&&) = delete;

  /// Binds the socket, then starts to serve, to reconcile, to load /etc/ate and to test the
  /// runtimes, in that order and in the background. `on_failure` is called when it can't go on.
  [[nodiscard]] Status start(std::function<void(const Error&)> on_failure);
  /// SIGHUP.
  void reload();
  /// Ends serving and background work, leaves running actors alone.
  [[nodiscard]] async::Task<void> stop();

 private:
  struct State;
  explicit Daemon(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ate::daemon
