#pragma once

#include <functional>
#include <memory>

#include "ate/async/task.hpp"
#include "store/session.hpp"

namespace ate::store {

/// The one thread that touches the database, and the queue in front of it. The queue belongs to the
/// loop; the session to the thread while it is busy, else to nobody: no lock is needed. Not the
/// common pool: a long hash or copy there must not hold up a commit.
class Writer {
 public:
  Writer(async::Context& context, Session session);
  /// Waits for what the thread is doing; what is queued is dropped.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  Writer(Writer&&) = delete;
  Writer& operator=(Writer&&) = delete;

  /// Queues a batch; all that are queued when the thread is next free share a transaction. A
  /// cancelled wait does not take the batch back.
  [[nodiscard]] async::Task<Result<std::vector<std::int64_t>>> write(Rows rows);
  /// Runs `work` on the thread, before the batches that are queued with it.
  [[nodiscard]] async::Task<Status> run(std::function<Status(Session&)> work);
  /// The same from outside the loop, at start.
  void run_blocking(const std::function<void(Session&)>& work);
  /// Everything queued before is done first; later work is refused.
  [[nodiscard]] async::Task<void> close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ate::store
