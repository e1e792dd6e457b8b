#include "artifacts/payload.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "artifacts/manifest.hpp"
#include "ate/os/fs.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::artifacts {

namespace {

constexpr std::size_t kMaxFiles = 256;
constexpr int kMaxLevels = 4;
constexpr std::int64_t kSliceBytes = 64LL << 20;
constexpr int kOpenFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

struct CloseDir {
  void operator()(DIR* dir) const noexcept { ::closedir(dir); }
};

/// Adds what is directly in `prefix` ("" or "a/b/").
Status walk_level(const UniqueFd& directory, const std::string& id, const std::string& prefix,
                  Tree& tree) {
  ATE_ASSIGN(UniqueFd level,
             os::open_beneath(directory, prefix.empty() ? "." : prefix, O_RDONLY | O_DIRECTORY, 0));
  const std::unique_ptr<DIR, CloseDir> entries(::fdopendir(level.get()));
  if (entries == nullptr) {
    return fail(Error::from_errno("read directory of snapshot " + id, errno));
  }
  static_cast<void>(level.release());  // entries owns it now
  for (const dirent* entry = ::readdir(entries.get()); entry != nullptr;
       entry = ::readdir(entries.get())) {
    const std::string_view name(entry->d_name);
    const bool other = prefix.empty() && (name == kManifestName || name == kVolumesName);
    if (name == "." || name == ".." || other) {
      continue;
    }
    struct stat info{};
    if (::fstatat(::dirfd(entries.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail(Error::from_errno("stat in snapshot " + id, errno));
    }
    const std::string path = prefix + std::string(name);
    if (S_ISDIR(info.st_mode)) {
      tree.directories.push_back(path);
    } else if (S_ISREG(info.st_mode)) {
      tree.files.push_back(path);
    } else {
      return corrupt(id, path + " is neither a file nor a directory");
    }
    if (tree.files.size() + tree.directories.size() > kMaxFiles) {
      return corrupt(id, "it holds more than " + std::to_string(kMaxFiles) + " files");
    }
  }
  return {};
}

Result<PayloadFile> open_file(const UniqueFd& directory, const std::string& name) {
  PayloadFile file;
  file.name = name;
  ATE_ASSIGN(file.fd, os::open_beneath(directory, name, kOpenFlags, 0));
  if (::fstat(file.fd.get(), &file.info) != 0) {
    return fail(Error::from_errno("stat " + name, errno));
  }
  return file;
}

}  // namespace

Result<Tree> walk(const UniqueFd& directory, const std::string& id) {
  Tree tree;
  ATE_TRY(walk_level(directory, id, "", tree));
  for (std::size_t i = 0; i < tree.directories.size(); ++i) {
    const std::string path = tree.directories[i];
    if (std::count(path.begin(), path.end(), '/') >= kMaxLevels - 1) {
      return corrupt(id, path + " is nested too deeply");
    }
    ATE_TRY(walk_level(directory, id, path + "/", tree));
  }
  std::sort(tree.files.begin(), tree.files.end());
  return tree;
}

Result<std::vector<PayloadFile>> open_payload(const UniqueFd& directory, const std::string& id,
                                              const std::vector<std::string>& names) {
  std::vector<PayloadFile> files;
  files.reserve(names.size());
  for (const std::string& name : names) {
    Result<PayloadFile> file = open_file(directory, name);
    if (!file) {
      return fail(std::move(file).error().context("snapshot " + id));
    }
    files.push_back(std::move(*file));
  }
  return files;
}

Status hash_payload(std::vector<PayloadFile>& files) {
  std::vector<std::byte> buffer(kReadBytes);
  for (PayloadFile& file : files) {
    Xxh3 digest;
    std::int64_t offset = 0;
    for (;;) {
      ATE_ASSIGN(const std::span<const std::byte> part,
                 read_at(file.fd.get(), offset, buffer, file.name));
      if (part.empty()) {
        break;
      }
      digest.update(part);
      offset += static_cast<std::int64_t>(part.size());
    }
    file.xxh3 = digest.finish();
  }
  return {};
}

Status sync_payload(const std::vector<PayloadFile>& files) {
  for (const PayloadFile& file : files) {
    // IGNORED: only a hint, so that the disk is not idle between one fsync and the next.
    static_cast<void>(::sync_file_range(file.fd.get(), 0, 0, SYNC_FILE_RANGE_WRITE));
  }
  for (const PayloadFile& file : files) {
    if (::fsync(file.fd.get()) != 0) {
      return fail(Error::from_errno("fsync " + file.name, errno));
    }
  }
  return {};
}

Status finish_payload(const std::vector<PayloadFile>& files, bool drop_page_cache) {
  for (const PayloadFile& file : files) {
    struct stat now{};
    if (::fstat(file.fd.get(), &now) != 0 || identity_of(now) != identity_of(file.info)) {
      return fail(Errc::Internal, file.name + " changed while it was sealed");
    }
    if (drop_page_cache) {
      // IGNORED: advice.
      static_cast<void>(::posix_fadvise(file.fd.get(), 0, 0, POSIX_FADV_DONTNEED));
    }
  }
  return {};
}

void Fingerprint::add(const std::string& name, const struct stat& info) {
  const std::string text = name + '\0' + identity_of(info) + '\0';
  digest_.update(std::as_bytes(std::span(text)));
}

Result<std::string> check_files(const UniqueFd& directory,
                                const v1alpha1::SnapshotManifest& manifest) {
  const std::string& id = manifest.id();
  ATE_ASSIGN(Tree tree, walk(directory, id));
  Fingerprint fingerprint;
  for (const v1alpha1::SnapshotFile& wanted : manifest.files()) {
    const auto found = std::find(tree.files.begin(), tree.files.end(), wanted.name());
    if (found == tree.files.end()) {
      return corrupt(id, wanted.name() + " is missing");
    }
    tree.files.erase(found);
    ATE_ASSIGN(const PayloadFile file, open_file(directory, wanted.name()));
    if (file.info.st_size != wanted.bytes()) {
      return corrupt(id, wanted.name() + " has " + std::to_string(file.info.st_size) + " of " +
                             std::to_string(wanted.bytes()) + " bytes");
    }
    fingerprint.add(file.name, file.info);
  }
  if (!tree.files.empty()) {
    return corrupt(id, tree.files.front() + " does not belong to it");
  }
  for (const v1alpha1::SnapshotVolume& volume : manifest.volumes()) {
    const std::string name = std::string(kVolumesName) + "/" + volume.name();
    if (!os::open_beneath(directory, name, O_RDONLY | O_DIRECTORY, 0)) {
      return corrupt(id, "its copy of volume " + volume.name() + " is missing");
    }
  }
  return fingerprint.finish();
}

Verifier::Verifier(std::string directory,
                   std::shared_ptr<const v1alpha1::SnapshotManifest> manifest)
    : path_(std::move(directory)), manifest_(std::move(manifest)), buffer_(kReadBytes) {}

Result<bool> Verifier::step() {
  for (std::int64_t left = kSliceBytes; left > 0;) {
    if (!fd_) {
      if (index_ == manifest_->files_size()) {
        return false;
      }
      ATE_TRY(open_next());
    }
    const std::string& name = manifest_->files(index_).name();
    ATE_ASSIGN(const std::span<const std::byte> part, read_at(fd_.get(), offset_, buffer_, name));
    if (part.empty()) {
      ATE_TRY(close_current());
      continue;
    }
    digest_->update(part);
    offset_ += static_cast<std::int64_t>(part.size());
    left -= static_cast<std::int64_t>(part.size());
  }
  return true;
}

Status Verifier::open_next() {
  const std::string& name = manifest_->files(index_).name();
  ATE_ASSIGN(const UniqueFd directory, os::open_dir(path_));
  Result<PayloadFile> file = open_file(directory, name);
  if (!file) {
    return corrupt(manifest_->id(), file.error().message());
  }
  fd_ = std::move(file->fd);
  identity_ = identity_of(file->info);
  offset_ = 0;
  digest_ = std::make_unique<Xxh3>();
  // IGNORED: advice.
  static_cast<void>(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL));
  return {};
}

Status Verifier::close_current() {
  const v1alpha1::SnapshotFile& wanted = manifest_->files(index_);
  const std::string actual = digest_->finish();
  if (offset_ != wanted.bytes() || actual != wanted.xxh3()) {
    return corrupt(manifest_->id(), wanted.name() + " is damaged: checksum " + actual +
                                        ", recorded was " + wanted.xxh3());
  }
  struct stat now{};
  if (::fstat(fd_.get(), &now) != 0 || identity_of(now) != identity_) {
    return corrupt(manifest_->id(), wanted.name() + " changed while it was verified");
  }
  fingerprint_.add(wanted.name(), now);
  fd_.reset();
  ++index_;
  return {};
}

}  // namespace ate::artifacts
