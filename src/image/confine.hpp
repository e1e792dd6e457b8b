#pragma once

#include <cstdint>
#include <string>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::image {

/// Descriptors of the helper after it has confined itself.
struct Confined {
  UniqueFd source;       // archive file, or the layout's directory
  UniqueFd destination;  // the root filesystem directory
};

struct ConfineRequest {
  UniqueFd source;
  UniqueFd destination;  // empty: nothing is written (resolve)
  std::uint64_t cpu_seconds = 0;
  bool source_is_directory = false;
};

/// Takes everything from this process that unpacking doesn't need, for good: other mounts (its root
/// becomes the destination; a source directory becomes a read-only mount without parent), the
/// network, capabilities other than CHOWN, DAC_OVERRIDE, FOWNER, FSETID, MKNOD, SETFCAP, new
/// privileges, resources, and system calls off a list. Every step must succeed; only the namespaces
/// need CAP_SYS_ADMIN, and without it (tests of a plain user) there is less to give up.
[[nodiscard]] Result<Confined> confine(ConfineRequest request);

}  // namespace ate::image
