#include "objects/watcher.hpp"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "ate/os/fs.hpp"

namespace ate::objects {
namespace {

// Every way in which editors and tools replace a file, its owner or mode included.
constexpr std::uint32_t kContent = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                                   IN_CREATE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF |
                                   IN_ONLYDIR;
constexpr std::uint32_t kEntries = IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE | IN_ONLYDIR;

constexpr const char* kMissing = "missing";

/// What a path leads to.
std::string identity_of(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0
             ? std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino)
             : kMissing;
}

}  // namespace

Watcher::Watcher(std::string directory) : directory_(std::move(directory)) {
  while (directory_.size() > 1 && directory_.ends_with('/')) {
    directory_.pop_back();
  }
  parent_ = os::parent_dir(directory_);
  base_ = directory_.substr(directory_.rfind('/') + 1);
}

Status Watcher::arm() {
  const std::string now = identity_of(directory_);
  if (!stale_ && now == armed_) {
    return {};
  }
  fd_ = UniqueFd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd_) {
    return fail(Error::from_errno("inotify_init1", errno));
  }
  armed_ = now;
  stale_ = false;
  parent_watch_ = ::inotify_add_watch(fd_.get(), parent_.c_str(), kEntries);
  if (now != kMissing && ::inotify_add_watch(fd_.get(), directory_.c_str(), kContent) < 0) {
    stale_ = true;
    return fail(Error::from_errno("watching " + directory_, errno));
  }
  return {};
}

bool Watcher::moved() const {
  return identity_of(directory_) != armed_;
}

bool Watcher::drain() {
  bool relevant = false;
  alignas(inotify_event) std::array<char, 16'384> buffer{};
  while (true) {
    const ssize_t count = ::read(fd_.get(), buffer.data(), buffer.size());
    if (count <= 0) {
      return relevant;
    }
    for (std::size_t at = 0; at < static_cast<std::size_t>(count);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      const char* text = buffer.data() + at + sizeof(event);
      const std::string_view name(text, ::strnlen(text, event.len));
      at += sizeof(event) + event.len;
      const bool gone =
          (event.mask & (IN_IGNORED | IN_UNMOUNT | IN_DELETE_SELF | IN_MOVE_SELF)) != 0;
      if (event.wd == parent_watch_ && !gone) {
        relevant = relevant || name == base_;
        continue;
      }
      relevant = true;
      stale_ = stale_ || gone;
    }
  }
}

}  // namespace ate::objects
