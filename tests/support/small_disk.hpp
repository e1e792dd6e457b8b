#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace ate::test {

/// "" when this process may mount in a mount namespace of its own (made on the first call), else
/// why not: the reason of a skip.
inline std::string enter_private_mounts() {
  static const std::string reason = []() -> std::string {
    if (::geteuid() != 0) {
      return "not root";
    }
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      return std::string("no mount namespace of our own: ") + std::strerror(errno);
    }
    return {};
  }();
  return reason;
}

/// A tmpfs of a given size on an existing directory; gone at the end.
class SmallDisk {
 public:
  SmallDisk(std::string path, const std::string& size) : path_(std::move(path)) {
    const std::string options = "mode=0700,size=" + size;
    if (::mount("tmpfs", path_.c_str(), "tmpfs", 0, options.c_str()) != 0) {
      throw std::runtime_error("mounting a tmpfs: " + std::string(std::strerror(errno)));
    }
  }

  ~SmallDisk() { static_cast<void>(::umount2(path_.c_str(), MNT_DETACH)); }

  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  SmallDisk(SmallDisk&&) = delete;
  SmallDisk& operator=(SmallDisk&&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace ate::test
