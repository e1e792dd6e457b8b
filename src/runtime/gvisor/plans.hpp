#pragma once

#include <string>

#include "runtime/gvisor/guest.hpp"

/// From what the engine asks for to what a guest is started from.
namespace ate::runtime::gvisor {

/// Asset and option names of a SandboxConfig of class gvisor.
inline constexpr const char* kAsset = "runsc";
inline constexpr const char* kPlatformOption = "platform";
inline constexpr const char* kDefaultPlatform = "systrap";

[[nodiscard]] std::string value_or(const std::map<std::string, std::string>& map,
                                   const std::string& key, const std::string& fallback);

/// Blocking: reads the images' passwd and secret files.
[[nodiscard]] Result<StartPlan> plan_boot(const Services& services, const BootPlan& plan);
/// From the manifest's specs.
[[nodiscard]] Result<StartPlan> plan_restore(const Services& services, const RestorePlan& plan);

}  // namespace ate::runtime::gvisor
