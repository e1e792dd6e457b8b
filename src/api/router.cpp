#include "api/router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/handlers.hpp"

namespace ate::api {

namespace {

/// Marks routes that answer `not-yet-supported` whatever is asked.
constexpr std::string_view kAnyQuery = "*";
/// Parameters that may be repeated.
constexpr std::array<std::string_view, 3> kRepeatable{"state", "label", "tag"};

constexpr std::array kRoutes{
    Route{"GET", "/healthz", "", Body::None, get_healthz},
    Route{"GET", "/readyz", "", Body::None, get_readyz},
    Route{"GET", "/version", "", Body::None, get_version},
    Route{"GET", "/metrics", kAnyQuery, Body::None, not_yet_supported},
    Route{"GET", "/v1/openapi.json", "", Body::None, get_openapi},
    Route{"GET", "/v1/problems", "", Body::None, list_problems},
    Route{"GET", "/v1/problems/{slug}", "", Body::None, get_problem},

    Route{"GET", "/v1/templates", "atespace limit pageToken", Body::None, list_templates},
    Route{"GET", "/v1/templates/{name}", "atespace", Body::None, get_template},
    Route{"PUT", "/v1/templates/{name}", "atespace", Body::Json, put_template},
    Route{"DELETE", "/v1/templates/{name}", "atespace", Body::None, delete_template},
    Route{"GET", "/v1/pools", "limit pageToken", Body::None, list_pools},
    Route{"GET", "/v1/pools/{name}", "", Body::None, get_pool},
    Route{"PUT", "/v1/pools/{name}", "", Body::Json, put_pool},
    Route{"DELETE", "/v1/pools/{name}", "", Body::None, delete_pool},
    Route{"GET", "/v1/sandbox-configs", "limit pageToken", Body::None, list_sandbox_configs},
    Route{"GET", "/v1/sandbox-configs/{name}", "", Body::None, get_sandbox_config},
    Route{"PUT", "/v1/sandbox-configs/{name}", "", Body::Json, put_sandbox_config},
    Route{"DELETE", "/v1/sandbox-configs/{name}", "", Body::None, delete_sandbox_config},
    Route{"GET", "/v1/files", "", Body::None, list_files},
    Route{"POST", "/v1/validate", "", Body::Document, post_validate},

    Route{"GET", "/v1/workers", "class pool limit pageToken", Body::None, list_workers},
    Route{"GET", "/v1/workers/{name}", "", Body::None, get_worker},
    Route{"GET", "/v1/capacity", "explain atespace", Body::None, get_capacity},
    Route{"GET", "/v1/storage", "", Body::None, get_storage},
    Route{"POST", "/v1/storage/collect", "", Body::Json, collect_storage},

    Route{"GET", "/v1/actors", "atespace limit pageToken state template label", Body::None,
          list_actors},
    Route{"POST", "/v1/actors", "atespace", Body::Json, create_actor},
    Route{"GET", "/v1/actors/{name}", "atespace", Body::None, get_actor},
    Route{"PATCH", "/v1/actors/{name}", "atespace", Body::Json, patch_actor},
    Route{"DELETE", "/v1/actors/{name}", "atespace force", Body::None, delete_actor},
    Route{"POST", "/v1/actors/{name}/resume", "atespace", Body::Json, resume_actor},
    Route{"POST", "/v1/actors/{name}/pause", "atespace", Body::Json, pause_actor},
    Route{"POST", "/v1/actors/{name}/suspend", "atespace", Body::Json, suspend_actor},
    Route{"POST", "/v1/actors/{name}/revert", "atespace", Body::Json, revert_actor},
    Route{"POST", "/v1/actors/{name}/signal", "atespace", Body::Json, signal_actor},
    Route{"POST", "/v1/actors/{name}/exec", "atespace", Body::Json, exec_actor},
    Route{"ANY", "/v1/actors/{name}/proxy/{port}/{path}", kAnyQuery, Body::Streamed, proxy},
    Route{"GET", "/v1/actors/{name}/tunnel/{port}", "atespace", Body::None, tunnel},
    Route{"GET", "/v1/actors/{name}/stats", kAnyQuery, Body::None, not_yet_supported},
    Route{"GET", "/v1/actors/{name}/logs", "atespace tail follow stream container since source",
          Body::None, get_logs},
    Route{"GET", "/v1/actors/{name}/snapshots", "atespace tag limit pageToken", Body::None,
          list_actor_snapshots},
    Route{"POST", "/v1/actors/{name}/snapshots", "atespace", Body::Json, make_snapshot},

    Route{"GET", "/v1/snapshots", "tag limit pageToken", Body::None, list_snapshots},
    Route{"GET", "/v1/snapshots/{id}", "", Body::None, get_snapshot},
    Route{"PATCH", "/v1/snapshots/{id}", "", Body::Json, patch_snapshot},
    Route{"DELETE", "/v1/snapshots/{id}", "", Body::None, delete_snapshot},
    Route{"POST", "/v1/snapshots/{id}/verify", "", Body::None, verify_snapshot},

    Route{"GET", "/v1/operations", "atespace actor state limit pageToken", Body::None,
          list_operations},
    Route{"GET", "/v1/operations/{id}", "wait", Body::None, get_operation},
    Route{"GET", "/v1/events", "since limit follow", Body::None, get_events},
};

std::string_view next_segment(std::string_view& pattern) {
  pattern.remove_prefix(1);
  const std::string_view segment = pattern.substr(0, pattern.find('/'));
  pattern.remove_prefix(segment.size());
  return segment;
}

bool is_param(std::string_view segment) {
  return segment.starts_with('{');
}

std::string_view param_name(std::string_view segment) {
  return segment.substr(1, segment.size() - 2);
}

/// Whether decoded `segments` fit `pattern`; fills the parameters of `match`.
bool fits(std::string_view pattern, const std::vector<std::string>& segments, Match& match) {
  match.params.clear();
  std::size_t index = 0;
  while (!pattern.empty()) {
    const std::string_view segment = next_segment(pattern);
    if (index == segments.size()) {
      return false;
    }
    if (is_param(segment)) {
      match.params.emplace_back(param_name(segment), segments[index]);
    } else if (segment != segments[index]) {
      return false;
    }
    ++index;
  }
  return index == segments.size();
}

/// A streamed route is told by its leading segments alone, before what follows is looked at: that
/// belongs to the actor and may hold anything.
Result<bool> fits_streamed(const Route& route, std::string_view path, Match& match) {
  std::string_view pattern = route.pattern;
  std::string_view left = path;
  match.params.clear();
  while (true) {
    const std::string_view segment = next_segment(pattern);
    if (pattern.empty()) {
      break;  // {path}
    }
    if (!left.starts_with('/') || left.size() == 1) {
      return false;
    }
    const std::string_view raw = next_segment(left);
    if (!is_param(segment)) {
      if (raw != segment) {
        return false;
      }
      continue;
    }
    if (raw.empty()) {
      return false;
    }
    ATE_ASSIGN(std::string value, decode_segment(raw));
    match.params.emplace_back(param_name(segment), std::move(value));
  }
  match.route = &route;
  match.rest = left;
  return true;
}

bool method_fits(std::string_view route, std::string_view method) {
  return route == method || route == "ANY" || (route == "GET" && method == "HEAD");
}

Error no_route(const std::vector<std::string>& segments, std::string_view path) {
  const std::string& first = segments.empty() ? std::string() : segments.front();
  const bool versioned = first.size() > 1 && first.front() == 'v' &&
                         first.find_first_not_of("0123456789", 1) == std::string::npos;
  if (versioned && first != "v1") {
    return Error(Errc::NoSuchRoute,
                 "API version " + first + " does not exist; supported versions: v1")
        .with("supportedVersions", std::vector<std::string>{"v1"});
  }
  return Error(Errc::NoSuchRoute,
               "nothing is served at " + escape_text(path, 200) + "; see /v1/openapi.json");
}

Error wrong_method(std::vector<std::string> allowed) {
  if (std::find(allowed.begin(), allowed.end(), "GET") != allowed.end()) {
    allowed.emplace_back("HEAD");
  }
  std::string text;
  for (const std::string& method : allowed) {
    text += (text.empty() ? "" : ", ") + method;
  }
  return Error(Errc::MethodNotAllowed, "this path knows only " + text)
      .with("allow", std::move(allowed));
}

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::string_view first = names.substr(0, names.find(' '));
    if (first == name) {
      return true;
    }
    names.remove_prefix(std::min(names.size(), first.size() + 1));
  }
  return false;
}

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

