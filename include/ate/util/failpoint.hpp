#pragma once

#include <span>
#include <string_view>

namespace ate {

/// Every failpoint of the program, in the order of the code that passes them; `--failpoints` prints
/// them and the crash sweep kills the daemon at each. Adding one means adding it here.
[[nodiscard]] std::span<const std::string_view> failpoint_names();

/// True when compiled in by -Dfailpoints=true.
[[nodiscard]] bool failpoints_enabled() noexcept;

/// Where the crash sweep may stop the process. `ATE_FAILPOINT=name=kill` ends it with SIGKILL at
/// that point; `name=error` makes the function return true once, which the caller turns into an
/// error of its own; `name=stall` stops it with SIGSTOP. `ATE_FAILPOINT=@FILE` reads lines of
/// the same form from FILE, so that a test arms them when it likes: only the first line counts, it
/// is taken away when its point is passed, and FILE with the last one; `name=pass` only waits for a
/// point. Every name that is passed is added to FILE.passed if that exists. Without
/// -Dfailpoints=true: always false, and a set ATE_FAILPOINT makes the daemon refuse to start.
#ifdef ATE_FAILPOINTS
[[nodiscard]] bool failpoint(std::string_view name);
#else
[[nodiscard]] inline bool failpoint(std::string_view /*name*/) {
  return false;
}
#endif

}  // namespace ate
