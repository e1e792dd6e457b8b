#pragma once

#include "runtime/gvisor/guest.hpp"

/// One more process in a container: not interactive, bounded in time and output.
namespace ate::runtime::gvisor {

/// At most so many at once in one sandbox: each is a runsc process on the host.
inline constexpr std::size_t kExecsAtOnce = 8;

[[nodiscard]] async::Task<Result<ExecOutput>> exec_in(GuestPtr guest, ExecPlan plan);

}  // namespace ate::runtime::gvisor
