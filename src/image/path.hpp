#pragma once

#include <fcntl.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::image {

/// openat2 below `directory`: never through a symlink, a magic link, a mount, or out of it. The
/// errno of a failure is in Error::sys_errno().
[[nodiscard]] Result<UniqueFd> open_beneath(int directory, const std::string& path, int flags,
                                            unsigned mode);
/// openat2 with `root` as the root directory of the lookup: symlinks are followed inside it.
[[nodiscard]] Result<UniqueFd> open_in_root(int root, const std::string& path, int flags);

/// Components of `name` after lexical cleaning as containerd does it: "." and empty ones dropped,
/// ".." takes the one before away and is dropped at the front. ImageInvalid for a NUL byte, a
/// component over 255 bytes, a path over 4096 bytes or 128 components.
[[nodiscard]] Result<std::vector<std::string>> clean_components(std::string_view name);

/// A directory of the tree: its path from the root without any symlink ("" = the root itself), and
/// an O_PATH descriptor of it.
struct Directory {
  std::string path;
  UniqueFd fd;

  [[nodiscard]] std::string join(const std::string& name) const {
    return path.empty() ? name : path + "/" + name;
  }
};

/// Walks from `root` (an O_PATH or readable directory) along `components` one by one, following
/// symlinks inside the root: absolute ones start at the root again, ".." stops at it. With `create`
/// missing directories are made (0755, root's). NotFound when something is missing without
/// `create`, ImageInvalid when something on the way is no directory.
[[nodiscard]] Result<Directory> walk(int root, const std::vector<std::string>& components,
                                     bool create);

}  // namespace ate::image
