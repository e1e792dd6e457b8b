#include "image/layout.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <utility>

#include "ate/util/log.hpp"
#include "image/json.hpp"
#include "image/limits.hpp"
#include "image/path.hpp"
#include "image/tar.hpp"

namespace ate::image {

namespace {

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Errc::ImageInvalid, what);
}

class DirectoryLayout final : public Layout {
 public:
  explicit DirectoryLayout(int directory) : directory_(directory) {}

  Result<FileSpan> open(const std::string& name) override {
    FileSpan span;
    // O_NONBLOCK: a FIFO in place of a blob must not hold us up.
    Result<UniqueFd> file =
        open_beneath(directory_, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (!file) {
      const int why = file.error().sys_errno();
      if (why == ENOENT || why == ENOTDIR) {
        return fail(Errc::NotFound, "'" + name + "' is missing");
      }
      if (why == ELOOP) {
        // Links of build tools lead out of the layout, where the helper can't go.
        return invalid("'" + name +
                       "' is a symlink, which is not followed: copy the layout with "
                       "`cp -rL` or `skopeo copy`");
      }
      return fail(std::move(file).error().context("the image layout"));
    }
    struct stat info{};
    if (::fstat(file->get(), &info) != 0) {
      return fail(Error::from_errno("looking at '" + name + "'", errno));
    }
    if (!S_ISREG(info.st_mode)) {
      return invalid("'" + name + "' is not a regular file");
    }
    span.own = std::move(*file);
    span.fd = span.own.get();
    span.size = static_cast<std::uint64_t>(info.st_size);
    return span;
  }

 private:
  int directory_;
};

class ArchiveLayout final : public Layout {
 public:
  explicit ArchiveLayout(int file) : file_(file) {}

  Result<FileSpan> open(const std::string& name) override {
    auto found = files_.find(name);
    if (const auto link = links_.find(name); found == files_.end() && link != links_.end()) {
      found = files_.find(link->second);
    }
    if (found == files_.end()) {
      return fail(Errc::NotFound, "'" + name + "' is missing");
    }
    FileSpan span;
    span.fd = file_;
    span.offset = found->second.offset;
    span.size = found->second.size;
    return span;
  }

  Status index() {
    struct stat info{};
    if (::fstat(file_, &info) != 0) {
      return fail(Error::from_errno("looking at the archive", errno));
    }
    FileRange range(file_, 0, static_cast<std::uint64_t>(info.st_size));
    ATE_TRY(check_magic(static_cast<std::uint64_t>(info.st_size)));
    TarReader reader(range);
    Entry entry;
    std::uint64_t count = 0;
    while (true) {
      ATE_ASSIGN(const bool more, reader.next(entry));
      if (!more) {
        return {};
      }
      if (++count > kMaxArchiveEntries) {
        return invalid("the archive has more than 10000 entries");
      }
      ATE_TRY(add(entry, reader.data_offset()));
    }
  }

  [[nodiscard]] bool has(const std::string& name) const { return files_.contains(name); }

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };

  Status check_magic(std::uint64_t size) const {
    std::array<std::byte, 4> magic{};
    FileRange start(file_, 0, std::min<std::uint64_t>(size, magic.size()));
    ATE_ASSIGN(const std::size_t got, start.read(magic));
    const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(magic[i]); };
    if (got == 0) {
      return invalid("the archive is empty");
    }
    if ((at(0) == 0x1f && at(1) == 0x8b) || (at(0) == 0x28 && at(1) == 0xb5) ||
        (at(0) == 0xfd && at(1) == '7') || (at(0) == 'B' && at(1) == 'Z')) {
      return invalid(
          "the archive itself is compressed; unpack that first (gunzip, unzstd): "
          "compressed layers in it are fine");
    }
    return {};
  }

  Status add(const Entry& entry, std::uint64_t offset) {
    ATE_ASSIGN(const std::vector<std::string> parts, clean_components(entry.name));
    std::string name;
    for (const std::string& part : parts) {
      name += (name.empty() ? "" : "/") + part;
    }
    Place place{offset, entry.size};
    if (entry.type == EntryType::HardLink) {
      // tar writes a blob that has two names as a link to the first.
      ATE_ASSIGN(const std::vector<std::string> target, clean_components(entry.link));
      std::string target_name;
      for (const std::string& part : target) {
        target_name += (target_name.empty() ? "" : "/") + part;
      }
      const auto found = files_.find(target_name);
      if (found == files_.end()) {
        return {};
      }
      place = found->second;
    } else if (entry.type == EntryType::Symlink) {
      // docker save writes a layer that two images share as a link to the first. Only ever a name
      // in this archive: nothing of the host is looked at.
      links_.try_emplace(name, target_of(parts, entry.link));
      return {};
    } else if (entry.type != EntryType::Regular || entry.sparse) {
      return {};
    }
    if (!files_.emplace(name, place).second) {
      return invalid("the archive holds '" + escape_text(name, 200) + "' twice");
    }
    return {};
  }

  /// What the link `parts` means, by names alone; "" when it leads out of the archive.
  static std::string target_of(std::vector<std::string> parts, std::string_view link) {
    parts.pop_back();
    if (link.starts_with('/')) {
      return {};
    }
    while (!link.empty()) {
      const std::string_view part = link.substr(0, link.find('/'));
      link.remove_prefix(std::min(link.size(), part.size() + 1));
      if (part == ".." && parts.empty()) {
        return {};
      }
      if (part == "..") {
        parts.pop_back();
      } else if (!part.empty() && part != ".") {
        parts.emplace_back(part);
      }
    }
    std::string name;
    for (const std::string& part : parts) {
      name += (name.empty() ? "" : "/") + part;
    }
    return name;
  }

  int file_;
  std::unordered_map<std::string, Place> files_;
  std::unordered_map<std::string, std::string> links_;  // symlink -> the name that it means
};

