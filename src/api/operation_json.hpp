#pragma once

#include <string>

namespace ate::v1alpha1 {
class Operation;
class Snapshot;
}  // namespace ate::v1alpha1

namespace ate::api {

/// An operation with its stored problem document embedded as `error` (null when none).
[[nodiscard]] std::string operation_json(const v1alpha1::Operation& operation);

}  // namespace ate::api
