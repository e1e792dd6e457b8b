#pragma once

#include <expected>
#include <utility>

#include "ate/util/error.hpp"

namespace ate {

/// The result type of everything that can fail. libstdc++ 12 has no monadic members: use
/// `if (!r)` and the macros below.
template <class T>
using Result = std::expected<T, Error>;

using Status = Result<void>;

/// `return fail(Errc::NotFound, "...")`
[[nodiscard]] inline std::unexpected<Error> fail(Errc code, std::string message) {
  return std::unexpected<Error>(Error(code, std::move(message)));
}

[[nodiscard]] inline std::unexpected<Error> fail(Error error) {
  return std::unexpected<Error>(std::move(error));
}

}  // namespace ate

#define ATE_CONCAT_INNER(a, b) a##b
#define ATE_CONCAT(a, b) ATE_CONCAT_INNER(a, b)

/// `ATE_TRY(expr);` returns the error of a failed Status or Result (the value is dropped).
#define ATE_TRY(expr)                                        \
  do {                                                       \
    if (auto ate_try_result = (expr); !ate_try_result) {     \
      return ::ate::fail(std::move(ate_try_result).error()); \
    }                                                        \
  } while (false)

/// `ATE_ASSIGN(auto x, expr);` declares x or returns the error.
#define ATE_ASSIGN(decl, expr) \
  ATE_ASSIGN_IMPL(decl, expr, ATE_CONCAT(ate_result_, __LINE__), return)
/// The same inside a coroutine.
#define ATE_CO_TRY(expr)                                        \
  do {                                                          \
    auto ate_try_result = expr;                                 \
    if (!ate_try_result) {                                      \
      co_return ::ate::fail(std::move(ate_try_result).error()); \
    }                                                           \
  } while (false)
#define ATE_CO_ASSIGN(decl, expr) \
  ATE_ASSIGN_IMPL(decl, expr, ATE_CONCAT(ate_result_, __LINE__), co_return)

#define ATE_ASSIGN_IMPL(decl, expr, tmp, ret) \
  auto tmp = expr;                            \
  if (!tmp) {                                 \
    ret ::ate::fail(std::move(tmp).error());  \
  }                                           \
  decl = std::move(*tmp)
