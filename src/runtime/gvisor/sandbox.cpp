#include "runtime/gvisor/sandbox.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <string_view>
#include <utility>

#include "ate/util/failpoint.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "runtime/gvisor/exec.hpp"
#include "runtime/gvisor/readiness.hpp"

namespace ate::runtime::gvisor {
namespace {

constexpr std::size_t kNetDevLimit = 16 * 1024;

async::Task<Status> send(GuestPtr guest, ContainerPtr container, int signo) {
  const Result<Outcome> outcome =
      co_await control(guest, "runsc kill", core::runsc_kill(guest->globals, container->id, signo),
                       guest->services.options.deadlines.control);
  if (!outcome) {
    co_return fail(outcome.error());
  }
  if (!outcome->ok()) {
    co_return fail(command_error("runsc kill", *outcome));
  }
  co_return Status{};
}

void fill_containers(const Guest& guest, v1alpha1::SnapshotManifest& manifest) {
  manifest.clear_containers();
  if (!guest.pod()) {
    manifest.set_oci_spec(guest.containers.front()->oci_spec);
    return;
  }
  manifest.set_oci_spec(guest.pause_spec);
  for (const ContainerPtr& container : guest.containers) {
    v1alpha1::ContainerSnapshot& saved = *manifest.add_containers();
    saved.set_name(container->name);
    saved.set_oci_spec(container->oci_spec);
    saved.set_sidecar(container->sidecar);
    saved.set_cold(!container->known_to_runsc);
    saved.set_restarts(container->restarts);
    if (container->exit_code) {
      saved.set_exit_code(*container->exit_code);
    }
  }
}

class GvisorSandbox final : public Sandbox {
 public:
  GvisorSandbox(GuestPtr guest, Provenance provenance)
      : guest_(std::move(guest)), provenance_(std::move(provenance)) {}

  Identity identity() const override;
  async::Task<Status> ready(StageSink& stages) override;
  async::Task<Status> checkpoint(std::string directory,
                                 std::shared_ptr<v1alpha1::SnapshotManifest> manifest,
                                 StageSink& stages) override;
  async::Task<Status> unpause() override;
  async::Task<Status> signal(int signo, std::string container) override;
  std::vector<ContainerView> containers() const override;
  async::Task<bool> containers_changed() override;
  async::Task<Result<ExecOutput>> exec(ExecPlan plan) override;
  async::Task<Result<UniqueFd>> dial(std::uint16_t port,
                                     std::chrono::milliseconds timeout) override;
  async::Task<SandboxExit> exited() override;
  async::Task<std::int64_t> resident_bytes() override;
  std::uint64_t network_bytes() override;
  async::Task<Status> destroy(std::chrono::milliseconds graceful) override;

 private:
  void fill(v1alpha1::SnapshotManifest& manifest) const;

