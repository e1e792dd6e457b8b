#include "runtime/gvisor/trial.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <utility>

#include "ate/artifacts/artifacts.hpp"
#include "ate/os/fs.hpp"
#include "ate/os/host_info.hpp"
#include "ate/util/scope_exit.hpp"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::runtime::gvisor {
namespace {

constexpr std::size_t kResultsLimit = 1 << 20;
constexpr std::uint16_t kPort = 7;
constexpr const char* kUid = "selftest";

class NoStages final : public StageSink {
 public:
  void record(std::string /*name*/, std::chrono::nanoseconds /*duration*/) override {}
};

async::Task<Result<std::string>> ask(Services& services, std::string runsc,
                                     std::vector<std::string> arguments) {
  Command command;
  command.what = "runsc " + arguments.front();
  command.argv = core::runsc_probe(runsc, std::move(arguments));
  command.deadline = services.options.deadlines.control;
  Result<Outcome> outcome = co_await services.runsc.run(std::move(command));
  if (!outcome) {
    co_return fail(std::move(outcome).error());
  }
  if (!outcome->ok()) {
    co_return fail(command_error("runsc", *outcome));
  }
  co_return std::move(outcome->output);
}

/// What we use of a command has to be in its help.
Status require(const std::string& help, std::string_view command,
               std::initializer_list<std::string_view> flags) {
  for (const std::string_view flag : flags) {
    if (help.find(flag) == std::string::npos) {
      return fail(Errc::AssetInvalid, "this runsc is too old: `runsc " + std::string(command) +
                                          "` knows no " + std::string(flag));
    }
  }
  return {};
}

async::Task<Status> probe_features(Services& services, std::string runsc) {
  std::vector<std::string> flags{"flags"};
  ATE_CO_ASSIGN(const std::string global, co_await ask(services, runsc, std::move(flags)));
  ATE_CO_TRY(require(global, "flags", {"-overlay2", "-network", "-ignore-cgroups", "-panic-log"}));
  std::vector<std::string> restore{"help", "restore"};
  ATE_CO_ASSIGN(const std::string restoring, co_await ask(services, runsc, std::move(restore)));
  ATE_CO_TRY(require(restoring, "help restore", {"-image-path", "-detach", "-pid-file"}));
  std::vector<std::string> save{"help", "checkpoint"};
  ATE_CO_ASSIGN(const std::string saving, co_await ask(services, runsc, std::move(save)));
  ATE_CO_TRY(require(saving, "help checkpoint", {"-leave-running", "-compression"}));
  co_return Status{};
}

bool recalled(const std::string& file, const std::string& key) {
  const Result<std::string> text = os::read_file(file, kResultsLimit);
  return text && ("\n" + *text).find("\n" + key + "\n") != std::string::npos;
}

/// Only passes are kept: a failure is tried again at the next start.
Status remember(const std::string& file, const std::string& key) {
  Result<std::string> text = os::read_file(file, kResultsLimit / 2);
  const std::string before = text ? std::move(*text) : std::string();
  return os::write_file_atomic(file, before + key + "\n", 0600);
}

StartPlan trial_plan(const Services& services, const std::string& runsc,
                     const std::string& platform, std::int64_t serial, const std::string& rootfs) {
  StartPlan plan;
  plan.incarnation.atespace = kUid;
  plan.incarnation.name = kUid;
  plan.incarnation.uid = kUid;
  plan.incarnation.worker = kUid;
  plan.incarnation.serial = serial;
  plan.runsc = runsc;
  plan.platform = platform;
  // So that templates may ask for one: a runsc that can't keep it does not pass.
  constexpr std::int64_t kQuota = 64LL << 20;
  plan.disk_quota_bytes = kQuota;
  std::vector<std::string> args = services.options.selftest_args;
  ContainerPlan container;
  container.name = kUid;
  container.rootfs = rootfs;
  container.make_spec = [args](const core::OciPaths& paths) {
    v1alpha1::Container program;
    program.add_command("/selftest");
    for (const std::string& argument : args) {
      program.add_args(argument);
    }
    core::OciPlan spec;
    spec.paths = paths;
    return core::build_oci_spec(spec, program);
  };
  plan.containers.push_back(std::move(container));
  return plan;
}

/// The few bytes up to the end of the connection.
async::Task<Result<std::string>> read_line(UniqueFd socket) {
  std::string text;
  for (;;) {
    const Status readable = co_await async::wait_readable(socket.get());
    ATE_CO_TRY(readable);
    std::array<char, 64> buffer{};
    const ssize_t got = ::read(socket.get(), buffer.data(), buffer.size());
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      co_return fail(Error::from_errno("reading the workload's answer", errno));
    }
    if (got == 0 || text.size() > buffer.size()) {
      co_return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
}

/// What the workload answers on one connection: its count.
async::Task<Result<std::string>> ask_count(GuestPtr guest) {
  constexpr std::chrono::milliseconds kDial(250);
  constexpr std::chrono::milliseconds kPeriod(20);
  constexpr int kAttempts = 500;
  std::string seen;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Result<UniqueFd> socket =
        co_await net::dial(guest->services.context, guest->netns, kPort, kDial);
    if (socket) {
      co_return co_await read_line(std::move(*socket));
    }
    seen = socket.error().message();
    const bool ended = co_await guest->ended.wait_for(kPeriod);
    if (ended) {
      co_return fail(Errc::RuntimeFailed, describe_end(*guest));
    }
  }
  co_return fail(Errc::RuntimeFailed, "no answer: " + seen);
}

async::Task<Status> expect_count(GuestPtr guest, std::string count, std::string when) {
  constexpr std::chrono::seconds kLimit(20);
  const Result<std::string> answer =
      co_await async::with_deadline(kLimit, "asking the workload " + when, ask_count(guest));
  if (!answer) {
    co_return fail(Error(answer.error()).context("the workload " + when));
  }
  if (*answer != count) {
    co_return fail(Errc::AssetInvalid,
                   "the workload answered '" + *answer + "' instead of '" + count + "' " + when);
  }
  co_return Status{};
}

async::Task<Result<GuestPtr>> start(Services& services, StartPlan plan) {
  Result<net::NetnsPair> pair = co_await acquire_network(services);
  if (!pair) {
    co_return fail(std::move(pair).error());
  }
  plan.netns = std::move(*pair);
  NoStages stages;
  co_return co_await start_guest(services, std::move(plan), stages);
}

async::Task<Status> boot_and_save(Services& services, StartPlan plan, std::string image) {
  ATE_CO_ASSIGN(const GuestPtr guest, co_await start(services, std::move(plan)));
  Status result = co_await expect_count(guest, "1\n", "after boot");
  if (result) {
    NoStages stages;
    result = co_await save_guest(guest, image, stages);
  }
  const Status ended = co_await end_guest(guest);
  ATE_CO_TRY(result);
  co_return ended;
}

async::Task<Status> restore_and_ask(Services& services, StartPlan plan, std::string image) {
  plan.image_path = std::move(image);
  ATE_CO_ASSIGN(const GuestPtr guest, co_await start(services, std::move(plan)));
  const Status result = co_await expect_count(guest, "2\n", "after restore");
  const Status ended = co_await end_guest(guest);
  ATE_CO_TRY(result);
  co_return ended;
}

async::Task<Status> save_and_restore(Services& services, std::string runsc, std::string platform) {
  const std::string actor = services.paths.actor(kUid);
  const std::string work = services.paths.run_actor(kUid);
  const std::string rootfs = actor + "/rootfs";
  const std::string image = actor + "/image";
  const std::string program = services.options.selftest_program;
  auto make = [actor, work, rootfs, image, program]() -> Status {
    ATE_TRY(os::remove_tree(work));
    ATE_TRY(os::remove_tree(actor));
    ATE_TRY(make_trial_rootfs(rootfs, program));
    return os::make_dirs(image, 0700);
  };
  const Status made = co_await async::run_blocking(services.context, make);
  ATE_CO_TRY(made);
  Status result =
      co_await boot_and_save(services, trial_plan(services, runsc, platform, 1, rootfs), image);
  if (result) {
    result =
        co_await restore_and_ask(services, trial_plan(services, runsc, platform, 2, rootfs), image);
  }
  auto clean = [actor, work]() -> Status {
    ATE_TRY(os::remove_tree(work));
    return os::remove_tree(actor);
  };
  const Status cleaned = co_await async::run_blocking(services.context, clean);
  ATE_CO_TRY(result);
  co_return cleaned;
}

async::Task<Status> try_binary(Services& services, TrialPtr trial, std::string digest,
                               std::string runsc, std::string platform) {
  ATE_CO_ASSIGN(const os::HostInfo host, os::read_host_info("/proc"));
  if (host.pivot_root_obstacle) {
    co_return fail(Errc::Unavailable,
                   "runsc can't run here: " + *host.pivot_root_obstacle +
                       ". Start ate-noded outside of a chroot (systemd-nspawn, or a mount "
                       "namespace of its own entered by pivot_root, is fine).");
  }
  const Status probed = co_await probe_features(services, runsc);
  ATE_CO_TRY(probed);
  ATE_CO_ASSIGN(trial->cpu_features, co_await probe_cpu_features(services, runsc));
  const std::string key = trial_key(digest, platform, host.kernel_release, trial->cpu_features);
  if (recalled(services.options.selftest_file, key)) {
    co_return Status{};
  }
  const Status tested = co_await save_and_restore(services, runsc, platform);
  ATE_CO_TRY(tested);
  co_return remember(services.options.selftest_file, key);
}

}  // namespace

