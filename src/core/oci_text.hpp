#pragma once

#include <string>

#include "ate/core/cgroup_plan.hpp"

namespace ate::core {

/// `linux.resources` of an OCI spec; {} without limits.
[[nodiscard]] std::string resources_json(const CgroupLimits& limits);

}  // namespace ate::core
