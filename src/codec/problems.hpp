#pragma once

#include <vector>

#include "ate/util/error.hpp"

namespace ate::codec {

/// One error that carries all `problems` (not empty); its code is 400 when any of them is.
[[nodiscard]] Error to_error(std::vector<Problem> problems);

}  // namespace ate::codec
