#pragma once

#include <string>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::store {

/// Holds the lock of a state database: a file of its own, since closing any descriptor of the
/// database itself would drop SQLite's POSIX locks. Unavailable when another process has it.
[[nodiscard]] Result<UniqueFd> take_lock(const std::string& path);

/// What is at `path` before SQLite sees it.
enum class Found { Nothing, Database };

/// Checks directory, type, owner, modes and the header. Internal, with the command that helps,
/// for everything that is not clearly our database; nothing is changed.
[[nodiscard]] Result<Found> inspect(const std::string& path);

/// An empty file of mode 0600 at `path`; what was there is removed first.
[[nodiscard]] Status create_empty(const std::string& path);

/// fsync of `partial`, rename to `target`, fsync of the directory.
[[nodiscard]] Status publish(const std::string& partial, const std::string& target);

}  // namespace ate::store
