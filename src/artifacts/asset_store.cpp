#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "artifacts/digest.hpp"
#include "ate/artifacts/artifacts.hpp"
#include "ate/image/digest.hpp"
#include "ate/os/fs.hpp"
#include "ate/util/failpoint.hpp"
#include "ate/util/fd.hpp"
#include "ate/util/ids.hpp"
#include "ate/util/scope_exit.hpp"

namespace ate::artifacts {

namespace {

constexpr std::int64_t kMaxBytes = 1LL << 30;
constexpr std::string_view kPrefix = "sha256:";
constexpr std::string_view kTemporary = ".import-";
constexpr mode_t kMode = 0755;

/// A file that may become an asset, held open: what was checked and hashed is what is copied.
struct Source {
  std::shared_ptr<UniqueFd> fd;
  std::string path;
  std::string identity;
  std::int64_t bytes = 0;
};

std::unexpected<Error> invalid(const std::string& path, const std::string& what) {
  return fail(Errc::AssetInvalid, "asset " + path + " " + what);
}

Result<Source> open_source(const std::string& path) {
  // O_NONBLOCK: a FIFO must not hang us.
  auto fd = std::make_shared<UniqueFd>(
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!*fd) {
    const int error = errno;
    if (error == ELOOP) {
      return invalid(path, "is a symbolic link; name the file itself");
    }
    return fail(Error::from_errno("asset " + path, error, Errc::AssetInvalid));
  }
  struct stat info{};
  if (::fstat(fd->get(), &info) != 0) {
    return fail(Error::from_errno("asset " + path, errno, Errc::AssetInvalid));
  }
  if (!S_ISREG(info.st_mode)) {
    return invalid(path, "is not a regular file");
  }
  if ((info.st_mode & 022U) != 0) {
    return invalid(path, "can be written by its group or by others: run `chmod go-w " + path + "`");
  }
  if (info.st_size == 0 || info.st_size > kMaxBytes) {
    return invalid(path, "has " + std::to_string(info.st_size) + " bytes; 1 to " +
                             std::to_string(kMaxBytes) + " are possible");
  }
  return Source{std::move(fd), path, identity_of(info), info.st_size};
}

/// The digest of what is open, if it did not change meanwhile.
Result<std::string> hash_source(const Source& source) {
  ATE_ASSIGN(std::string hex, sha256_descriptor(source.fd->get(), source.path));
  struct stat after{};
  if (::fstat(source.fd->get(), &after) != 0 || identity_of(after) != source.identity) {
    return invalid(source.path, "changed while it was read");
  }
  return hex;
}

Status copy_by_hand(int from, int to, const Source& source) {
  std::vector<std::byte> buffer(kReadBytes);
  std::int64_t offset = 0;
  while (offset < source.bytes) {
    ATE_ASSIGN(const std::span<const std::byte> part, read_at(from, offset, buffer, source.path));
    if (part.empty()) {
      return invalid(source.path, "got shorter while it was copied");
    }
    const void* data = part.data();
    ATE_TRY(os::write_all(to, {static_cast<const char*>(data), part.size()}, "asset copy"));
    offset += static_cast<std::int64_t>(part.size());
  }
  return {};
}

/// In the kernel where it can (shares the blocks on file systems that do), else by hand.
Status copy_content(const Source& source, int to) {
  off_t offset = 0;
  while (offset < source.bytes) {
    const ssize_t copied = ::copy_file_range(source.fd->get(), &offset, to, nullptr,
                                             static_cast<std::size_t>(source.bytes - offset), 0);
    if (copied > 0) {
      continue;
    }
    if (copied == 0) {
      return invalid(source.path, "got shorter while it was copied");
    }
    const int error = errno;
    if (error == EINTR) {
      continue;
    }
    if (offset == 0 && (error == EXDEV || error == EINVAL || error == EOPNOTSUPP ||
                        error == ENOSYS || error == EPERM)) {
      return copy_by_hand(source.fd->get(), to, source);
    }
    return fail(Error::from_errno("copying asset " + source.path, error));
  }
  return {};
}

/// Writes, verifies and syncs the copy at `temporary`. Its descriptor is closed at the end: a file
/// that is open for writing can't be executed.
Status write_copy(const Source& source, const std::string& hex, const std::string& temporary) {
  const UniqueFd copy(
      ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!copy) {
    return fail(Error::from_errno("create " + temporary, errno));
  }
  ATE_TRY(copy_content(source, copy.get()));
  ATE_ASSIGN(const std::string copied, sha256_descriptor(copy.get(), temporary));
  if (copied != hex) {
    return invalid(source.path, "changed while it was copied");
  }
  if (::fchmod(copy.get(), kMode) != 0 || ::fsync(copy.get()) != 0) {
    return fail(Error::from_errno("storing asset " + source.path, errno));
  }
  return {};
}

Status store_copy(const Source& source, const std::string& hex, const std::string& directory) {
  const std::string temporary = directory + "/" + std::string(kTemporary) + random_hex(12);
  // IGNORED: the error that brought us here is the one to tell.
  ScopeExit discard([&temporary] { static_cast<void>(::unlink(temporary.c_str())); });
  ATE_TRY(write_copy(source, hex, temporary));
  if (failpoint("asset-before-rename")) {
    return fail(Errc::Internal, "failpoint asset-before-rename");
  }
  ATE_TRY(os::rename_durably(temporary, directory + "/" + hex));
  discard.dismiss();
  return {};
}

bool is_stored(const std::string& path, std::int64_t bytes) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == bytes &&
         (info.st_mode & 07777U) == kMode;
}

Result<std::string> adopt(const Source& source, const std::string& known,
                          const std::string& expected, const std::string& directory) {
  std::string hex = known;
  if (hex.empty()) {
    ATE_ASSIGN(hex, hash_source(source));
  }
  std::string digest = std::string(kPrefix) + hex;
  if (!expected.empty() && expected != digest) {
    return invalid(source.path, "has digest " + digest + ", expected " + expected);
  }
  if (!is_stored(directory + "/" + hex, source.bytes)) {
    ATE_TRY(store_copy(source, hex, directory));
  }
  return digest;
}

}  // namespace

