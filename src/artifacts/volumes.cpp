#include "ate/artifacts/volumes.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "artifacts/listing.hpp"
#include "artifacts/manifest.hpp"
#include "artifacts/volume_quota.hpp"
#include "ate/artifacts/leftovers.hpp"
#include "ate/os/fs.hpp"
#include "ate/os/tree.hpp"
#include "ate/util/failpoint.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::artifacts {

namespace {

constexpr mode_t kPrivate = 0700;
// The actor's processes pass through, whoever they are; its parents are ours alone.
constexpr mode_t kVolumeMode = 0755;
constexpr const char* kLive = "volumes";
constexpr const char* kNext = "volumes.new";  // the next ones in the making, then the last ones
constexpr const char* kMaking = ".new-";
constexpr const char* kLinks = ".links";
constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

/// A blocking step's own copy of what it needs.
struct Place {
  std::string actors;
  bool clones = false;
  std::shared_ptr<VolumeQuota> quota;

  [[nodiscard]] std::string of(const std::string& uid) const { return actors + "/" + uid; }
};

std::unexpected<Error> stopped_at(const char* name) {
  return fail(Errc::Internal, std::string("failpoint ") + name);
}

Result<UniqueFd> open_volume(const std::string& directory, const std::string& name) {
  ATE_ASSIGN(const UniqueFd parent, os::open_dir(directory));
  Result<UniqueFd> volume = os::open_beneath(parent, name, kDirectory, 0);
  if (!volume) {
    return fail(std::move(volume).error().context("volume " + name));
  }
  return volume;
}

/// Of an empty volume. Where it fails, limiting it tries again and tells why.
void adopt(const Place& place, const UniqueFd& volume) {
  if (place.quota->offered()) {
    static_cast<void>(place.quota->adopt(volume));  // IGNORED: as above
  }
}

/// Volumes in `directory` that are not wanted any more, with it.
Status drop_volumes(const Place& place, const std::string& directory) {
  if (place.quota->offered() && os::exists(directory)) {
    ATE_ASSIGN(const std::vector<std::string> names, os::list_dir(directory));
    for (const std::string& name : names) {
      const Result<UniqueFd> volume = open_volume(directory, name);
      if (volume) {
        place.quota->give_up(*volume);
      }
    }
  }
  return os::remove_tree(directory);
}

/// Gives a volume that is there its size.
Status limit_volume(const Place& place, const std::string& directory, Volume& volume) {
  volume.why_not = place.quota->why_not();
  if (place.quota->offered()) {
    ATE_ASSIGN(const UniqueFd opened, open_volume(directory, volume.name));
    const Status limited = place.quota->limit(opened, volume.size_bytes);
    volume.why_not = limited ? std::string() : limited.error().message();
  }
  volume.enforced = volume.why_not.empty();
  return {};
}

/// A new volume gets its name when it is as it should be.
Status make_volume(const Place& place, const std::string& parent, const VolumePlan& plan) {
  const std::string path = parent + "/" + plan.name;
  if (os::exists(path)) {
    return {};
  }
  const std::string making = parent + "/" + kMaking + plan.name;
  ATE_TRY(os::remove_tree(making));
  ATE_TRY(os::make_dir(making, kVolumeMode));
  if (::lchown(making.c_str(), plan.uid, plan.gid) != 0) {
    return fail(Error::from_errno("chown " + making, errno));
  }
  ATE_ASSIGN(const UniqueFd made, os::open_dir(making));
  adopt(place, made);
  return os::rename_durably(making, path);
}

Result<std::vector<Volume>> make_volumes(const Place& place, const std::string& uid,
                                         const std::vector<VolumePlan>& plans) {
  const std::string directory = place.of(uid) + "/" + kLive;
  ATE_TRY(os::make_dirs(directory, kPrivate));
  ATE_TRY(drop_volumes(place, place.of(uid) + "/" + kNext));  // of a restore that was cut off
  std::vector<Volume> volumes;
  for (const VolumePlan& plan : plans) {
    Volume volume{.name = plan.name,
                  .path = directory + "/" + plan.name,
                  .size_bytes = plan.size_bytes,
                  .enforced = false,
                  .why_not = {}};
    Status made = make_volume(place, directory, plan);
    if (made) {
      made = limit_volume(place, directory, volume);
    }
    if (!made) {
      return fail(std::move(made).error().context("volume " + plan.name));
    }
    volumes.push_back(std::move(volume));
  }
  ATE_TRY(os::fsync_path(place.of(uid)));
  if (failpoint("volumes-made")) {
    return stopped_at("volumes-made");
  }
  return volumes;
}

/// Copies the volumes named in `names` from one directory to another, and tells what they are.
/// `live`: the copies are to be limited like volumes; not while they are made, since a copy may
/// take a little more than what it is of.
Result<std::vector<v1alpha1::SnapshotVolume>> copy_volumes(
    const Place& place, const std::string& from, const std::string& to,
    const std::vector<std::string>& names, bool live, const VolumeStore::Cancelled& cancelled) {
  ATE_TRY(os::make_dir(to, kPrivate));
  const std::string links = to + "/" + kLinks;
  ATE_TRY(os::make_dir(links, kPrivate));
  ATE_ASSIGN(UniqueFd links_fd, os::open_dir(links));
  std::vector<v1alpha1::SnapshotVolume> copies;
  for (const std::string& name : names) {
    ATE_ASSIGN(const UniqueFd source, open_volume(from, name));
    ATE_TRY(os::make_dir(to + "/" + name, kPrivate));
    ATE_ASSIGN(const UniqueFd target, open_volume(to, name));
    if (live) {
      adopt(place, target);
    }
    Listing listing;
    os::CopyOptions options;
    options.observer = &listing;
    options.cancelled = cancelled;
    options.links_dir = links_fd.get();
    options.try_clone = place.clones;
    Result<os::CopyStats> stats = os::copy_tree(source, target, options);
    if (!stats) {
      return fail(std::move(stats).error().context("volume " + name));
    }
    v1alpha1::SnapshotVolume copy;
    copy.set_name(name);
    copy.set_bytes(stats->bytes);
    copy.set_entries(stats->entries);
    copy.set_listing(listing.finish());
    copies.push_back(std::move(copy));
  }
  links_fd.reset();
  ATE_TRY(os::remove_tree(links));
  return copies;
}

Result<std::vector<v1alpha1::SnapshotVolume>> save_volumes(
    const Place& place, const std::string& uid, const std::vector<std::string>& names,
    const std::string& directory, const VolumeStore::Cancelled& cancelled) {
  ATE_ASSIGN(std::vector<v1alpha1::SnapshotVolume> copies,
             copy_volumes(place, place.of(uid) + "/" + kLive, directory + "/" + kVolumesName, names,
                          false, cancelled));
  if (failpoint("volumes-saved")) {
    return stopped_at("volumes-saved");
  }
  return copies;
}

std::unexpected<Error> not_as_saved(const std::string& id, const std::string& name) {
  return corrupt(id, "its copy of volume " + name + " is not what was saved");
}

Status check_copies(const v1alpha1::SnapshotManifest& manifest,
                    const std::vector<v1alpha1::SnapshotVolume>& copies) {
  for (int i = 0; i < manifest.volumes_size(); ++i) {
    const v1alpha1::SnapshotVolume& saved = manifest.volumes(i);
    const v1alpha1::SnapshotVolume& copy = copies[static_cast<std::size_t>(i)];
    if (copy.listing() != saved.listing() || copy.entries() != saved.entries()) {
      return not_as_saved(manifest.id(), saved.name());
    }
  }
  return {};
}

/// Puts `volumes.new` in the place of `volumes`; what was there is `volumes.new` then, and goes.
Status swap_in(const Place& place, const std::string& actor) {
  const std::string live = actor + "/" + kLive;
  const std::string next = actor + "/" + kNext;
  ATE_TRY(os::make_dir(live, kPrivate));
  if (::renameat2(AT_FDCWD, next.c_str(), AT_FDCWD, live.c_str(), RENAME_EXCHANGE) != 0) {
    return fail(Error::from_errno("exchange " + live, errno));
  }
  ATE_TRY(os::fsync_path(actor));
  if (failpoint("volumes-swapped")) {
    return stopped_at("volumes-swapped");
  }
  return drop_volumes(place, next);
}

Status restore_volumes(const Place& place, const std::string& uid,
                       const SnapshotStore::Opened& snapshot,
                       const VolumeStore::Cancelled& cancelled) {
  const v1alpha1::SnapshotManifest& manifest = *snapshot.manifest;
  const std::string actor = place.of(uid);
  ATE_TRY(os::make_dirs(actor, kPrivate));
  const std::string next = actor + "/" + kNext;
  ATE_TRY(drop_volumes(place, next));
  ATE_TRY(os::make_dir(next, kPrivate));
  std::int64_t entries = 0;
  if (manifest.volumes_size() > 0) {
    std::vector<std::string> names;
    for (const v1alpha1::SnapshotVolume& volume : manifest.volumes()) {
      names.push_back(volume.name());
      entries += volume.entries() + 1;
    }
    Result<std::vector<v1alpha1::SnapshotVolume>> copies =
        copy_volumes(place, snapshot.directory + "/" + kVolumesName, next, names, true, cancelled);
    if (!copies) {
      return fail(std::move(copies).error().context("snapshot " + manifest.id()));
    }
    ATE_TRY(check_copies(manifest, *copies));
  }
  ATE_ASSIGN(const UniqueFd copied, os::open_dir(next));
  ATE_TRY(os::sync_tree(copied, entries));
  if (failpoint("volumes-restored")) {
    return stopped_at("volumes-restored");
  }
  return swap_in(place, actor);
}

Status reset_volumes(const Place& place, const std::string& uid) {
  const std::string actor = place.of(uid);
  if (!os::exists(actor + "/" + kLive)) {
    return drop_volumes(place, actor + "/" + kNext);
  }
  ATE_TRY(drop_volumes(place, actor + "/" + kNext));
  ATE_TRY(os::make_dir(actor + "/" + kNext, kPrivate));
  return swap_in(place, actor);
}

Status verify_volumes(const SnapshotStore::Opened& snapshot) {
  const std::string directory = snapshot.directory + "/" + kVolumesName;
  for (const v1alpha1::SnapshotVolume& saved : snapshot.manifest->volumes()) {
    const Result<UniqueFd> copy = open_volume(directory, saved.name());
    if (!copy) {
      return corrupt(snapshot.manifest->id(), copy.error().message());
    }
    Listing listing;
    ATE_TRY(os::walk_tree(*copy, listing));
    if (listing.finish() != saved.listing() || listing.entries() != saved.entries()) {
      return not_as_saved(snapshot.manifest->id(), saved.name());
    }
  }
  return {};
}

Result<std::int64_t> measure_volumes(const Place& place, const std::string& uid,
                                     const std::vector<std::string>& names) {
  std::int64_t bytes = 0;
  for (const std::string& name : names) {
    ATE_ASSIGN(const UniqueFd volume, open_volume(place.of(uid) + "/" + kLive, name));
    ATE_ASSIGN(const os::TreeSize size, os::measure_tree(volume));
    // Each entry costs an inode beside its blocks.
    constexpr std::int64_t kInode = 256;
    bytes += (place.clones ? 0 : size.bytes) + size.entries * kInode;
  }
  return bytes;
}

}  // namespace

