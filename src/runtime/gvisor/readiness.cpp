#include "runtime/gvisor/readiness.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "ate/core/containers.hpp"
#include "ate/core/units.hpp"
#include "ate/http/server.hpp"
#include "ate/util/log.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "runtime/gvisor/exec.hpp"

namespace ate::runtime::gvisor {
namespace {

constexpr std::chrono::milliseconds kDefaultPeriod(50);
constexpr std::chrono::milliseconds kDefaultTimeout(30'000);
/// A sandbox that is just starting or has just ended answers nothing at all, and TCP would try
/// again only after a second.
constexpr std::chrono::milliseconds kDialTimeout(250);
constexpr std::chrono::milliseconds kReplyTimeout(1000);
/// A command is a process of runsc on the host each time.
constexpr std::chrono::milliseconds kDefaultCommandPeriod(250);
constexpr std::chrono::milliseconds kCommandTimeout(5000);

Result<std::uint16_t> port_of(const v1alpha1::Readyz& gate) {
  const std::int32_t port = gate.has_http() ? gate.http().port() : gate.tcp().port();
  if (port < 1 || port > 65535) {
    return fail(Errc::InvalidValue, "readyz: port " + std::to_string(port) + " is none");
  }
  return static_cast<std::uint16_t>(port);
}

/// The command's end with code 0 opens the gate.
async::Task<Status> probe_by_command(GuestPtr guest, ContainerPtr container) {
  constexpr std::size_t kWords = 512;
  const auto& words = container->gate->exec().command();
  ExecPlan plan;
  plan.container = container->name;
  plan.argv.assign(words.begin(), words.end());
  plan.timeout = kCommandTimeout;
  plan.output_limit = kWords;
  const Result<ExecOutput> output = co_await exec_in(std::move(guest), std::move(plan));
  ATE_CO_TRY(output);
  if (output->timed_out) {
    co_return fail(Errc::NotReady, "the command did not end");
  }
  if (output->exit_code != 0) {
    std::string seen = "the command " + core::end_words(output->exit_code);
    const std::string& text = output->err.empty() ? output->out : output->err;
    co_return fail(Errc::NotReady, text.empty() ? seen : seen + ": " + escape_text(text, kWords));
  }
  co_return Status{};
}

/// One attempt; the error is the reason why the gate is closed.
async::Task<Status> probe(GuestPtr guest, ContainerPtr container) {
  const std::shared_ptr<const v1alpha1::Readyz> gate = container->gate;
  if (gate->has_exec()) {
    co_return co_await probe_by_command(std::move(guest), std::move(container));
  }
  ATE_CO_ASSIGN(const std::uint16_t port, port_of(*gate));
  Result<UniqueFd> socket =
      co_await net::dial(guest->services.context, guest->netns, port, kDialTimeout);
  if (!socket) {
    co_return fail(std::move(socket).error());
  }
  if (!gate->has_http()) {
    co_return Status{};
  }
  std::string path = gate->http().path().empty() ? "/" : gate->http().path();
  std::string host = std::string(net::kActorAddress) + ":" + std::to_string(port);
  const Result<int> status = co_await http::probe_status(std::move(*socket), std::move(host),
                                                         std::move(path), kReplyTimeout);
  if (!status) {
    co_return fail(status.error());
  }
  if (*status < 200 || *status >= 400) {
    co_return fail(Errc::NotReady, "status " + std::to_string(*status));
  }
  co_return Status{};
}

std::chrono::milliseconds timeout_of(const v1alpha1::Readyz& gate) {
  const Result<std::chrono::milliseconds> timeout = core::parse_duration(gate.timeout());
  return gate.timeout().empty() || !timeout ? kDefaultTimeout : *timeout;
}

}  // namespace

std::chrono::milliseconds probe_delay(int attempt, std::chrono::milliseconds period) {
  if (attempt <= 0) {
    return std::chrono::milliseconds(0);
  }
  constexpr int kLargestShift = 20;
  const std::chrono::milliseconds grown(1LL << std::min(attempt - 1, kLargestShift));
  return std::min(grown, period);
}

async::Task<Status> wait_ready(GuestPtr guest, ContainerPtr container,
                               std::chrono::steady_clock::time_point begun) {
  const std::shared_ptr<const v1alpha1::Readyz> gate = container->gate;
  if (gate == nullptr || (!gate->has_http() && !gate->has_tcp() && !gate->has_exec())) {
    co_return Status{};
  }
  const std::chrono::milliseconds period =
      gate->has_period_ms() ? std::chrono::milliseconds(std::max(1, gate->period_ms()))
      : gate->has_exec()    ? kDefaultCommandPeriod
                            : kDefaultPeriod;
  const std::chrono::milliseconds timeout = timeout_of(*gate);
  const auto deadline = begun + timeout;
  std::string seen = "not asked yet";
  for (int attempt = 0;; ++attempt) {
    const bool ended = co_await guest->ended.wait_for(probe_delay(attempt, period));
    if (ended) {
      co_return fail(Errc::RuntimeFailed,
                     "the actor ended before it was ready: " + describe_end(*guest));
    }
    const Status open = co_await probe(guest, container);
    if (open) {
      co_return Status{};
    }
    seen = open.error().message();
    if (std::chrono::steady_clock::now() >= deadline) {
      break;
    }
  }
  const std::string what =
      gate->has_exec()
          ? "its command"
          : "port " + std::to_string(gate->has_http() ? gate->http().port() : gate->tcp().port());
  co_return fail(Errc::NotReady, (guest->pod() ? "container " + container->name + ": " : "") +
                                     what + " was not ready within " +
                                     std::to_string(timeout.count()) + " ms: " + seen);
}

}  // namespace ate::runtime::gvisor
