#include "net/nft.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>

#include "ate/os/fs.hpp"
#include "ate/os/process.hpp"
#include "ate/util/log.hpp"
#include "ate/util/scope_exit.hpp"

namespace ate::net {

namespace {

constexpr std::size_t kMaxOutput = 4UL << 20;
constexpr std::size_t kToldOutput = 1000;
constexpr std::chrono::seconds kLimit(20);

Result<UniqueFd> memory_file(std::string_view content) {
  UniqueFd file(::memfd_create("ate-nft", MFD_CLOEXEC));
  if (!file) {
    return fail(Error::from_errno("make a buffer", errno));
  }
  ATE_TRY(os::write_all(file.get(), content, "a buffer"));
  if (::lseek(file.get(), 0, SEEK_SET) != 0) {
    return fail(Error::from_errno("rewind a buffer", errno));
  }
  return file;
}

Result<std::string> whole(const UniqueFd& file) {
  if (::lseek(file.get(), 0, SEEK_SET) != 0) {
    return fail(Error::from_errno("rewind a buffer", errno));
  }
  return os::read_descriptor(file.get(), kMaxOutput, "what nft printed");
}

async::Task<void> wait_for_end(async::Reaper& reaper, pid_t pid,
                               std::shared_ptr<std::optional<async::ChildExit>> out) {
  const async::ChildExit exit = co_await reaper.wait(pid);
  out->emplace(exit);
}

}  // namespace

Status Nft::check() const {
  if (::access(executable_.c_str(), X_OK) != 0) {
    return fail(Errc::Unavailable, "egress nat needs " + executable_ +
                                       ", which is not there: install the package nftables");
  }
  return {};
}

async::Task<Result<std::string>> Nft::apply(std::string script, int netns) {
  std::vector<std::string> arguments{"-f", "-"};
  co_return co_await run(std::move(arguments), std::move(script), netns);
}

async::Task<Result<std::string>> Nft::list(std::vector<std::string> what) {
  what.insert(what.begin(), "list");
  co_return co_await run(std::move(what), std::string(), -1);
}

async::Task<Result<std::string>> Nft::run(std::vector<std::string> arguments, std::string input,
                                          int netns) {
  ATE_CO_TRY(check());
  ATE_CO_ASSIGN(const UniqueFd in, memory_file(input));
  ATE_CO_ASSIGN(const UniqueFd out, memory_file({}));
  ATE_CO_ASSIGN(const UniqueFd errors, memory_file({}));
  os::SpawnPlan plan;
  plan.executable = executable_;
  plan.argv = {"nft"};
  plan.argv.insert(plan.argv.end(), arguments.begin(), arguments.end());
  plan.fds = {{in.get(), STDIN_FILENO}, {out.get(), STDOUT_FILENO}, {errors.get(), STDERR_FILENO}};
  plan.netns_fd = netns;
  plan.die_with_parent = true;
  ATE_CO_ASSIGN(const os::Process process, os::spawn(plan));
  const pid_t pid = process.id.pid;
  reaper_.watch(pid);
  const ScopeExit forget([this, pid]() { reaper_.forget(pid); });
  const auto exit = std::make_shared<std::optional<async::ChildExit>>();
  const bool in_time = co_await async::finish_within(kLimit, wait_for_end(reaper_, pid, exit));
  if (!in_time) {
    // IGNORED: it is our child; the reaper takes it when it has ended.
    static_cast<void>(os::send_signal(process.pidfd, SIGKILL));
    co_return fail(Errc::DeadlineExceeded, "nft did not end in time");
  }
  if ((*exit)->signal != 0 || (*exit)->code != 0) {
    const Result<std::string> told = whole(errors);
    co_return fail(Errc::RuntimeFailed,
                   "nft failed: " + (told ? escape_text(*told, kToldOutput) : std::string("?")));
  }
  co_return whole(out);
}

}  // namespace ate::net
