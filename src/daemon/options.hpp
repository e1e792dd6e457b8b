#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ate/util/result.hpp"

namespace ate::daemon {

/// Exit codes; README and `--help` name them.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // failed while running
inline constexpr int kExitUsage = 2;    // command line or configuration
inline constexpr int kExitRefused = 3;  // the host's state does not allow to start

enum class Action : std::uint8_t { Run, PrintConfig, CheckConfig, Version, Failpoints, Help };

struct CommandLine {
  Action action = Action::Run;
  std::string config = "/etc/ate/noded.yaml";
  bool config_given = false;  // a file that was asked for must exist
  std::string config_dir = "/etc/ate";
};

/// InvalidValue with the offending word.
[[nodiscard]] Result<CommandLine> parse_command_line(int argc, const char* const* argv);

[[nodiscard]] std::string_view usage();

}  // namespace ate::daemon
