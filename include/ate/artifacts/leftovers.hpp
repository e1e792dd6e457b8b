#pragma once

#include <string>

namespace ate::artifacts {

/// Removes what was never finished below <stateDir>/snapshots, or half removed: for a start that
/// finds the disk full, before the store tells what belongs to whom. What fails stays.
void remove_unfinished(const std::string& snapshots);
/// The same below <stateDir>/actors: copies of volumes in the making, and volumes that were
/// replaced.
void remove_unfinished_volumes(const std::string& actors);

}  // namespace ate::artifacts
