#include "ate/os/mount.hpp"

#include <fcntl.h>
#include <sys/mount.h>

#include <cerrno>
#include <charconv>

#include "ate/os/fs.hpp"

namespace ate::os {

namespace {

// A host may have thousands of mounts; each line has at most a few KiB of options.
constexpr std::size_t kMountinfoLimit = 64UL * 1024 * 1024;

std::string_view next_word(std::string_view& line) {
  const std::size_t space = line.find(' ');
  const std::string_view word = line.substr(0, space);
  line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
  return word;
}

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

/// The kernel writes space, tab, newline and backslash as \ooo.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      const int value = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
      out.push_back(static_cast<char>(value));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

bool parse_line(std::string_view line, MountEntry& entry) {
  const std::string_view id = next_word(line);
  if (std::from_chars(id.data(), id.data() + id.size(), entry.id).ec != std::errc{}) {
    return false;
  }
  next_word(line);  // parent
  next_word(line);  // major:minor
  entry.root = unescape(next_word(line));
  entry.mount_point = unescape(next_word(line));
  next_word(line);  // options
  for (std::string_view tag = next_word(line); tag != "-"; tag = next_word(line)) {
    if (line.empty()) {
      return false;
    }
    entry.shared = entry.shared || tag.starts_with("shared:");
  }
  entry.fs_type = std::string(next_word(line));
  entry.source = unescape(next_word(line));
  entry.super_options = std::string(next_word(line));
  return !entry.mount_point.empty();
}

bool is_at_or_below(const std::string& path, const std::string& prefix) {
  return path.starts_with(prefix) &&
         (path.size() == prefix.size() || prefix.ends_with('/') || path[prefix.size()] == '/');
}

Status change(const std::string& source, const std::string& target, unsigned long flags,
              const char* verb) {
  if (::mount(source.c_str(), target.c_str(), nullptr, flags, nullptr) != 0) {
    return fail(Error::from_errno(std::string(verb) + " " + target, errno));
  }
  return {};
}

}  // namespace

std::vector<MountEntry> parse_mountinfo(std::string_view text) {
  std::vector<MountEntry> entries;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    MountEntry entry;
    if (parse_line(text.substr(0, end), entry)) {
      entries.push_back(std::move(entry));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return entries;
}

Result<std::vector<MountEntry>> list_mounts(const std::string& proc_root,
                                            const std::string& prefix) {
  ATE_ASSIGN(const std::string text, read_file(proc_root + "/self/mountinfo", kMountinfoLimit));
  std::vector<MountEntry> entries = parse_mountinfo(text);
  std::erase_if(entries, [&prefix](const MountEntry& entry) {
    return !is_at_or_below(entry.mount_point, prefix);
  });
  return entries;
}

Status bind_mount(const std::string& source, const std::string& target) {
  Status status = change(source, target, MS_BIND, "bind mount over");
  if (!status) {
    return fail(std::move(status).error().context(source));
  }
  return {};
}

Status make_private(const std::string& target) {
  return change("none", target, MS_PRIVATE, "make private");
}

Status unmount_detach(const std::string& target) {
  if (::umount2(target.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && errno != EINVAL &&
      errno != ENOENT) {
    return fail(Error::from_errno("unmount " + target, errno));
  }
  return {};
}

Status unmount_below(const std::string& proc_root, const std::string& prefix) {
  ATE_ASSIGN(const std::vector<MountEntry> entries, list_mounts(proc_root, prefix));
  // Later ones lie on or below earlier ones, never the other way round.
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    ATE_TRY(unmount_detach(entry->mount_point));
  }
  return {};
}

}  // namespace ate::os
