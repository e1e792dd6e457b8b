#include "runtime/gvisor/processes.hpp"

#include <csignal>

#include <charconv>
#include <utility>

#include "ate/core/runsc_args.hpp"
#include "ate/os/fs.hpp"
#include "ate/os/process.hpp"

namespace ate::runtime::gvisor {

std::vector<pid_t> processes_by_root(const std::string& directory) {
  const std::string argument = core::runsc_root_argument(directory) + '\0';
  constexpr std::size_t kCommandLine = 64 * 1024;
  std::vector<pid_t> found;
  const Result<std::vector<std::string>> names = os::list_dir("/proc");
  for (const std::string& name : names ? *names : std::vector<std::string>{}) {
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc{} || parsed.ptr != name.data() + name.size()) {
      continue;
    }
    const Result<std::string> command = os::read_file("/proc/" + name + "/cmdline", kCommandLine);
    if (command && command->find('\0' + argument) != std::string::npos) {
      found.push_back(pid);
    }
  }
  return found;
}

Status kill_by_root(const std::string& directory) {
  for (const pid_t pid : processes_by_root(directory)) {
    const Result<std::uint64_t> start = os::process_start_time(pid);
    if (!start) {
      continue;
    }
    const Result<UniqueFd> process = os::open_process({.pid = pid, .start_time = *start});
    if (process) {
      ATE_TRY(os::send_signal(*process, SIGKILL));
    }
  }
  return {};
}

async::Task<Status> wait_by_root(std::string directory) {
  for (;;) {
    const std::vector<pid_t> left = processes_by_root(directory);
    if (left.empty()) {
      co_return Status{};
    }
    const Result<std::uint64_t> start = os::process_start_time(left.front());
    if (!start) {
      continue;
    }
    const Result<UniqueFd> process = os::open_process({.pid = left.front(), .start_time = *start});
    if (process) {
      const Status ended = co_await async::wait_readable(process->get());
      ATE_CO_TRY(ended);
    }
  }
}

}  // namespace ate::runtime::gvisor
