#pragma once

#include <functional>
#include <string>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"
#include "store/sql.hpp"

namespace ate::store {

/// The one connection of the process and the lock that makes it so.
struct Opened {
  UniqueFd lock;  // declared first: released after the database is closed
  Database database;
};

/// Lock, checks, creation, pragmas, migrations, quick_check. Blocking. `make_room` is called once,
/// under the lock, when the disk is too full for that; then it is tried again.
[[nodiscard]] Result<Opened> open_database(const std::string& path,
                                           const std::function<void()>& make_room);

}  // namespace ate::store
