#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

namespace ate::daemon {

/// gid of `name` (or of a plain number) in the text of /etc/group. Not getgrnam: a static glibc
/// binary would load NSS modules for it.
[[nodiscard]] std::optional<gid_t> find_group(std::string_view etc_group, std::string_view name);

}  // namespace ate::daemon