void remove_unfinished_volumes(const std::string& actors) {
  const Result<std::vector<std::string>> uids = os::list_dir(actors);
  for (const std::string& uid : uids.value_or(std::vector<std::string>())) {
    // IGNORED: the actor's next start says what would not go.
    static_cast<void>(os::remove_tree(actors + "/" + uid + "/" + kNext));
  }
}

struct VolumeStore::State {
  State(async::Context& c, Options o) : context(c), snapshots(std::move(o.snapshots)) {
    place.actors = std::move(o.actors);
    place.quota = std::make_shared<VolumeQuota>(
        o.projects == nullptr ? std::make_shared<os::ProjectQuota>() : std::move(o.projects));
  }

  async::Context& context;
  std::string snapshots;
  Place place;
};

VolumeStore::VolumeStore(async::Context& context, Options options)
    : state_(std::make_shared<State>(context, std::move(options))) {}

Status VolumeStore::prepare() {
  ATE_TRY(os::make_dirs(state_->place.actors, kPrivate));
  ATE_ASSIGN(const UniqueFd directory, os::open_dir(state_->snapshots));
  // A disk that is too full to tell must not keep the daemon from starting.
  state_->place.clones = os::can_clone(directory).value_or(false);
  ATE_ASSIGN(const UniqueFd actors, os::open_dir(state_->place.actors));
  state_->place.quota->prepare(actors);
  return {};
}

