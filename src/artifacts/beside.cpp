#include "artifacts/beside.hpp"

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <future>
#include <utility>

namespace ate::artifacts {

struct Beside::State {
  explicit State(std::function<Status()> w) : work(std::move(w)) {}

  [[nodiscard]] bool claim() { return !claimed.exchange(true); }

  std::function<Status()> work;
  std::atomic<bool> claimed = false;
  std::promise<Status> done;
};

Beside::Beside(async::Context& context, std::function<Status()> work)
    : state_(std::make_shared<State>(std::move(work))) {
  boost::asio::post(context.pool, [state = state_] {
    if (state->claim()) {
      state->done.set_value(state->work());
    }
  });
}

Status Beside::join() {
  return state_->claim() ? state_->work() : state_->done.get_future().get();
}

}  // namespace ate::artifacts