  GuestPtr guest_;
  Provenance provenance_;
  std::uint64_t network_bytes_ = 0;
};

Identity GvisorSandbox::identity() const {
  return {.pid = guest_->processes.sandbox.pid,
          .start_time = guest_->processes.sandbox.start_time,
          .netns_id = guest_->netns.id};
}

async::Task<Status> GvisorSandbox::ready(StageSink& stages) {
  if (failpoint("gvisor-ready")) {
    co_return fail(Errc::NotReady, "failpoint gvisor-ready");
  }
  StageTimer timer(stages, "ready");
  const GuestPtr guest = guest_;
  const auto begun = std::chrono::steady_clock::now();
  // One after the other: meanwhile the others get on, and each has its time from the same start.
  for (const ContainerPtr& container : guest->containers) {
    const Status open = co_await wait_ready(guest, container, begun);
    ATE_CO_TRY(open);
    container->ready = container->state == ContainerView::State::Running;
  }
  timer.done();
  co_return Status{};
}

void GvisorSandbox::fill(v1alpha1::SnapshotManifest& manifest) const {
  manifest.set_sandbox_class(v1alpha1::SandboxClass::gvisor);
  manifest.mutable_assets()->clear();
  for (const auto& [name, digest] : provenance_.assets) {
    (*manifest.mutable_assets())[name] = digest;
  }
  manifest.mutable_cpu_features()->Clear();
  for (const std::string& feature : provenance_.cpu_features) {
    manifest.add_cpu_features(feature);
  }
  manifest.set_kernel(provenance_.kernel);
  manifest.set_memory_bytes(guest_->incarnation.limits.guest_memory_bytes);
  manifest.set_vcpus(guest_->incarnation.limits.guest_vcpus);
  fill_containers(*guest_, manifest);
  auto& runtime = *manifest.mutable_runtime();
  runtime["platform"] = provenance_.platform;
  runtime["network"] = kNetworkMode;
  runtime["overlay"] = kOverlayMode;
  runtime["specBuilder"] = core::kOciSpecBuilder;
}

async::Task<Status> GvisorSandbox::checkpoint(std::string directory,
                                              std::shared_ptr<v1alpha1::SnapshotManifest> manifest,
                                              StageSink& stages) {
  const GuestPtr guest = guest_;
  const Status saved = co_await save_guest(guest, std::move(directory), stages);
  ATE_CO_TRY(saved);
  fill(*manifest);  // after it: which containers there were is fixed with the pause
  co_return Status{};
}

async::Task<Status> GvisorSandbox::unpause() {
  co_return co_await unpause_guest(guest_);
}

async::Task<Status> GvisorSandbox::signal(int signo, std::string container) {
  const GuestPtr guest = guest_;
  ATE_CO_ASSIGN(const ContainerPtr target, find_container(*guest, container));
  if (target->state != ContainerView::State::Running) {
    co_return fail(Errc::StateConflict, "container " + target->name + " does not run");
  }
  co_return co_await send(guest, target, signo);
}

std::vector<ContainerView> GvisorSandbox::containers() const {
  std::vector<ContainerView> views;
  for (const ContainerPtr& container : guest_->containers) {
    views.push_back({.name = container->name,
                     .state = container->state,
                     .sidecar = container->sidecar,
                     .ready = container->ready,
                     .exit_code = container->exit_code,
                     .restarts = container->restarts,
                     .message = container->message});
  }
  return views;
}

async::Task<bool> GvisorSandbox::containers_changed() {
  const GuestPtr guest = guest_;
  co_await guest->changed.wait();
  guest->changed.reset();
  co_return !guest->ended.is_set();
}

async::Task<Result<ExecOutput>> GvisorSandbox::exec(ExecPlan plan) {
  co_return co_await exec_in(guest_, std::move(plan));
}

async::Task<Result<UniqueFd>> GvisorSandbox::dial(std::uint16_t port,
                                                  std::chrono::milliseconds timeout) {
  const GuestPtr guest = guest_;
  if (guest->ended.is_set()) {
    co_return fail(Errc::UpstreamFailed, "the actor has ended: " + describe_end(*guest));
  }
  co_return co_await net::dial(guest->services.context, guest->netns, port, timeout);
}

async::Task<SandboxExit> GvisorSandbox::exited() {
  const GuestPtr guest = guest_;
  co_await guest->ended.wait();
  co_return guest->exit;
}

async::Task<std::int64_t> GvisorSandbox::resident_bytes() {
  const GuestPtr guest = guest_;
  auto job = [guest]() { return gvisor::resident_bytes(*guest); };
  co_return co_await async::run_blocking(guest->services.context, job);
}

std::uint64_t GvisorSandbox::network_bytes() {
  if (guest_->net_counters) {
    std::array<char, kNetDevLimit> buffer;
    const ssize_t got = ::pread(guest_->net_counters.get(), buffer.data(), buffer.size(), 0);
    if (got > 0) {
      const std::string text(buffer.data(), static_cast<std::size_t>(got));
      network_bytes_ = std::max(network_bytes_, interface_bytes(text, "eth0"));
    }
  }
  return network_bytes_;
}

async::Task<Status> GvisorSandbox::destroy(std::chrono::milliseconds graceful) {
  const GuestPtr guest = guest_;
  // A paused guest can't act on a signal, and runsc refuses to send it one.
  const bool ask = graceful.count() > 0 && !guest->paused && !guest->ended.is_set();
  if (ask) {
    const auto deadline = std::chrono::steady_clock::now() + graceful;
    bool sent = false;
    for (const ContainerPtr& container : guest->containers) {
      if (container->state == ContainerView::State::Running) {
        const Status done = co_await send(guest, container, container->stop_signal);
        sent = sent || done.has_value();
      }
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    if (sent && left.count() > 0) {
      const bool ended = co_await guest->all_ended.wait_for(left);
      static_cast<void>(ended);  // IGNORED: what has not ended is killed
    }
  }
  co_return co_await end_guest(guest);
}

struct SignalName {
  std::string_view name;
  int number;
};

constexpr std::array kSignals = {
    SignalName{"HUP", SIGHUP},     SignalName{"INT", SIGINT},   SignalName{"QUIT", SIGQUIT},
    SignalName{"ABRT", SIGABRT},   SignalName{"KILL", SIGKILL}, SignalName{"USR1", SIGUSR1},
    SignalName{"USR2", SIGUSR2},   SignalName{"PIPE", SIGPIPE}, SignalName{"ALRM", SIGALRM},
    SignalName{"TERM", SIGTERM},   SignalName{"CONT", SIGCONT}, SignalName{"STOP", SIGSTOP},
    SignalName{"WINCH", SIGWINCH}, SignalName{"PWR", SIGPWR}};

}  // namespace

int parse_signal(const std::string& text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec == std::errc{} && parsed.ptr == end) {
    constexpr int kLast = 64;
    return number >= 1 && number <= kLast ? number : 0;
  }
  std::string_view name(text);
  if (name.starts_with("SIG")) {
    name.remove_prefix(3);
  }
  if (name.starts_with("RTMIN+")) {
    const std::string_view digits = name.substr(6);
    const auto offset = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    constexpr int kFirst = 34;  // what every program but libc means by SIGRTMIN
    constexpr int kCount = 30;
    const bool good = offset.ec == std::errc{} && number >= 0 && number <= kCount;
    return good ? kFirst + number : 0;
  }
  for (const SignalName& signal : kSignals) {
    if (signal.name == name) {
      return signal.number;
    }
  }
  return 0;
}

std::uint64_t interface_bytes(const std::string& text, const std::string& interface) {
  const std::string key = interface + ":";
  std::size_t at = text.find(key);
  while (at != std::string::npos && at > 0 && text[at - 1] != ' ' && text[at - 1] != '\n') {
    at = text.find(key, at + 1);
  }
  if (at == std::string::npos) {
    return 0;
  }
  std::string_view line(text);
  line = line.substr(at + key.size());
  line = line.substr(0, line.find('\n'));
  // Columns: 8 of receiving, then 8 of sending, bytes first in both.
  constexpr int kSentBytes = 8;
  std::uint64_t total = 0;
  for (int column = 0; column <= kSentBytes; ++column) {
    const std::size_t digits = line.find_first_not_of(' ');
    if (digits == std::string_view::npos) {
      return total;
    }
    line.remove_prefix(digits);
    std::uint64_t value = 0;
    const auto parsed = std::from_chars(line.data(), line.data() + line.size(), value);
    if (parsed.ec != std::errc{}) {
      return total;
    }
    line.remove_prefix(static_cast<std::size_t>(parsed.ptr - line.data()));
    if (column == 0 || column == kSentBytes) {
      total += value;
    }
  }
  return total;
}

std::unique_ptr<Sandbox> make_sandbox(GuestPtr guest, Provenance provenance) {
  return std::make_unique<GvisorSandbox>(std::move(guest), std::move(provenance));
}

}  // namespace ate::runtime::gvisor