Result<Match> match_route(std::string_view method, std::string_view path) {
  Match match;
  for (const Route& route : kRoutes) {
    if (route.body == Body::Streamed) {
      ATE_ASSIGN(const bool found, fits_streamed(route, path, match));
      if (found) {
        return match;
      }
    }
  }
  ATE_ASSIGN(const std::vector<std::string_view> raw, split_path(path));
  std::vector<std::string> segments;
  segments.reserve(raw.size());
  for (const std::string_view segment : raw) {
    ATE_ASSIGN(std::string text, decode_segment(segment));
    segments.push_back(std::move(text));
  }
  std::vector<std::string> allowed;
  for (const Route& route : kRoutes) {
    if (route.body == Body::Streamed || !fits(route.pattern, segments, match)) {
      continue;
    }
    if (method_fits(route.method, method)) {
      match.route = &route;
      return match;
    }
    allowed.emplace_back(route.method);
  }
  if (allowed.empty()) {
    return fail(no_route(segments, path));
  }
  return fail(wrong_method(std::move(allowed)));
}

Status check_query(const Route& route, const Query& query) {
  if (route.query == kAnyQuery) {
    return {};
  }
  for (std::size_t i = 0; i < query.size(); ++i) {
    const std::string& name = query[i].first;
    if (!lists(route.query, name)) {
      return fail(
          Error(Errc::UnknownField,
                fmt::format("unknown query parameter \"{}\"; this call knows: {}",
                            escape_text(name, 100), route.query.empty() ? "none" : route.query))
              .with_field(escape_text(name, 100)));
    }
    const bool repeatable =
        std::find(kRepeatable.begin(), kRepeatable.end(), name) != kRepeatable.end();
    for (std::size_t j = 0; j < i && !repeatable; ++j) {
      if (query[j].first == name) {
        return fail(
            Error(Errc::Malformed, "query parameter " + name + " is given twice").with_field(name));
      }
    }
  }
  return {};
}

std::vector<RouteInfo> route_table() {
  std::vector<RouteInfo> out;
  for (const Route& route : kRoutes) {
    RouteInfo info;
    info.method = route.method;
    info.pattern = std::string(route.pattern);
    info.body = route.body != Body::None;
    info.planned = route.handler == not_yet_supported;
    std::string_view names = route.query == kAnyQuery ? std::string_view{} : route.query;
    while (!names.empty()) {
      const std::string_view first = names.substr(0, names.find(' '));
      info.query.push_back(first);
      names.remove_prefix(std::min(names.size(), first.size() + 1));
    }
    out.push_back(std::move(info));
  }
  return out;
}

}  // namespace ate::api