struct AssetStore::Known {
  std::unordered_map<std::string, std::string> by_identity;
};

AssetStore::AssetStore(async::Context& context, std::string directory)
    : context_(context), directory_(std::move(directory)), known_(std::make_shared<Known>()) {}

Status AssetStore::prepare() {
  const std::string store = directory_ + "/sha256";
  ATE_TRY(os::make_dirs(store, 0700));
  ATE_ASSIGN(const std::vector<std::string> names, os::list_dir(store));
  for (const std::string& name : names) {
    if (name.starts_with(kTemporary)) {
      ATE_TRY(os::remove_file(store + "/" + name));
    }
  }
  return {};
}

async::Task<Result<std::string>> AssetStore::import(std::string path, std::string expected) {
  if (!expected.empty() && !image::is_sha256_digest(expected)) {
    co_return fail(Errc::AssetInvalid, "asset " + path + ": `" + expected +
                                           "` is not sha256: and 64 lower-case digits");
  }
  std::function<Result<Source>()> look = [path] { return open_source(path); };
  Result<Source> source = co_await async::run_blocking(context_, std::move(look));
  if (!source) {
    co_return fail(std::move(source).error());
  }
  const auto found = known_->by_identity.find(source->identity);
  const std::string known = found == known_->by_identity.end() ? std::string{} : found->second;
  std::function<Result<std::string>()> work = [source = *source, known, expected,
                                               directory = directory_ + "/sha256"] {
    return adopt(source, known, expected, directory);
  };
  Result<std::string> digest = co_await async::run_blocking(context_, std::move(work));
  if (digest) {
    known_->by_identity[source->identity] = digest->substr(kPrefix.size());
  }
  co_return digest;
}

Result<std::string> AssetStore::path_of(const std::string& digest) const {
  if (!image::is_sha256_digest(digest)) {
    return fail(Errc::AssetInvalid, "`" + digest + "` is not an asset's digest");
  }
  std::string path = directory_ + "/sha256/" + digest.substr(kPrefix.size());
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return fail(Errc::AssetInvalid, "asset " + digest + " is missing: there is no file " + path);
  }
  return path;
}

Result<std::vector<AssetStore::Listed>> AssetStore::list() const {
  const std::string store = directory_ + "/sha256";
  ATE_ASSIGN(const std::vector<std::string> names, os::list_dir(store));
  std::vector<Listed> found;
  for (const std::string& name : names) {
    struct stat info{};
    const std::string digest = std::string(kPrefix) + name;
    if (image::is_sha256_digest(digest) && ::lstat((store + "/" + name).c_str(), &info) == 0) {
      found.push_back({digest, info.st_size, std::int64_t{info.st_mtim.tv_sec} * 1000});
    }
  }
  return found;
}

Status AssetStore::remove(const std::string& digest) {
  if (!image::is_sha256_digest(digest)) {
    return fail(Errc::AssetInvalid, "no digest of an asset: " + digest);
  }
  return os::remove_file(directory_ + "/sha256/" + digest.substr(kPrefix.size()));
}

}  // namespace ate::artifacts
