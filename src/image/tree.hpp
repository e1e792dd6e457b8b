#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"
#include "image/path.hpp"
#include "image/tar.hpp"

namespace ate::image {

/// What an image may make of a tree; tests use smaller numbers.
struct TreeLimits {
  std::uint64_t entries = 0;
  std::uint64_t stored_bytes = 0;
};

/// Applies layers to a root filesystem as the OCI spec and containerd do. Everything is done with
/// descriptors of directories that walk() found inside the root; nothing in a layer can name
/// anything outside. Device nodes are made as the image has them: the store's directory is mounted
/// nodev in the helper, and later only gVisor or a guest kernel reads the tree.
class Tree {
 public:
  /// `root` is the empty root directory (O_PATH or readable).
  Tree(UniqueFd root, TreeLimits limits) : root_(std::move(root)), limits_(limits) {}

  void begin_layer();
  /// `data` must be the reader that gave `entry`.
  [[nodiscard]] Status apply(const Entry& entry, TarReader& data);
  /// Sets the times of directories, which the layer's own files have changed meanwhile.
  [[nodiscard]] Status end_layer();

  [[nodiscard]] std::uint64_t entries() const noexcept { return entries_; }

  [[nodiscard]] std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }

  /// Device nodes that the kernel refused (a container without mknod): left out.
  [[nodiscard]] std::uint64_t skipped_devices() const noexcept { return skipped_devices_; }

  [[nodiscard]] int root() const noexcept { return root_.get(); }

 private:
  struct Place {
    int parent = -1;   // borrowed from parent_
    std::string name;  // last component
    std::string path;  // from the root, no symlink on the way
  };

  struct Times {
    std::int64_t seconds = 0;
    std::uint32_t nanoseconds = 0;
  };

  [[nodiscard]] Result<Place> place(const std::vector<std::string>& components);
  [[nodiscard]] Status remove_lower(int parent, const std::string& name, const std::string& path);
  [[nodiscard]] Status clear_lower(int directory, const std::string& path);
  [[nodiscard]] Status make_room(const Place& at, const Entry& entry, bool& merge);
  [[nodiscard]] Status create(const Place& at, const Entry& entry, TarReader& data, bool merge);
  [[nodiscard]] Status create_file(const Place& at, const Entry& entry, TarReader& data);
  [[nodiscard]] Status write_data(int file, const Entry& entry, TarReader& data);
  [[nodiscard]] Status write_extent(int file, std::uint64_t offset, std::uint64_t length,
                                    TarReader& data);
  [[nodiscard]] Status create_directory(const Place& at, const Entry& entry, bool merge);
  [[nodiscard]] Status create_symlink(const Place& at, const Entry& entry);
  [[nodiscard]] Status create_special(const Place& at, const Entry& entry);
  [[nodiscard]] Status create_hardlink(const Place& at, const Entry& entry);
  void mark(const std::string& path);

  UniqueFd root_;
  TreeLimits limits_;
  std::uint64_t entries_ = 0;
  std::uint64_t stored_bytes_ = 0;
  std::uint64_t skipped_devices_ = 0;

  /// Paths of this layer and the directories above them: what whiteouts of this layer keep.
  std::unordered_set<std::string> own_;
  std::unordered_map<std::string, Times> directory_times_;
  /// The last parent: most entries come directory by directory. Dropped whenever something is
  /// removed, since only that can change what a path means.
  std::vector<std::string> parent_components_;
  Directory parent_;
  bool stale_ = false;
  std::vector<std::byte> buffer_;
};

}  // namespace ate::image