std::string VolumeStore::why_not_enforced() const {
  return state_->place.quota->why_not();
}

async::Task<Result<std::vector<Volume>>> VolumeStore::make(std::string uid,
                                                           std::vector<VolumePlan> plans) {
  std::function<Result<std::vector<Volume>>()> work = [place = state_->place, uid, plans] {
    return make_volumes(place, uid, plans);
  };
  co_return co_await async::run_blocking(state_->context, std::move(work));
}

async::Task<Result<std::int64_t>> VolumeStore::foresee(std::string uid,
                                                       std::vector<std::string> names) {
  std::function<Result<std::int64_t>()> work = [place = state_->place, uid, names] {
    return measure_volumes(place, uid, names);
  };
  co_return co_await async::run_blocking(state_->context, std::move(work));
}

async::Task<Status> VolumeStore::save(std::string uid, std::vector<std::string> names,
                                      std::string directory,
                                      std::shared_ptr<v1alpha1::SnapshotManifest> manifest,
                                      Cancelled cancelled) {
  using Copies = std::vector<v1alpha1::SnapshotVolume>;
  std::function<Result<Copies>()> work = [place = state_->place, uid, names, directory, cancelled] {
    return save_volumes(place, uid, names, directory, cancelled);
  };
  ATE_CO_ASSIGN(const Copies copies,
                co_await async::run_blocking(state_->context, std::move(work)));
  manifest->clear_volumes();
  for (const v1alpha1::SnapshotVolume& copy : copies) {
    *manifest->add_volumes() = copy;
  }
  co_return Status();
}

