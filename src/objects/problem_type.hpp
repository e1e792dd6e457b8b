#pragma once

#include <string>

#include "ate/util/error.hpp"

namespace ate::objects {

/// `/v1/problems/<slug>` of the findings that an object's status can carry; api/problems.cpp has
/// the whole table.
[[nodiscard]] std::string problem_type(Errc code);

/// "file:line:column: field: detail", without what is not known.
[[nodiscard]] std::string problem_text(const Problem& problem);

/// Errors of an image or asset become findings about the template or config.
[[nodiscard]] Problem pin_problem(const Error& error, Errc code, std::string field);
/// `spec.containers[0].image`.
[[nodiscard]] std::string image_field(int index);

}  // namespace ate::objects
