#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/gvisor/guest.hpp"

/// What an earlier process of ours left on the host: found and removed by name and by record, never
/// by guess. What is not of our making is left alone.
namespace ate::runtime::gvisor {

/// What this process holds itself.
struct Held {
  std::set<GuestKey> guests;
  std::set<std::string> networks;
};

/// Blocking; uses nothing of `services` that changes.
[[nodiscard]] Result<std::vector<Leftover>> find_leftovers(const Services& services,
                                                           const Held& held);
/// Idempotent.
[[nodiscard]] async::Task<Status> purge_leftover(Services& services, Leftover leftover);

}  // namespace ate::runtime::gvisor
