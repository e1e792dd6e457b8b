#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ate/util/error.hpp"

/// The whole state table of an actor, pure (design.md section 2). The engine asks `decide` before
/// it acts and `settle` after; nothing else chooses a state.
namespace ate::core {

enum class State : std::uint8_t {
  Suspended,
  Resuming,
  Running,
  Pausing,
  Paused,
  Suspending,
  Reverting,
  Exited,
  Crashed,
  Deleting
};
inline constexpr std::size_t kStateCount = 10;

[[nodiscard]] std::string_view name(State state);
[[nodiscard]] std::optional<State> parse_state(std::string_view text);
/// A state that an operation passes through; never at rest.
[[nodiscard]] bool is_transient(State state);

enum class Command : std::uint8_t {
  Resume,
  ResumeBoot,
  Pause,
  Suspend,
  Revert,
  Delete,
  DeleteForce,
  Signal,
  Patch,
  Connect,
  Restart,
  GuestExited,
  GuestCrashed
};
inline constexpr std::size_t kCommandCount = 13;
[[nodiscard]] std::string_view name(Command command);

}  // namespace ate::core
