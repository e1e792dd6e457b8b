// Actors write their output straight into files; what keeps those short is this.
#include <algorithm>

#include "ate/logs/logs.hpp"
#include "engine/state.hpp"

namespace ate::engine {

namespace {

// While somebody floods: a fast disk takes some hundred MiB/s.
constexpr std::chrono::milliseconds kBusyPeriod(20);

struct Shortened {
  std::int64_t freed = 0;
  std::optional<Error> error;  // the last one
};

Shortened shorten(const std::vector<std::string>& directories, std::int64_t keep_bytes) {
  Shortened out;
  for (const std::string& directory : directories) {
    const Result<std::int64_t> freed = logs::bound_directory(directory, keep_bytes);
    if (freed) {
      out.freed += *freed;
    } else {
      out.error = freed.error();
    }
  }
  return out;
}

}  // namespace

std::set<std::string> Engine::State::writers() const {
  std::set<std::string> uids = awake;
  for (const auto& [id, run] : runs) {
    uids.insert(run->actor_uid());
  }
  return uids;
}

async::Task<void> Engine::State::bound_logs() {
  const std::shared_ptr<State> self = shared_from_this();
  if (!settings.log_directory) {
    co_return;
  }
  std::set<std::string> before;
  std::chrono::milliseconds pause = settings.log_period;
  bool told = false;
  while (!stopping) {
    co_await async::sleep_for(pause);
    std::set<std::string> uids = writers();
    std::set<std::string> round = uids;
    round.insert(before.begin(), before.end());  // once more after its end
    before = std::move(uids);
    std::vector<std::string> directories;
    for (const std::string& uid : round) {
      directories.push_back(settings.log_directory(uid));
    }
    if (directories.empty()) {
      pause = settings.log_period;
      continue;
    }
    auto job = [directories = std::move(directories), keep = settings.log_bytes]() {
      return shorten(directories, keep);
    };
    const Shortened done = co_await async::run_blocking(context, std::move(job));
    if (done.error && !told) {
      log.error("output of actors can't be kept short", {{"error", done.error->message()}});
    }
    told = done.error.has_value();
    pause = done.freed > settings.log_bytes / 4 ? std::min(kBusyPeriod, settings.log_period)
                                                : settings.log_period;
  }
}

}  // namespace ate::engine
