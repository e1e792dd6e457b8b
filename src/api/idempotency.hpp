#pragma once

#include "api/router.hpp"

namespace ate::api {

/// Runs the handler of `route`; with an Idempotency-Key at most once for that key: the answer is
/// stored, and the same request gets it again. docs/api.md says what holds.
[[nodiscard]] async::Task<Status> handle_once(Call& call, const Route& route);

/// The key of an Idempotency-Key header without its quotes; nullopt when there is none.
[[nodiscard]] Result<std::optional<std::string>> idempotency_key(const http::Headers& headers);

}  // namespace ate::api
