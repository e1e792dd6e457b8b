#include "ate/os/usage.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace ate::os {
namespace {

constexpr std::int64_t kBlock = 512;

class Sum {
 public:
  void add(const std::string& path) {
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) {
      return;
    }
    if (!S_ISDIR(info.st_mode) && info.st_nlink > 1 &&
        !seen_.emplace(info.st_dev, info.st_ino).second) {
      return;
    }
    usage.allocated_bytes += static_cast<std::int64_t>(info.st_blocks) * kBlock;
    if (S_ISREG(info.st_mode)) {
      usage.logical_bytes += info.st_size;
    }
  }

  Usage usage;

 private:
  std::set<std::pair<dev_t, ino_t>> seen_;
};

}  // namespace

Usage tree_usage(const std::string& path) {
  namespace fs = std::filesystem;
  Sum sum;
  sum.add(path);
  std::error_code error;
  fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, error);
  while (!error && at != fs::recursive_directory_iterator()) {
    sum.add(at->path().string());
    at.increment(error);
  }
  return sum.usage;
}

Result<std::int64_t> free_bytes(const std::string& path) {
  struct statvfs info{};
  if (::statvfs(path.c_str(), &info) != 0) {
    return fail(Error::from_errno("statvfs " + path, errno));
  }
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

}  // namespace ate::os
