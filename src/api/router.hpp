#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/call.hpp"

namespace ate::api {

enum class Body : std::uint8_t { None, Json, Document, Streamed };

/// A row of the route table. `method` "ANY" takes every method; a pattern ending in `/{path}` with
/// Body::Streamed takes whatever follows, byte for byte.
struct Route {
  std::string_view method;
  std::string_view pattern;
  std::string_view query;  // names it knows, separated by spaces
  Body body;
  RouteHandler handler;
};

[[nodiscard]] std::span<const Route> routes();

struct Match {
  const Route* route = nullptr;
  std::vector<std::pair<std::string_view, std::string>> params;
  std::string_view rest;  // into `path`
};

/// The route of a request. NoSuchRoute, MethodNotAllowed (with `allow`), Malformed.
[[nodiscard]] Result<Match> match_route(std::string_view method, std::string_view path);

/// UnknownField for parameters that `route` does not know and for repeated ones that may come once.
[[nodiscard]] Status check_query(const Route& route, const Query& query);

}  // namespace ate::api
