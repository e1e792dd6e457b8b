#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <string_view>
#include <unordered_map>

#include "artifacts/beside.hpp"
#include "artifacts/manifest.hpp"
#include "artifacts/payload.hpp"
#include "ate/artifacts/artifacts.hpp"
#include "ate/artifacts/leftovers.hpp"
#include "ate/os/fs.hpp"
#include "ate/os/tree.hpp"
#include "ate/util/failpoint.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::artifacts {

namespace {

constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kTrash = ".trash-";
// Creating a snapshot takes a handful; below this the next one would fail half way.
constexpr std::uint64_t kMinFreeInodes = 64;

/// What a blocking step hands back to the loop.
struct SealedFiles {
  SnapshotStore::Sealed sealed;
  std::string fingerprint;
};

struct OpenedFiles {
  std::shared_ptr<v1alpha1::SnapshotManifest> manifest;
  std::string fingerprint;
};

std::unexpected<Error> bad_id(const std::string& id) {
  return fail(Errc::Internal, "`" + id + "` can't be a snapshot's id");
}

std::unexpected<Error> stopped_at(const char* name) {
  return fail(Errc::Internal, std::string("failpoint ") + name);
}

Status sync_directories(const std::string& path, const Tree& tree) {
  for (const std::string& directory : tree.directories) {
    ATE_TRY(os::fsync_path(path + "/" + directory));
  }
  return os::fsync_path(path);
}

void describe(const std::vector<PayloadFile>& files, v1alpha1::SnapshotManifest& manifest,
              SealedFiles& out) {
  Fingerprint fingerprint;
  manifest.clear_files();
  for (const PayloadFile& file : files) {
    v1alpha1::SnapshotFile* entry = manifest.add_files();
    entry->set_name(file.name);
    entry->set_bytes(file.info.st_size);
    entry->set_xxh3(file.xxh3);
    fingerprint.add(file.name, file.info);
    out.sealed.bytes += file.info.st_size;
  }
  out.fingerprint = fingerprint.finish();
}

/// Makes the payload durable and knows its checksums: the sum of neither but the longer of both.
/// (Starting the write-back and then hashing is not enough: submitting 100 MB blocks for as long as
/// the disk takes.)
Status settle_payload(async::Context& context, std::vector<PayloadFile>& files,
                      bool drop_page_cache) {
  Beside hash(context, [&files] { return hash_payload(files); });
  const Status synced = sync_payload(files);
  const Status hashed = hash.join();
  ATE_TRY(synced);
  ATE_TRY(hashed);
  return finish_payload(files, drop_page_cache);
}

Status sync_volumes(const UniqueFd& directory, const v1alpha1::SnapshotManifest& manifest) {
  if (manifest.volumes().empty()) {
    return {};
  }
  std::int64_t entries = 0;
  for (const v1alpha1::SnapshotVolume& volume : manifest.volumes()) {
    entries += volume.entries() + 1;
  }
  ATE_ASSIGN(const UniqueFd volumes,
             os::open_beneath(directory, kVolumesName, O_RDONLY | O_DIRECTORY, 0));
  return os::sync_tree(volumes, entries);
}

/// Everything up to the rename.
Result<SealedFiles> settle(async::Context& context, const std::string& path,
                           v1alpha1::SnapshotManifest& manifest, bool drop_page_cache) {
  const std::string& id = manifest.id();
  ATE_ASSIGN(const UniqueFd directory, os::open_dir(path));
  ATE_ASSIGN(const Tree tree, walk(directory, id));
  if (tree.files.empty() && manifest.volumes().empty()) {
    return fail(Errc::Internal, "snapshot " + id + " has no payload");
  }
  ATE_TRY(sync_volumes(directory, manifest));
  ATE_ASSIGN(std::vector<PayloadFile> files, open_payload(directory, id, tree.files));
  ATE_TRY(settle_payload(context, files, drop_page_cache));
  if (failpoint("seal-after-payload")) {
    return stopped_at("seal-after-payload");
  }
  SealedFiles out;
  describe(files, manifest, out);
  ATE_ASSIGN(const std::string text, write_manifest(path, manifest));
  out.sealed.manifest_sha256 = sha256_text(text);
  out.sealed.bytes += static_cast<std::int64_t>(text.size());
  ATE_TRY(sync_directories(path, tree));
  return out;
}

Result<SealedFiles> seal_files(async::Context& context, const std::string& path,
                               v1alpha1::SnapshotManifest& manifest, bool drop_page_cache) {
  const std::string partial = path + std::string(kPartial);
  ATE_ASSIGN(SealedFiles out, settle(context, partial, manifest, drop_page_cache));
  if (failpoint("seal-before-rename")) {
    return stopped_at("seal-before-rename");
  }
  if (os::exists(path)) {
    return fail(Errc::Internal, "snapshot " + manifest.id() + " exists already");
  }
  if (::rename(partial.c_str(), path.c_str()) != 0) {
    return fail(Error::from_errno("rename " + partial, errno));
  }
  if (failpoint("seal-after-rename")) {
    return stopped_at("seal-after-rename");
  }
  ATE_TRY(os::fsync_path(os::parent_dir(path)));
  return out;
}

Result<std::string> begin_files(const std::string& id, const std::string& path) {
  if (os::exists(path)) {
    return fail(Errc::Internal, "snapshot " + id + " exists already");
  }
  std::string partial = path + std::string(kPartial);
  ATE_TRY(os::remove_tree(partial));
  ATE_TRY(os::make_dir(partial, 0700));
  return partial;
}

Result<OpenedFiles> open_files(const std::string& id, const std::string& path,
                               const std::string& sha256) {
  const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info{};
  if (!directory || ::fstat(directory.get(), &info) != 0) {
    if (errno == ENOENT) {
      return corrupt(id, "its directory is missing");
    }
    if (errno == ENOTDIR || errno == ELOOP) {
      return corrupt(id, path + " is not a directory");
    }
    return fail(Error::from_errno("open " + path, errno));
  }
  // It holds the memory of a guest, and its content becomes one.
  if (info.st_uid != ::geteuid() || (info.st_mode & 077U) != 0) {
    return corrupt(id,
                   path + " must belong to uid " + std::to_string(::geteuid()) + " with mode 0700");
  }
  OpenedFiles out;
  ATE_ASSIGN(out.manifest, read_manifest(directory, id, sha256));
  ATE_ASSIGN(out.fingerprint, check_files(directory, *out.manifest));
  return out;
}

Status remove_files(const std::string& directory, const std::string& id) {
  const std::string trash = directory + "/" + std::string(kTrash) + id;
  for (const std::string& source :
       {directory + "/" + id, directory + "/" + id + std::string(kPartial)}) {
    // What an earlier attempt left; rename needs the name free.
    ATE_TRY(os::remove_tree(trash));
    if (::rename(source.c_str(), trash.c_str()) != 0) {
      if (errno == ENOENT) {
        continue;
      }
      return fail(Error::from_errno("rename " + source, errno));
    }
    if (failpoint("snapshot-remove-after-rename")) {
      return stopped_at("snapshot-remove-after-rename");
    }
    ATE_TRY(os::remove_tree(trash));
  }
  return {};
}

Result<SnapshotStore::Listing> list_files(const std::string& directory) {
  ATE_ASSIGN(const std::vector<std::string> names, os::list_dir(directory));
  std::set<std::string> complete;
  std::set<std::string> partial;
  for (const std::string& name : names) {
    if (name.starts_with(kTrash)) {
      partial.insert(name.substr(kTrash.size()));
    } else if (name.ends_with(kPartial)) {
      partial.insert(name.substr(0, name.size() - kPartial.size()));
    } else {
      complete.insert(name);
    }
  }
  SnapshotStore::Listing listing;
  // Other names are not ours: left alone, never reported.
  std::copy_if(complete.begin(), complete.end(), std::back_inserter(listing.complete),
               is_snapshot_id);
  std::copy_if(partial.begin(), partial.end(), std::back_inserter(listing.partial), is_snapshot_id);
  return listing;
}

}  // namespace