Result<std::string> read_span(const FileSpan& span, const std::string& name) {
  if (span.size > kMaxJsonBytes) {
    return invalid("'" + name + "' is larger than 4 MiB");
  }
  std::string text(static_cast<std::size_t>(span.size), '\0');
  FileRange range(span.fd, span.offset, span.size);
  std::size_t filled = 0;
  while (filled < text.size()) {
    ATE_ASSIGN(const std::size_t got,
               range.read(std::as_writable_bytes(std::span(text)).subspan(filled)));
    filled += got;
  }
  return text;
}

Status check_layout_version(Layout& layout) {
  Result<std::string> text = layout.read_text("oci-layout");
  if (!text && text.error().code() == Errc::NotFound) {
    if (layout.open("manifest.json")) {
      return invalid(
          "this is a docker archive, not an OCI image layout: write docker-archive: instead of "
          "oci-archive:");
    }
    return invalid("this is not an OCI image layout: it has no file 'oci-layout'");
  }
  if (!text) {
    return fail(std::move(text).error());
  }
  Result<core::JsonValue> document = parse_json(*text);
  const core::JsonValue* version = document ? document->find("imageLayoutVersion") : nullptr;
  if (version == nullptr || version->as_text() == nullptr || *version->as_text() != "1.0.0") {
    return invalid("'oci-layout' does not say imageLayoutVersion 1.0.0");
  }
  return {};
}

Result<std::string> read_checked(Layout& layout, const std::string& digest,
                                 const std::uint64_t* size) {
  const std::string name = blob_path(digest);
  Result<FileSpan> span = layout.open(name);
  if (!span && span.error().code() == Errc::NotFound) {
    return invalid("blob " + digest + " is missing: the image is incomplete or was replaced");
  }
  if (!span) {
    return fail(std::move(span).error());
  }
  if (size != nullptr && span->size != *size) {
    return invalid("blob " + digest + " has " + std::to_string(span->size) + " bytes, expected " +
                   std::to_string(*size) + ": the image is damaged or was replaced");
  }
  ATE_ASSIGN(std::string text, read_span(*span, name));
  if ("sha256:" + sha256_hex(text) != digest) {
    return invalid("blob " + digest + " has another digest: the image is damaged or was replaced");
  }
  return text;
}

}  // namespace

std::string blob_path(const std::string& digest) {
  return "blobs/sha256/" + digest.substr(7);
}

Result<std::string> Layout::read_text(const std::string& name) {
  ATE_ASSIGN(const FileSpan span, open(name));
  return read_span(span, name);
}

Result<std::string> Layout::read_blob(const std::string& digest, std::uint64_t size) {
  return read_checked(*this, digest, &size);
}

Result<std::string> Layout::read_blob(const std::string& digest) {
  return read_checked(*this, digest, nullptr);
}

Result<std::unique_ptr<Layout>> open_directory_layout(int directory) {
  auto layout = std::make_unique<DirectoryLayout>(directory);
  ATE_TRY(check_layout_version(*layout));
  return layout;
}

Result<std::unique_ptr<Layout>> open_archive(int file) {
  auto layout = std::make_unique<ArchiveLayout>(file);
  ATE_TRY(layout->index());
  return layout;
}

Result<std::unique_ptr<Layout>> open_archive_layout(int file) {
  ATE_ASSIGN(std::unique_ptr<Layout> layout, open_archive(file));
  ATE_TRY(check_layout_version(*layout));
  return layout;
}

}  // namespace ate::image
