#pragma once

#include <string>

namespace ate::artifacts {

/// Removes what was never finished below a snapshot directory, or half removed: for a start that
/// finds the disk full, before the store tells what belongs to whom. What fails stays.
void remove_unfinished(const std::string& directory);

}  // namespace ate::artifacts
