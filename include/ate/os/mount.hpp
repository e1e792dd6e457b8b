#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ate/util/result.hpp"

namespace ate::os {

struct MountEntry {
  int id = 0;
  std::string root;         // what of the file system is mounted
  std::string mount_point;  // unescaped, as this process sees it
  std::string fs_type;
  std::string source;
  std::string super_options;  // of the file system: a v1 cgroup mount names its controllers here
  bool shared = false;        // member of a peer group: what is mounted below shows up elsewhere
};

/// Parses the text of a mountinfo file. Lines that don't have its form are left out.
[[nodiscard]] std::vector<MountEntry> parse_mountinfo(std::string_view text);

/// The mounts at or below `prefix` in mount order (a later one may cover an earlier one).
/// `proc_root` is /proc but in tests.
[[nodiscard]] Result<std::vector<MountEntry>> list_mounts(const std::string& proc_root,
                                                          const std::string& prefix);

/// Binds `source` (file or directory) over `target`.
[[nodiscard]] Status bind_mount(const std::string& source, const std::string& target);
/// Keeps what is mounted below `target` out of other mount namespaces, and theirs out of ours.
[[nodiscard]] Status make_private(const std::string& target);
/// MNT_DETACH without following a final symbolic link; ok when nothing is mounted there.
[[nodiscard]] Status unmount_detach(const std::string& target);
/// Unmounts everything at or below `prefix`, the deepest and latest first.
[[nodiscard]] Status unmount_below(const std::string& proc_root, const std::string& prefix);

}  // namespace ate::os
