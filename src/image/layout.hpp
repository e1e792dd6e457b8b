#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"
#include "image/stream.hpp"

namespace ate::image {

/// Where a file of the layout is: a range of an open file.
struct FileSpan {
  int fd = -1;  // borrowed from the layout, or `own`
  UniqueFd own;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// An OCI image layout to read from. Blocking.
class Layout {
 public:
  Layout() = default;
  virtual ~Layout() = default;
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  Layout(Layout&&) = delete;
  Layout& operator=(Layout&&) = delete;

  /// `name` is relative: `index.json`, `blobs/sha256/<hex>`. NotFound when there is none.
  [[nodiscard]] virtual Result<FileSpan> open(const std::string& name) = 0;

  /// Contents of `name`, at most kMaxJsonBytes.
  [[nodiscard]] Result<std::string> read_text(const std::string& name);
  /// Contents of the blob `digest`, whose digest and size are right.
  [[nodiscard]] Result<std::string> read_blob(const std::string& digest, std::uint64_t size);
  /// The same when the size is not known (a manifest named by digest alone).
  [[nodiscard]] Result<std::string> read_blob(const std::string& digest);
};

/// `oci:` a directory. `directory` must stay open.
[[nodiscard]] Result<std::unique_ptr<Layout>> open_directory_layout(int directory);
/// `oci-archive:` an uncompressed tar of one, read in place: one pass finds where each file is.
/// `file` must stay open.
[[nodiscard]] Result<std::unique_ptr<Layout>> open_archive_layout(int file);

/// Any uncompressed tar of files, without a look at what it holds.
[[nodiscard]] Result<std::unique_ptr<Layout>> open_archive(int file);

/// `blobs/sha256/<hex>` of a checked digest.
[[nodiscard]] std::string blob_path(const std::string& digest);

}  // namespace ate::image
