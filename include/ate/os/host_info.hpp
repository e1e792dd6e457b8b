#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ate/util/result.hpp"

namespace ate::os {

/// What of the host decides whether a snapshot fits, and whether a recorded process can still be
/// the same one.
struct HostInfo {
  std::string boot_id;                    // changes with every boot
  std::string kernel_release;             // uname -r
  std::vector<std::string> cpu_features;  // flags of all CPUs in common, sorted
  std::uint64_t memory_total_bytes = 0;   // MemTotal
  unsigned cpu_count = 0;                 // online
  /// Why pivot_root, hence runsc, can't work where this process runs; empty when it can.
  std::optional<std::string> pivot_root_obstacle;
};

/// `proc_root` is /proc but in tests.
[[nodiscard]] Result<HostInfo> read_host_info(const std::string& proc_root);

/// From the text of mountinfo: pivot_root needs a root directory that is a mount point (in a chroot
/// it is not) and not the kernel's initial rootfs.
[[nodiscard]] std::optional<std::string> find_pivot_root_obstacle(std::string_view mountinfo);

}  // namespace ate::os
