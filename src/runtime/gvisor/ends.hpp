#pragma once

#include "runtime/gvisor/guest.hpp"

/// How a guest and its containers end: noticed, classified, told; and a sidecar's start anew.
namespace ate::runtime::gvisor {

/// Begins to watch the sandbox, its gofers and its containers. Right after the start.
[[nodiscard]] Status watch_guest(const GuestPtr& guest);

}  // namespace ate::runtime::gvisor
