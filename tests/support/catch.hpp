#pragma once
// Catch2 2 (Debian 12) or 3 (Debian 13).
#include <string>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

namespace ate::test {

/// That a text holds another. Catch2 3 keeps the name `Contains` for ranges.
inline auto Contains(const std::string& part) {
#if __has_include(<catch2/catch_all.hpp>)
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}

}  // namespace ate::test