/// Used on the loop only; blocking steps get copies of what they need.
struct SnapshotStore::State {
  State(async::Context& c, Options o) : context(c), options(std::move(o)) {}

  [[nodiscard]] std::string path(const std::string& id) const {
    return options.directory + "/" + id;
  }

  async::Context& context;
  Options options;
  std::unordered_map<std::string, std::string> trusted;  // id -> fingerprint
};

SnapshotStore::SnapshotStore(async::Context& context, Options options)
    : state_(std::make_shared<State>(context, std::move(options))) {}

SnapshotStore::~SnapshotStore() = default;

void remove_unfinished(const std::string& snapshots) {
  const Result<SnapshotStore::Listing> listing = list_files(snapshots);
  for (const std::string& id : listing ? listing->partial : std::vector<std::string>()) {
    for (const std::string& name : {id + std::string(kPartial), std::string(kTrash) + id}) {
      // IGNORED: the reconcile of the start says what would not go.
      static_cast<void>(os::remove_tree(snapshots + "/" + name));
    }
  }
}

Status SnapshotStore::prepare() {
  return os::make_dirs(state_->options.directory, 0700);
}

Status SnapshotStore::check_space(std::int64_t expected_bytes) const {
  const Options& options = state_->options;
  struct statvfs info{};
  if (::statvfs(options.directory.c_str(), &info) != 0) {
    return fail(Error::from_errno("statvfs " + options.directory, errno));
  }
  const auto free = static_cast<std::int64_t>(info.f_bavail * info.f_frsize);
  const std::int64_t needed = expected_bytes + options.reserve_bytes;
  // f_files is 0 where inodes are not limited.
  const bool no_inodes = info.f_files > 0 && info.f_favail < kMinFreeInodes;
  if (free >= needed && !no_inodes) {
    return {};
  }
  std::string text = no_inodes ? options.directory + ": the file system has no inodes left"
                               : options.directory + ": " + std::to_string(free) +
                                     " bytes are free; a snapshot of about " +
                                     std::to_string(expected_bytes) +
                                     " bytes would leave less than the " + "reserve of " +
                                     std::to_string(options.reserve_bytes);
  return fail(Error(Errc::DiskFull, std::move(text))
                  .with("neededBytes", needed)
                  .with("freeBytes", free)
                  .with("reserveBytes", options.reserve_bytes));
}

