#pragma once

#include <chrono>

#include "ate/async/task.hpp"
#include "runtime/gvisor/guest.hpp"

namespace ate::runtime::gvisor {

/// Delay before attempt `attempt` (0 = the first): none, then 1, 2, 4 ... ms up to `period`. A
/// restored application answers within a millisecond; a cold one takes its time.
[[nodiscard]] std::chrono::milliseconds probe_delay(int attempt, std::chrono::milliseconds period);

/// Polls the container's gate until it opens; at once without one. NotReady after its timeout,
/// counted from `begun`, with what was seen last; RuntimeFailed as soon as the actor has ended.
[[nodiscard]] async::Task<Status> wait_ready(GuestPtr guest, ContainerPtr container,
                                             std::chrono::steady_clock::time_point begun);

}  // namespace ate::runtime::gvisor
