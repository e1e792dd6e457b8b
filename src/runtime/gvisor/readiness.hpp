#pragma once

#include <chrono>

#include "ate/async/task.hpp"
#include "runtime/gvisor/guest.hpp"

namespace ate::v1alpha1 {
class Readyz;
}  // namespace ate::v1alpha1

namespace ate::runtime::gvisor {

/// Delay before attempt `attempt` (0 = the first): none, then 1, 2, 4 ... ms up to `period`. A
/// restored application answers within a millisecond; a cold one takes its time.
[[nodiscard]] std::chrono::milliseconds probe_delay(int attempt, std::chrono::milliseconds period);

/// Polls the gate until it opens. NotReady after its timeout, with what was seen last;
/// RuntimeFailed as soon as the sandbox has ended.
[[nodiscard]] async::Task<Status> wait_ready(GuestPtr guest,
                                             std::shared_ptr<const v1alpha1::Readyz> gate);

}  // namespace ate::runtime::gvisor
