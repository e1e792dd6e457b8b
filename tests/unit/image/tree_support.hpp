#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "ate/util/result.hpp"
#include "image/limits.hpp"
#include "image/stream.hpp"
#include "image/tar.hpp"
#include "image/tree.hpp"
#include "support/temp_dir.hpp"

namespace ate::test {

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline Status apply_layer(image::Tree& tree, const std::string& tar) {
  image::MemorySource source(as_bytes(tar));
  image::TarReader reader(source);
  tree.begin_layer();
  image::Entry entry;
  while (true) {
    ATE_ASSIGN(const bool more, reader.next(entry));
    if (!more) {
      return tree.end_layer();
    }
    ATE_TRY(tree.apply(entry, reader));
  }
}

/// A root to unpack into with a canary beside it.
class Sandbox {
 public:
  Sandbox() {
    std::filesystem::create_directories(root());
    std::filesystem::create_directories(outside());
    write_file(outside() + "/canary", "alive");
    ::chmod((outside() + "/canary").c_str(), 0640);
    before_ = describe(outside());
  }

  [[nodiscard]] std::string root() const { return dir_.file("root"); }

  [[nodiscard]] std::string outside() const { return dir_.file("outside"); }

  [[nodiscard]] Status unpack(const std::vector<std::string>& layers) const {
    return unpack(layers, image::TreeLimits{image::kMaxEntries, image::kMaxStoredBytes});
  }

  [[nodiscard]] Status unpack(const std::vector<std::string>& layers,
                              image::TreeLimits limits) const {
    image::Tree tree(UniqueFd(::open(root().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), limits);
    for (const std::string& layer : layers) {
      ATE_TRY(apply_layer(tree, layer));
    }
    return {};
  }

  /// True while nothing beside the root was made, changed or removed.
  [[nodiscard]] bool untouched() const {
    return describe(outside()) == before_ &&
           std::ranges::distance(std::filesystem::directory_iterator(dir_.path())) == 2;
  }

  [[nodiscard]] std::string tree() const { return describe(root()); }

  /// One line per file: `d755 a/`, `-644 a/f = data`, `l a/s -> target`, `c600 1:3 dev`.
  static std::string describe(const std::string& top) {
    std::vector<std::string> lines;
    for (const auto& item : std::filesystem::recursive_directory_iterator(top)) {
      struct stat info{};
      ::lstat(item.path().c_str(), &info);
      const std::string name = item.path().string().substr(top.size() + 1);
      std::string mode(8, '\0');
      mode.resize(static_cast<std::size_t>(
          std::snprintf(mode.data(), mode.size(), "%o", info.st_mode & 07777U)));
      switch (info.st_mode & S_IFMT) {
        case S_IFDIR:
          lines.push_back(name + "/ d" + mode);
          break;
        case S_IFLNK:
          lines.push_back(name + " -> " + std::filesystem::read_symlink(item.path()).string());
          break;
        case S_IFREG: {
          const std::string data = info.st_size < 200 ? read_file(item.path()) : "...";
          lines.push_back(name + " -" + mode + (data.empty() ? "" : " " + data));
          break;
        }
        default:
          lines.push_back(name +
                          (S_ISFIFO(info.st_mode)  ? " p"
                           : S_ISCHR(info.st_mode) ? " c"
                                                   : " b") +
                          mode + " " + std::to_string(major(info.st_rdev)) + ":" +
                          std::to_string(minor(info.st_rdev)));
      }
    }
    std::ranges::sort(lines);
    std::string out;
    for (const std::string& line : lines) {
      out += line + "\n";
    }
    return out;
  }

 private:
  TempDir dir_;
  std::string before_;
};

}  // namespace ate::test
