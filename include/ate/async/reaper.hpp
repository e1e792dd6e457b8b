#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "ate/async/task.hpp"

namespace ate::async {

/// How a child ended, as waitid told it.
struct ChildExit {
  int code = 0;
  int signal = 0;  // != 0: killed by it
};

/// The one place that reaps. The process is a child subreaper, so besides our own children the
/// orphans of runsc end up here. Woken by SIGCHLD on the loop; waitid(P_ALL, WNOWAIT) then
/// waitid(P_PID). An exit that nobody asked about yet is kept (the last 4096), so that the order of
/// "it died" and "we ask" does not matter.
class Reaper {
 public:
  /// Makes the process a subreaper and begins to reap. One per process.
  explicit Reaper(Context& context);
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;
  Reaper(Reaper&&) = delete;
  Reaper& operator=(Reaper&&) = delete;

  /// Announces interest in `pid` (a child, or an orphan that will become ours) before its exit can
  /// be forgotten. Call right after spawn or as soon as the pid is known.
  void watch(pid_t pid);
  /// Waits for the end of a watched pid; each watched pid may be waited for by several.
  /// Cancellation-safe.
  [[nodiscard]] Task<ChildExit> wait(pid_t pid);
  /// Drops what is kept about `pid`.
  void forget(pid_t pid);
  /// Number of children reaped so far (for the exact diff of tests).
  [[nodiscard]] std::uint64_t reaped() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ate::async
