#pragma once

#include <string>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::objects {

/// inotify on a directory and on its parent, which tells when the directory is made or replaced.
class Watcher {
 public:
  explicit Watcher(std::string directory);

  /// Watches what the path leads to now; cheap when that did not change. Before a scan, so that no
  /// change falls between. An error leaves what can be watched.
  [[nodiscard]] Status arm();

  /// -1 when nothing is watched.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// Whether the path leads elsewhere than when it was armed: something was mounted over it, or
  /// taken away, which inotify does not tell.
  [[nodiscard]] bool moved() const;

  /// Takes what is queued; true when some of it concerns the directory (an overflow does).
  [[nodiscard]] bool drain();

 private:
  std::string directory_;
  std::string parent_;
  std::string base_;
  std::string armed_;  // device and inode of what is watched
  UniqueFd fd_;
  int parent_watch_ = -1;
  bool stale_ = true;  // the kernel dropped the watch
};

}  // namespace ate::objects
