#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "ate/image/image.hpp"
#include "ate/util/log.hpp"
#include "image/path.hpp"

namespace ate::image {
namespace {

std::unexpected<Error> unusable(const MountPoint& point, std::string_view why) {
  return fail(Errc::ImageInvalid, "the image has " + std::string(why) + " at '" +
                                      escape_text(point.path, 200) + "', where a " +
                                      (point.is_directory ? "directory" : "file") +
                                      " of the actor's own is mounted");
}

std::string_view kind_name(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a file";
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

Status check(const UniqueFd& root, const MountPoint& point) {
  // O_PATH: opening a FIFO or a device that an image put there would block or do something.
  const Result<UniqueFd> place = open_in_root(root.get(), point.path, O_PATH);
  if (!place) {
    switch (place.error().sys_errno()) {
      case ENOENT:
        return {};  // runsc makes it
      case ENOTDIR:
        return unusable(point, "a file in the place of a directory");
      case ELOOP:
        return unusable(point, "a loop of symbolic links");
      default:
        return fail(place.error());
    }
  }
  struct stat info{};
  if (::fstat(place->get(), &info) != 0) {
    return fail(Error::from_errno("looking at " + point.path + " of the image", errno));
  }
  if (point.is_directory ? S_ISDIR(info.st_mode) : S_ISREG(info.st_mode)) {
    return {};
  }
  return unusable(point, kind_name(info.st_mode));
}

}  // namespace

Status check_mount_points(const std::string& rootfs, const std::vector<MountPoint>& points) {
  const UniqueFd root(::open(rootfs.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) {
    return fail(Error::from_errno("opening the image's root directory", errno));
  }
  for (const MountPoint& point : points) {
    ATE_TRY(check(root, point));
  }
  return {};
}

}  // namespace ate::image
