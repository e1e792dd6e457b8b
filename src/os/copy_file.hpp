#pragma once

#include <sys/stat.h>

#include <functional>

#include "ate/util/result.hpp"

namespace ate::os {

/// The content of a file into an empty one of the same size: by reflink while `clone` holds (it is
/// cleared where the file system can't), else what is not a hole.
[[nodiscard]] Status copy_content(int from, int to, const struct stat& info, bool& clone,
                                  const std::function<bool()>& cancelled);

}  // namespace ate::os
