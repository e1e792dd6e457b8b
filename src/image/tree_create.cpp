#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "ate/os/fs.hpp"
#include "ate/util/log.hpp"
#include "image/limits.hpp"
#include "image/tree.hpp"

namespace ate::image {

namespace {

constexpr std::size_t kHoleBlock = 4096;
constexpr std::size_t kBufferBytes = std::size_t{256} << 10U;

std::string show(std::string_view path) {
  return "'" + escape_text(path, 200) + "'";
}

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Errc::ImageInvalid, what);
}

std::unexpected<Error> failed(const std::string& what, const std::string& path) {
  return fail(Error::from_errno(what + " " + show(path), errno));
}

std::array<timespec, 2> times_of(const Entry& entry) {
  const timespec value{static_cast<time_t>(entry.mtime_seconds),
                       static_cast<long>(entry.mtime_nanoseconds)};
  return {value, value};
}

// What may reach the store: file capabilities and the user's own attributes. trusted.* would be
// overlayfs's orders to the host, security.* (SELinux, IMA) the host's labels, system.* its ACLs.
bool is_allowed_xattr(std::string_view name) {
  if (name == "security.capability") {
    return true;
  }
  return name.starts_with("user.") && !name.starts_with("user.overlay.");
}

Status set_xattrs(int file, const Entry& entry, const std::string& path) {
  for (const auto& [name, value] : entry.xattrs) {
    if (!is_allowed_xattr(name)) {
      continue;
    }
    if (name.size() > 255 || value.size() > kMaxXattrBytes) {
      return invalid("an extended attribute of " + show(path) + " is larger than 32 KiB");
    }
    if (::fsetxattr(file, name.c_str(), value.data(), value.size(), 0) != 0 && errno != ENOTSUP) {
      return failed("setting the extended attribute '" + escape_text(name, 100) + "' of", path);
    }
  }
  return {};
}

