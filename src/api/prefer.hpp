#pragma once

#include <chrono>
#include <optional>

#include "ate/http/message.hpp"
#include "ate/util/result.hpp"

namespace ate::api {

/// RFC 7240 preferences that mean something here; others are ignored as the RFC asks.
struct Prefer {
  bool respond_async = false;
  std::optional<std::chrono::milliseconds> wait;
};

/// Malformed when `wait` is no whole number of seconds; longer ones than `longest` are cut to it.
[[nodiscard]] Result<Prefer> parse_prefer(const http::Headers& headers,
                                          std::chrono::milliseconds longest);

}  // namespace ate::api
