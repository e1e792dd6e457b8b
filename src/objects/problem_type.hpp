#pragma once

#include <string>

#include "ate/util/error.hpp"

namespace ate::objects {

/// `/v1/problems/<slug>` of the findings that an object's status can carry; api/problems.cpp has
/// the whole table.
[[nodiscard]] std::string problem_type(Errc code);

/// "file:line:column: field: detail", without what is not known.
[[nodiscard]] std::string problem_text(const Problem& problem);

}  // namespace ate::objects
