#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ate/util/result.hpp"
#include "store/sql.hpp"

namespace ate::store {

/// "ATEN": tells our file from another program's database.
inline constexpr std::int64_t kApplicationId = 0x4154454e;

/// One step forward; statements that bring a database of version N-1 to version N.
struct Migration {
  std::int64_t version;
  const char* statements;
};

/// All steps of this build, ascending from 1.
[[nodiscard]] std::span<const Migration> migrations();

/// Brings `database` (opened from `path`) to the last of `steps`. An existing database is first
/// copied to `<path>.before-v<N>` (a downgrade puts that back). Each step is one transaction.
/// Internal when the file is of a later version.
[[nodiscard]] Status migrate(Database& database, const std::string& path,
                             std::span<const Migration> steps);

}  // namespace ate::store
