#pragma once

#include <cstdlib>
#include <string>

#include "support/temp_dir.hpp"

namespace ate::test {

/// Content of `tests/golden/<name>`; with ATE_UPDATE_GOLDEN=1 in the environment it is first
/// replaced by `made`, to be reviewed with git diff. The tests' meson.build defines ATE_GOLDEN_DIR.
inline std::string golden(const std::string& directory, const std::string& name,
                          const std::string& made) {
  const std::string path = directory + "/" + name;
  if (std::getenv("ATE_UPDATE_GOLDEN") != nullptr) {
    write_file(path, made);
  }
  return read_file(path);
}

}  // namespace ate::test
