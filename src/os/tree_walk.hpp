#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::os {

/// Walks a tree with three descriptors at most, whatever its depth: up again by `..`, checked to be
/// the directory that we came from. Follows no symbolic link and enters no mount.
class TreeWalk {
 public:
  struct Visitor {
    Visitor() = default;
    virtual ~Visitor() = default;
    Visitor(const Visitor&) = delete;
    Visitor& operator=(const Visitor&) = delete;
    Visitor(Visitor&&) = delete;
    Visitor& operator=(Visitor&&) = delete;
    /// Anything that is not a directory.
    virtual Status file(int dir, const std::string& name) = 0;
    /// Before a directory is entered: true when it needs no visit.
    virtual Result<bool> skip_dir(int dir, const std::string& name) = 0;
    /// After all below was visited; `dir` is its parent.
    virtual Status leave_dir(int dir, const std::string& name) = 0;
    /// Whether visited entries are gone, so that a directory is read again until it is empty.
    [[nodiscard]] virtual bool consumes() const = 0;
  };

  /// Visits all below the directory `name` in `parent`, then the directory itself.
  [[nodiscard]] static Status run(UniqueFd parent, const std::string& name, Visitor& visitor);
};

}  // namespace ate::os