async::Task<Result<std::string>> SnapshotStore::begin(std::string id) {
  if (!is_snapshot_id(id)) {
    co_return bad_id(id);
  }
  std::function<Result<std::string>()> work = [id, path = state_->path(id)] {
    return begin_files(id, path);
  };
  co_return co_await async::run_blocking(state_->context, std::move(work));
}

async::Task<Result<SnapshotStore::Sealed>> SnapshotStore::seal(
    std::string id, std::shared_ptr<v1alpha1::SnapshotManifest> manifest) {
  if (!is_snapshot_id(id)) {
    co_return bad_id(id);
  }
  manifest->set_id(id);
  manifest->set_version(kManifestVersion);
  const std::shared_ptr<State> state = state_;
  std::function<Result<SealedFiles>()> work = [&context = state->context, path = state->path(id),
                                               manifest, drop = state->options.drop_page_cache] {
    return seal_files(context, path, *manifest, drop);
  };
  ATE_CO_ASSIGN(SealedFiles done, co_await async::run_blocking(state->context, std::move(work)));
  state->trusted[id] = std::move(done.fingerprint);
  co_return std::move(done.sealed);
}

async::Task<Status> SnapshotStore::remove(std::string id) {
  if (!is_snapshot_id(id)) {
    co_return bad_id(id);
  }
  state_->trusted.erase(id);
  std::function<Status()> work = [directory = state_->options.directory, id] {
    return remove_files(directory, id);
  };
  co_return co_await async::run_blocking(state_->context, std::move(work));
}

async::Task<Result<SnapshotStore::Opened>> SnapshotStore::open(std::string id,
                                                               std::string manifest_sha256) {
  if (!is_snapshot_id(id)) {
    co_return bad_id(id);
  }
  std::function<Result<OpenedFiles>()> work = [id, path = state_->path(id), manifest_sha256] {
    return open_files(id, path, manifest_sha256);
  };
  const std::shared_ptr<State> state = state_;
  ATE_CO_ASSIGN(OpenedFiles files, co_await async::run_blocking(state->context, std::move(work)));
  const auto known = state->trusted.find(id);
  Opened opened;
  opened.directory = state->path(id);
  opened.manifest = std::move(files.manifest);
  opened.trusted = known != state->trusted.end() && known->second == files.fingerprint;
  co_return opened;
}

async::Task<Status> SnapshotStore::verify_payload(Opened opened) {
  const std::shared_ptr<State> state = state_;
  auto verifier = std::make_shared<Verifier>(opened.directory, opened.manifest);
  const std::function<Result<bool>()> work = [verifier] { return verifier->step(); };
  for (;;) {
    ATE_CO_ASSIGN(const bool more, co_await async::run_blocking(state->context, work));
    if (!more) {
      break;
    }
  }
  state->trusted[opened.manifest->id()] = verifier->fingerprint();
  co_return Status{};
}

async::Task<Result<SnapshotStore::Listing>> SnapshotStore::list() {
  std::function<Result<Listing>()> work = [directory = state_->options.directory] {
    return list_files(directory);
  };
  co_return co_await async::run_blocking(state_->context, std::move(work));
}

}  // namespace ate::artifacts
