#pragma once

#include <string_view>

namespace ate::daemon {

[[nodiscard]] std::string_view version();
/// Of the source tree; "" when it was no git repository.
[[nodiscard]] std::string_view commit();

}  // namespace ate::daemon
