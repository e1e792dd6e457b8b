#pragma once

#include "runtime/gvisor/guest.hpp"

/// Sidecars end without ending the actor, and are started anew in the running sandbox.
namespace ate::runtime::gvisor {

/// Waits for the back-off, then starts it cold, until that has worked. false: the actor ended
/// meanwhile.
[[nodiscard]] async::Task<bool> start_again(GuestPtr guest, ContainerPtr container);

/// Watches the gofer of a container that was just started.
[[nodiscard]] Status watch_gofer_of(const GuestPtr& guest, const GuestContainer& container);

/// Before a save, under Guest::shape and while the guest runs: runsc forgets the sidecars that have
/// ended, because it counts them in what it saves and can't restore them.
[[nodiscard]] async::Task<Status> forget_ended(GuestPtr guest);

/// Under Guest::shape, of a paused guest: whether a container has ended that a save would count.
/// An error when that is one whose end is the actor's.
[[nodiscard]] async::Task<Result<bool>> has_unforgotten(GuestPtr guest);

}  // namespace ate::runtime::gvisor
