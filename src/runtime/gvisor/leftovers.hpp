#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/gvisor/guest.hpp"

/// What an earlier process of ours left on the host: found and removed by name and by record, never
/// by guess. What is not of our making is left alone.
namespace ate::runtime::gvisor {

/// Blocking. `netns_in_use`: reservations of this process.
[[nodiscard]] Result<std::vector<Leftover>> find_leftovers(const Services& services,
                                                           std::set<std::string> netns_in_use);
/// Idempotent.
[[nodiscard]] async::Task<Status> purge_leftover(Services& services, Leftover leftover);

}  // namespace ate::runtime::gvisor
