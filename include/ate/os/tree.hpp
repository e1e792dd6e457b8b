#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

/// Walking and copying trees that a guest has filled: nothing is followed out of them, names are
/// only ever used relative to the open directory they were read from.
namespace ate::os {

/// Below this a walk gives up: a tree that nobody makes by accident, and memory is bounded.
inline constexpr std::size_t kDeepestTree = 1024;

/// What a walk meets, in the order of the directories.
class TreeVisitor {
 public:
  virtual ~TreeVisitor() = default;
  /// A directory, before what is in it; the top has the name "". `self` is open.
  [[nodiscard]] virtual Status enter(int self, const std::string& name,
                                     const struct stat& info) = 0;
  /// Anything else. `dir` is the open directory it is in.
  [[nodiscard]] virtual Status entry(int dir, const std::string& name, const struct stat& info) = 0;
  /// After what is in a directory.
  [[nodiscard]] virtual Status leave(int self) = 0;
};

/// Three descriptors whatever the depth, a bounded part of a directory's names at a time. Enters no
/// mount (InUse) and no tree deeper than kDeepestTree (InvalidValue).
[[nodiscard]] Status walk_tree(const UniqueFd& top, TreeVisitor& visitor);

/// Opens what a walk met as a regular file, for reading. It may be something else by now: nothing
/// is followed, waited for or taken as a terminal. Empty: errno says why.
[[nodiscard]] UniqueFd open_entry(int dir, const std::string& name);

struct CopyOptions {
  /// Sees each entry of the source as it was when it was copied.
  TreeVisitor* observer = nullptr;
  /// Asked between entries and every so many bytes: the copy ends with Cancelled.
  std::function<bool()> cancelled;
  /// A directory on the file system of `to`, for a name of each file that has several. Emptied.
  int links_dir = -1;
  bool try_clone = true;
};

struct CopyStats {
  std::int64_t bytes = 0;    // that the copied files occupied
  std::int64_t entries = 0;  // all but the top
  std::int64_t skipped = 0;  // sockets and devices
  bool cloned = false;       // by reflink
};

/// Copies what is in `from` into the empty directory `to`, which gets its attributes: contents by
/// reflink where the file system has it, else only what is not a hole; hard links stay links;
/// modes, owners, times, extended attributes (user, trusted, POSIX ACLs, file capabilities),
/// symbolic links and FIFOs are kept. Sockets and devices are left out. No fsync.
[[nodiscard]] Result<CopyStats> copy_tree(const UniqueFd& from, const UniqueFd& to,
                                          const CopyOptions& options);

/// fsync of all that is in it: one by one when it has at most a few dozen entries, else the whole
/// file system at once, which is cheaper than thousands of commits of its journal.
[[nodiscard]] Status sync_tree(const UniqueFd& top, std::int64_t entries);

struct TreeSize {
  std::int64_t bytes = 0;
  std::int64_t entries = 0;
};

/// What it occupies. The tree may change meanwhile.
[[nodiscard]] Result<TreeSize> measure_tree(const UniqueFd& top);

/// Whether files in this directory can share their blocks (FICLONE).
[[nodiscard]] Result<bool> can_clone(const UniqueFd& directory);

}  // namespace ate::os
