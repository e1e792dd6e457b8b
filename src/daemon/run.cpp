#include "daemon/run.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "ate/objects/check.hpp"
#include "ate/util/failpoint.hpp"
#include "daemon/compose.hpp"
#include "daemon/config.hpp"
#include "daemon/version.hpp"

namespace ate::daemon {

namespace {

namespace asio = boost::asio;

/// Threads for blocking work besides the store's own: copies and fsyncs of a few actors at a time.
constexpr std::size_t kPoolThreads = 4;
constexpr rlim_t kWantedFiles = 65536;
/// After this the process ends whatever still runs: a job on the pool (an fsync of a large file)
/// can't be interrupted, and the journal makes that no worse than a crash.
constexpr std::chrono::milliseconds kStopLimit{900};

/// Arenas keep what they free; few of them keep an idle daemon small.
void bound_allocator() {
  ::mallopt(M_ARENA_MAX, 2);
  ::mallopt(M_TRIM_THRESHOLD, 256 * 1024);
  ::mallopt(M_MMAP_THRESHOLD, 256 * 1024);
}

void raise_file_limit(const Log& log) {
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return;
  }
  const rlim_t wanted = std::min<rlim_t>(kWantedFiles, limit.rlim_max);
  if (limit.rlim_cur >= wanted) {
    return;
  }
  limit.rlim_cur = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    log.warning("RLIMIT_NOFILE can't be raised", {});
  }
}

/// The loop, the signals and the daemon on it.
class Runner {
 public:
  Runner(const Config& config, const Log& log)
      : config_(config), log_(log), pool_(kPoolThreads), loop_(1), context_{loop_, pool_} {}

  int run() {
    if (!start()) {
      return exit_code_;
    }
    wait_for_signal();
    loop_.run();
    // SAFETY: not through destructors: threads of the pool may still work on what they would
    // destroy. Everything that must be written was written by Daemon::stop or is in the journal.
    std::_Exit(exit_code_);
  }

 private:
  bool refuse(const Error& error) {
    log_.error("refusing to start: " + error.message(), {});
    exit_code_ = kExitRefused;
    return false;
  }

  bool start() {
    const core::Paths paths(config_.state_dir, config_.run_dir);
    Result<Host> host = prepare_host(config_, paths);
    if (!host) {
      return refuse(host.error());
    }
    for (const std::string& text : host->warnings) {
      log_.warning(text, {});
    }
    announce(*host);
    auto composed = Daemon::compose(context_, config_, std::move(*host), log_);
    if (!composed) {
      return refuse(composed.error());
    }
    daemon_ = std::move(*composed);
    const Status started = daemon_->start([this](const Error& error) {
      log_.error(error.message(), {});
      begin_stop(kExitFailure);
    });
    if (!started) {
      // Loaded, but nothing runs: the daemon is left as a crash would leave it.
      refuse(started.error());
      std::_Exit(exit_code_);
    }
    return true;
  }

  void announce(const Host& host) const {
    log_.write(
        config_.enforcement ? LogLevel::Info : LogLevel::Warning,
        fmt::format("ate-noded {} starts: state {}, socket {}, objects {}; {}", version(),
                    config_.state_dir, config_.socket, config_.config_dir, host.cgroup_detail),
        {});
  }

  void wait_for_signal() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) {
        return;
      }
      if (number == SIGHUP) {
        daemon_->reload();
        wait_for_signal();
        return;
      }
      log_.info(fmt::format("signal {}: stopping; running actors are left alone", number), {});
      begin_stop(kExitOk);
    });
  }

  void begin_stop(int code) {
    if (stopping_) {
      return;
    }
    stopping_ = true;
    exit_code_ = code;
    stop_scope_.spawn("stop", stop());
    stop_scope_.spawn("stop-limit", stop_limit());
  }

  async::Task<void> stop() {
    co_await daemon_->stop();
    loop_.stop();
  }

  async::Task<void> stop_limit() {
    co_await async::sleep_for(kStopLimit);
    log_.warning("work was still running when the time to stop had passed", {});
    loop_.stop();
  }

  const Config& config_;
  const Log& log_;
  asio::thread_pool pool_;
  asio::io_context loop_;
  async::Context context_;
  asio::signal_set signals_{loop_, SIGTERM, SIGINT, SIGHUP};
  async::TaskScope stop_scope_{context_, [this](const std::string& name, const std::string& what) {
                                 log_.error("stopping failed: " + what, {{"task", name}});
                                 loop_.stop();
                               }};
  std::unique_ptr<Daemon> daemon_;
  bool stopping_ = false;
  int exit_code_ = kExitOk;
};

int print_failpoints() {
  if (!failpoints_enabled()) {
    std::fputs("ate-noded: this build has no failpoints (-Dfailpoints=true)\n", stderr);
    return kExitFailure;
  }
  for (const std::string_view name : failpoint_names()) {
    std::printf("%.*s\n", static_cast<int>(name.size()), name.data());
  }
  return kExitOk;
}

/// What the next start would find wrong in the object files; images and assets are not looked at.
int check_objects(const Config& config) {
  std::vector<Problem> problems = objects::check_directory(config.config_dir);
  if (problems.empty()) {
    return kExitOk;
  }
  const Error error = Error(Errc::InvalidValue, "").with_problems(std::move(problems));
  std::fputs(describe(error).c_str(), stderr);
  return kExitUsage;
}

int run_daemon(const Config& config) {
  bound_allocator();
  ::umask(0077);
  std::signal(SIGPIPE, SIG_IGN);
  Log log(config.log_level);
  if (!failpoints_enabled() && std::getenv("ATE_FAILPOINT") != nullptr) {
    log.error("refusing to start: ATE_FAILPOINT is set, but this build has no failpoints", {});
    return kExitRefused;
  }
  raise_file_limit(log);
  Runner runner(config, log);
  return runner.run();
}

}  // namespace

int run(const CommandLine& command_line) {
  switch (command_line.action) {
    case Action::Help:
      std::printf("%.*s", static_cast<int>(usage().size()), usage().data());
      return kExitOk;
    case Action::Version:
      std::printf("ate-noded %.*s\n", static_cast<int>(version().size()), version().data());
      return kExitOk;
    case Action::Failpoints:
      return print_failpoints();
    case Action::PrintConfig:
    case Action::CheckConfig:
    case Action::Run:
      break;
  }
  const Result<Config> config = load_config(command_line);
  if (!config) {
    std::fputs(describe(config.error()).c_str(), stderr);
    return kExitUsage;
  }
  if (command_line.action == Action::PrintConfig) {
    std::fputs(config->text.c_str(), stdout);
    return kExitOk;
  }
  if (command_line.action == Action::CheckConfig) {
    return check_objects(*config);
  }
  return run_daemon(*config);
}

}  // namespace ate::daemon
