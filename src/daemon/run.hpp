#pragma once

#include "daemon/options.hpp"

namespace ate::daemon {

/// Does what the command line asks; returns the exit code. Running the daemon returns after SIGTERM
/// or SIGINT; running actors are left alone.
[[nodiscard]] int run(const CommandLine& command_line);

}  // namespace ate::daemon