async::Task<Status> VolumeStore::restore(std::string uid, SnapshotStore::Opened snapshot,
                                         Cancelled cancelled) {
  std::function<Status()> work = [place = state_->place, uid, snapshot, cancelled] {
    return restore_volumes(place, uid, snapshot, cancelled);
  };
  co_return co_await async::run_blocking(state_->context, std::move(work));
}

async::Task<Status> VolumeStore::reset(std::string uid) {
  std::function<Status()> work = [place = state_->place, uid] { return reset_volumes(place, uid); };
  co_return co_await async::run_blocking(state_->context, std::move(work));
}

async::Task<Status> VolumeStore::remove(std::string uid, bool all) {
  std::function<Status()> work = [place = state_->place, uid, all]() -> Status {
    ATE_TRY(drop_volumes(place, place.of(uid) + "/" + kNext));
    return all ? drop_volumes(place, place.of(uid) + "/" + kLive) : Status{};
  };
  co_return co_await async::run_blocking(state_->context, std::move(work));
}

async::Task<Status> VolumeStore::verify(SnapshotStore::Opened snapshot) {
  std::function<Status()> work = [snapshot] { return verify_volumes(snapshot); };
  co_return co_await async::run_blocking(state_->context, std::move(work));
}

std::int64_t VolumeStore::restore_bytes(const v1alpha1::SnapshotManifest& manifest) const {
  std::int64_t bytes = 0;
  for (const v1alpha1::SnapshotVolume& volume : manifest.volumes()) {
    bytes += state_->place.clones ? 0 : volume.bytes();
  }
  return bytes;
}

}  // namespace ate::artifacts
