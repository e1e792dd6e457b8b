#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ate/http/message.hpp"
#include "ate/util/error.hpp"

/// Error -> RFC 9457 problem document. The one table of slugs, statuses and titles; docs/errors.md
/// is compared with it by a test.
namespace ate::api {

struct ProblemKind {
  Errc code;
  std::string_view slug;         // `type` is /v1/problems/<slug>
  int status;                    // HTTP status
  std::string_view title;        // the same for every occurrence
  std::string_view explanation;  // what it means and what to do; shown at /v1/problems/<slug>
};

[[nodiscard]] std::span<const ProblemKind> problem_kinds();
[[nodiscard]] const ProblemKind& problem_kind(Errc code);
/// Null when there is no such slug.
[[nodiscard]] const ProblemKind* find_problem_kind(std::string_view slug);

/// The JSON document of an error. `instance` (a path, "" = none) yields to a member of that name;
/// `request_id` "" = none. Members of the error become extension members; at most 100
/// of its problems are listed, `problemsTotal` tells of more. Texts are cut at 4 KiB.
[[nodiscard]] std::string problem_document(const Error& error, std::string_view instance,
                                           std::string_view request_id);

/// JSON array of findings, as in the member `problems`.
[[nodiscard]] std::string problem_list(const std::vector<Problem>& problems);

/// The whole reply: document, status, Retry-After (retryAfterSeconds), Location (operation), Allow.
[[nodiscard]] http::Response render_error(const Error& error, const http::Request* request);

}  // namespace ate::api