bool is_zero(std::span<const std::byte> bytes) {
  // Each byte equals the one before it: memcmp is many times faster than a loop.
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

Status write_at(int file, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail(Error::from_errno("writing a file of the image", errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

}  // namespace

Status Tree::create_file(const Place& at, const Entry& entry, TarReader& data) {
  ATE_ASSIGN(const UniqueFd file,
             open_beneath(at.parent, at.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  ATE_TRY(write_data(file.get(), entry, data));
  // In this order: writing and chown clear setuid bits and file capabilities.
  if (::fchown(file.get(), entry.uid, entry.gid) != 0) {
    return failed("changing the owner of", at.path);
  }
  if (::fchmod(file.get(), entry.mode) != 0) {
    return failed("changing the mode of", at.path);
  }
  ATE_TRY(set_xattrs(file.get(), entry, at.path));
  if (::futimens(file.get(), times_of(entry).data()) != 0) {
    return failed("setting the time of", at.path);
  }
  return {};
}

Status Tree::write_data(int file, const Entry& entry, TarReader& data) {
  if (entry.sparse) {
    for (const Extent& extent : entry.extents) {
      ATE_TRY(write_extent(file, extent.offset, extent.length, data));
    }
  } else {
    ATE_TRY(write_extent(file, 0, entry.stored, data));
  }
  // Zeros at the end were not written either.
  if (entry.size > 0 && ::ftruncate(file, static_cast<off_t>(entry.size)) != 0) {
    return fail(Error::from_errno("setting the size of a file of the image", errno));
  }
  return {};
}

Status Tree::write_extent(int file, std::uint64_t offset, std::uint64_t length, TarReader& data) {
  buffer_.resize(kBufferBytes);
  while (length > 0) {
    const std::span<std::byte> room = std::span(buffer_).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(length, buffer_.size())));
    std::size_t filled = 0;
    while (filled < room.size()) {
      ATE_ASSIGN(const std::size_t got, data.read(room.subspan(filled)));
      if (got == 0) {
        return invalid("tar: the data of a file ends early");
      }
      filled += got;
    }
    // Runs of blocks that are all zero become holes: 8 GiB of zeros cost nothing.
    std::size_t start = 0;
    while (start < filled) {
      std::size_t end = start;
      while (end < filled && !is_zero(room.subspan(end, std::min(kHoleBlock, filled - end)))) {
        end = std::min(filled, end + kHoleBlock);
      }
      stored_bytes_ += end - start;
      if (stored_bytes_ > limits_.stored_bytes) {
        return invalid("the files take more than " + std::to_string(limits_.stored_bytes) +
                       " bytes, which is out of proportion to the image");
      }
      ATE_TRY(write_at(file, room.subspan(start, end - start), offset + start));
      start = std::min(filled, end + kHoleBlock);
    }
    offset += filled;
    length -= filled;
  }
  return {};
}

Status Tree::create_directory(const Place& at, const Entry& entry, bool merge) {
  if (!merge && ::mkdirat(at.parent, at.name.c_str(), 0700) != 0) {
    return failed("creating", at.path);
  }
  ATE_ASSIGN(const UniqueFd directory,
             open_beneath(at.parent, at.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0));
  if (::fchown(directory.get(), entry.uid, entry.gid) != 0) {
    return failed("changing the owner of", at.path);
  }
  if (::fchmod(directory.get(), entry.mode) != 0) {
    return failed("changing the mode of", at.path);
  }
  ATE_TRY(set_xattrs(directory.get(), entry, at.path));
  directory_times_[at.path] = Times{entry.mtime_seconds, entry.mtime_nanoseconds};
  return {};
}

Status Tree::create_symlink(const Place& at, const Entry& entry) {
  if (entry.link.empty() || entry.link.size() >= kMaxPathBytes) {
    return invalid("the symlink " + show(at.path) + " has an empty or too long target");
  }
  if (::symlinkat(entry.link.c_str(), at.parent, at.name.c_str()) != 0) {
    return failed("creating the symlink", at.path);
  }
  if (::fchownat(at.parent, at.name.c_str(), entry.uid, entry.gid, AT_SYMLINK_NOFOLLOW) != 0) {
    return failed("changing the owner of", at.path);
  }
  if (::utimensat(at.parent, at.name.c_str(), times_of(entry).data(), AT_SYMLINK_NOFOLLOW) != 0) {
    return failed("setting the time of", at.path);
  }
  return {};
}

Status Tree::create_special(const Place& at, const Entry& entry) {
  const mode_t kind = entry.type == EntryType::Fifo    ? S_IFIFO
                      : entry.type == EntryType::Block ? S_IFBLK
                                                       : S_IFCHR;
  const dev_t device =
      entry.type == EntryType::Fifo ? dev_t{0} : makedev(entry.device_major, entry.device_minor);
  if (::mknodat(at.parent, at.name.c_str(), kind | 0600U, device) != 0) {
    // A container or nspawn without mknod. The sandbox mounts its own /dev, so nothing is lost.
    if (errno == EPERM && entry.type != EntryType::Fifo) {
      ++skipped_devices_;
      return {};
    }
    return failed("creating the device", at.path);
  }
  // SAFETY: never opened, only named; the name was made just now, so it is no symlink.
  if (::fchownat(at.parent, at.name.c_str(), entry.uid, entry.gid, AT_SYMLINK_NOFOLLOW) != 0) {
    return failed("changing the owner of", at.path);
  }
  if (::fchmodat(at.parent, at.name.c_str(), entry.mode, 0) != 0) {
    return failed("changing the mode of", at.path);
  }
  if (::utimensat(at.parent, at.name.c_str(), times_of(entry).data(), AT_SYMLINK_NOFOLLOW) != 0) {
    return failed("setting the time of", at.path);
  }
  return {};
}

Status Tree::create_hardlink(const Place& at, const Entry& entry) {
  ATE_ASSIGN(const std::vector<std::string> components, clean_components(entry.link));
  if (components.empty()) {
    return invalid("the hardlink " + show(at.path) + " has no target");
  }
  const std::vector<std::string> parents(components.begin(), components.end() - 1);
  Result<Directory> from = walk(root_.get(), parents, false);
  struct stat target{};
  if (!from ||
      ::fstatat(from->fd.get(), components.back().c_str(), &target, AT_SYMLINK_NOFOLLOW) != 0) {
    return invalid("the hardlink " + show(at.path) + " names " + show(entry.link) +
                   ", which is not there");
  }
  if (S_ISDIR(target.st_mode)) {
    return invalid("the hardlink " + show(at.path) + " names a directory");
  }
  if (from->join(components.back()) == at.path) {
    return invalid("the hardlink " + show(at.path) + " names itself");
  }
  stale_ = true;
  ATE_TRY(os::remove_tree_at(at.parent, at.name));
  if (::linkat(from->fd.get(), components.back().c_str(), at.parent, at.name.c_str(), 0) != 0) {
    if (errno == ENOENT) {
      return invalid("the hardlink " + show(at.path) + " replaces the directory of its target");
    }
    return failed("creating the hardlink", at.path);
  }
  // The link's header repeats the file's metadata. Where it differs the link's wins, as in
  // containerd; where it does not, nothing is called: chown would drop file capabilities.
  const bool owner_differs = target.st_uid != entry.uid || target.st_gid != entry.gid;
  if (owner_differs &&
      ::fchownat(at.parent, at.name.c_str(), entry.uid, entry.gid, AT_SYMLINK_NOFOLLOW) != 0) {
    return failed("changing the owner of", at.path);
  }
  // chown has cleared setuid bits. chmod follows symlinks (CVE-2021-32760 was exactly that), so a
  // link to one is left alone.
  const bool mode_differs = owner_differs || (target.st_mode & 07777U) != entry.mode;
  if (mode_differs && !S_ISLNK(target.st_mode) &&
      ::fchmodat(at.parent, at.name.c_str(), entry.mode, 0) != 0) {
    return failed("changing the mode of", at.path);
  }
  if (::utimensat(at.parent, at.name.c_str(), times_of(entry).data(), AT_SYMLINK_NOFOLLOW) != 0) {
    return failed("setting the time of", at.path);
  }
  return {};
}

}  // namespace ate::image
