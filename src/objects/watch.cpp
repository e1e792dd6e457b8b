#include <algorithm>

#include "objects/state.hpp"
#include "objects/watcher.hpp"

namespace ate::objects {
namespace {

constexpr std::chrono::milliseconds kRetry{1000};
constexpr std::chrono::milliseconds kShortest{10};
// How often it is asked whether the directory is another one: what no event tells.
constexpr std::chrono::nanoseconds kLook = std::chrono::seconds(2);

}  // namespace

std::chrono::nanoseconds Catalog::State::until_rescan() const {
  std::chrono::nanoseconds limit = options.rescan;
  if (retry) {
    limit = std::min<std::chrono::nanoseconds>(limit, kRetry);
  }
  const SteadyTime now = clock.steady();
  for (const auto& [key, since] : missing) {
    limit = std::min<std::chrono::nanoseconds>(limit, since + options.absence - now);
  }
  return std::max<std::chrono::nanoseconds>(limit, kShortest);
}

async::Task<void> Catalog::State::watch() {
  Watcher watcher(options.directory);
  std::string complaint;
  while (true) {
    const Status armed = watcher.arm();
    const std::string text = armed ? std::string() : armed.error().message();
    if (text != complaint) {
      complaint = text;
      if (!text.empty()) {
        on_log(true, text + "; changes are seen every minute only");
      }
    }
    co_await scan(false);
    const SteadyTime deadline = std::chrono::steady_clock::now() + until_rescan();
    bool changed = false;
    while (!changed) {
      const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds::zero()) {
        break;
      }
      if (watcher.fd() < 0) {
        co_await async::sleep_for(left);
        break;
      }
      const std::chrono::nanoseconds limit = std::min(left, kLook);
      Status ready = co_await async::with_deadline<void>(limit, "a change of the object files",
                                                         async::wait_readable(watcher.fd()));
      if (ready) {
        changed = watcher.drain();
      } else if (ready.error().code() != Errc::DeadlineExceeded || watcher.moved()) {
        break;
      }
    }
    if (changed) {
      // Editors write in several steps, and a burst of changes is one scan.
      co_await async::sleep_for(options.debounce);
      static_cast<void>(watcher.drain());
    }
  }
}

}  // namespace ate::objects
