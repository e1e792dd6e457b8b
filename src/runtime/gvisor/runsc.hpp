#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "ate/async/reaper.hpp"
#include "ate/async/task.hpp"

namespace ate::runtime::gvisor {

/// One execution of runsc.
struct Command {
  std::string what;  // for messages: "runsc checkpoint"
  std::vector<std::string> argv;
  std::string log;  // the --log file, where errors are found; "" = only what it prints
  std::chrono::milliseconds deadline{5000};
  int cgroup_fd = -1;
  /// Descriptors for the guest's standard streams. Empty: the output is captured, standard input
  /// is /dev/null of our own opening.
  std::vector<std::pair<int, int>> stdio;
};

/// What a command did.
struct Outcome {
  int exit_code = 0;
  int signal = 0;
  std::string output;  // captured standard output and error, at most the limit
  std::string error;   // one line for a person, escaped and bounded; "" when exit_code is 0

  [[nodiscard]] bool ok() const noexcept { return exit_code == 0 && signal == 0; }
};

/// Runs runsc and nothing else does: one place for environment, capabilities, output, deadline.
class Runsc {
 public:
  Runsc(async::Context& context, async::Reaper& reaper, std::size_t output_limit);

  /// Spawns, waits, collects. At the deadline the command's process group is killed and reaped;
  /// DeadlineExceeded. A command that ran and failed is an Outcome, not an error.
  [[nodiscard]] async::Task<Result<Outcome>> run(Command command);

 private:
  async::Context& context_;
  async::Reaper& reaper_;
  std::size_t output_limit_;
};

/// Last error message of a JSON log text, or the last line of what was printed: first line only,
/// escaped, at most 1 KiB.
[[nodiscard]] std::string error_text(const std::string& log, const std::string& output);
/// RuntimeFailed; DiskFull when the message says that no space was left; SnapshotIncompatible when
/// a restore misses a file that was open, which it names.
[[nodiscard]] Error command_error(const std::string& what, const Outcome& outcome);
/// The class of restore failures that a second try is known to heal (gvisor #11842).
[[nodiscard]] bool is_transient_restore_failure(const Outcome& outcome);

}  // namespace ate::runtime::gvisor
