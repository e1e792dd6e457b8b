#include "ate/os/host_info.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "ate/os/fs.hpp"
#include "ate/os/mount.hpp"

namespace ate::os {

namespace {

constexpr std::size_t kSmallFile = 64UL * 1024;
constexpr std::size_t kCpuinfoLimit = 16UL * 1024 * 1024;
constexpr std::size_t kMountinfoLimit = 64UL * 1024 * 1024;

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) {
    return {};
  }
  return std::string(text.substr(first, text.find_last_not_of(" \t\n") - first + 1));
}

std::vector<std::string> sorted_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    if (end != 0) {
      words.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

/// `flags` on x86, `Features` on ARM; one line per CPU.
void parse_cpuinfo(std::string_view text, HostInfo& info) {
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t colon = line.find(':');
    const std::string key = trimmed(line.substr(0, colon));
    if (colon == std::string_view::npos) {
      continue;
    }
    if (key == "processor") {
      ++info.cpu_count;
    } else if (key == "flags" || key == "Features") {
      std::vector<std::string> flags = sorted_words(trimmed(line.substr(colon + 1)));
      if (first) {
        info.cpu_features = std::move(flags);
      } else if (flags != info.cpu_features) {
        std::vector<std::string> common;
        std::set_intersection(flags.begin(), flags.end(), info.cpu_features.begin(),
                              info.cpu_features.end(), std::back_inserter(common));
        info.cpu_features = std::move(common);
      }
      first = false;
    }
  }
}

Result<std::uint64_t> parse_mem_total(const std::string& text) {
  constexpr std::string_view kKey = "MemTotal:";
  constexpr std::uint64_t kKibibyte = 1024;
  const std::size_t at = text.find(kKey);
  const std::string rest = at == std::string::npos ? "" : trimmed(text.substr(at + kKey.size()));
  std::uint64_t kibibytes = 0;
  if (std::from_chars(rest.data(), rest.data() + rest.size(), kibibytes).ec != std::errc{}) {
    return fail(Errc::Internal, "meminfo: no MemTotal");
  }
  return kibibytes * kKibibyte;
}

}  // namespace

std::optional<std::string> find_pivot_root_obstacle(std::string_view mountinfo) {
  const std::vector<MountEntry> entries = parse_mountinfo(mountinfo);
  const auto root = std::find_if(entries.rbegin(), entries.rend(),
                                 [](const MountEntry& entry) { return entry.mount_point == "/"; });
  if (root == entries.rend()) {
    return "the root directory of this process is not a mount point (a chroot): pivot_root, which "
           "runsc needs, can't work; use a mount namespace with pivot_root instead";
  }
  if (root->fs_type == "rootfs") {
    return "the root file system is the kernel's initial rootfs, which pivot_root, needed by "
           "runsc, "
           "can't leave";
  }
  return std::nullopt;
}

Result<HostInfo> read_host_info(const std::string& proc_root) {
  HostInfo info;
  ATE_ASSIGN(const std::string boot_id,
             read_file(proc_root + "/sys/kernel/random/boot_id", kSmallFile));
  info.boot_id = trimmed(boot_id);
  ATE_ASSIGN(const std::string release, read_file(proc_root + "/sys/kernel/osrelease", kSmallFile));
  info.kernel_release = trimmed(release);
  ATE_ASSIGN(const std::string cpuinfo, read_file(proc_root + "/cpuinfo", kCpuinfoLimit));
  parse_cpuinfo(cpuinfo, info);
  ATE_ASSIGN(const std::string meminfo, read_file(proc_root + "/meminfo", kSmallFile));
  ATE_ASSIGN(info.memory_total_bytes, parse_mem_total(meminfo));
  ATE_ASSIGN(const std::string mountinfo,
             read_file(proc_root + "/self/mountinfo", kMountinfoLimit));
  info.pivot_root_obstacle = find_pivot_root_obstacle(mountinfo);
  return info;
}

}  // namespace ate::os
