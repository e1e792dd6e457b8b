#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "ate/util/error.hpp"

namespace ate::test {

/// The number that an error carries under that name; -1: none.
inline std::int64_t member(const Error& error, const std::string& key) {
  for (const auto& [name, value] : error.members()) {
    if (name == key) {
      return std::get<std::int64_t>(value);
    }
  }
  return -1;
}

}  // namespace ate::test
