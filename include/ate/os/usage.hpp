#pragma once

#include <cstdint>
#include <string>

#include "ate/util/result.hpp"

namespace ate::os {

struct Usage {
  std::int64_t logical_bytes = 0;    // sizes of the files
  std::int64_t allocated_bytes = 0;  // blocks that they and their directories take
};

/// Everything below `path`; a file with several names counts once. What vanishes meanwhile is left
/// out, a missing `path` is nothing. Follows no symbolic link.
[[nodiscard]] Usage tree_usage(const std::string& path);

/// Bytes that an unprivileged writer could still put on the file system of `path`.
[[nodiscard]] Result<std::int64_t> free_bytes(const std::string& path);

}  // namespace ate::os