std::string trial_key(const std::string& digest, const std::string& platform,
                      const std::string& kernel, const std::vector<std::string>& features) {
  std::string text = platform + "\n" + kernel + "\n";
  for (const std::string& feature : features) {
    text += feature + "\n";
  }
  return digest + " " + artifacts::sha256_text(text);
}

async::Task<Result<std::vector<std::string>>> probe_cpu_features(Services& services,
                                                                 std::string runsc) {
  std::vector<std::string> arguments{"cpu-features"};
  ATE_CO_ASSIGN(const std::string text, co_await ask(services, runsc, std::move(arguments)));
  std::vector<std::string> features;
  std::string word;
  for (const char c : text + ",") {
    if (c != ',' && c != '\n' && c != ' ') {
      word.push_back(c);
    } else if (!word.empty()) {
      features.push_back(std::exchange(word, {}));
    }
  }
  std::sort(features.begin(), features.end());
  co_return features;
}

std::vector<std::string> missing_features(const std::vector<std::string>& wanted,
                                          const std::vector<std::string>& have) {
  std::vector<std::string> missing;
  std::set_difference(wanted.begin(), wanted.end(), have.begin(), have.end(),
                      std::back_inserter(missing));
  return missing;
}

async::Task<Status> run_trial(Services& services, TrialPtr trial, std::string digest,
                              std::string runsc, std::string platform) {
  trial->health.state = Health::State::Running;
  // Whoever waits must not wait for ever when this coroutine is cancelled.
  const ScopeExit finish([trial]() {
    if (trial->health.state == Health::State::Running) {
      trial->health = {.state = Health::State::Failed, .detail = "the self-test was interrupted"};
    }
    trial->done.set();
  });
  const Status result = co_await try_binary(services, trial, std::move(digest), std::move(runsc),
                                            std::move(platform));
  trial->health.state = result ? Health::State::Passed : Health::State::Failed;
  trial->health.detail = result ? std::string() : result.error().message();
  co_return result;
}

}  // namespace ate::runtime::gvisor
