#include "daemon/storage.hpp"

#include <algorithm>
#include <utility>

#include "ate/core/units.hpp"
#include "ate/os/fs.hpp"
#include "ate/os/usage.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::daemon {

namespace {

using Part = api::Backend::StoragePart;

Part part_of(const std::string& name, const std::string& path, std::int64_t count) {
  const os::Usage usage = os::tree_usage(path);
  return {name, count, usage.logical_bytes, usage.allocated_bytes};
}

std::int64_t entries(const std::string& path) {
  const Result<std::vector<std::string>> names = os::list_dir(path);
  return names ? static_cast<std::int64_t>(names->size()) : 0;
}

/// What actors' directories hold beside their output, and their output.
void add_actors(const core::Paths& paths, std::vector<Part>& parts) {
  Part actors{.name = "actors"};
  Part logs{.name = "logs"};
  const Result<std::vector<std::string>> uids = os::list_dir(paths.actors());
  for (const std::string& uid : uids ? *uids : std::vector<std::string>{}) {
    const os::Usage whole = os::tree_usage(paths.actor(uid));
    const os::Usage output = os::tree_usage(paths.actor_logs(uid));
    ++actors.count;
    logs.count += entries(paths.actor_logs(uid));
    actors.logical_bytes += whole.logical_bytes - output.logical_bytes;
    actors.allocated_bytes += whole.allocated_bytes - output.allocated_bytes;
    logs.logical_bytes += output.logical_bytes;
    logs.allocated_bytes += output.allocated_bytes;
  }
  parts.push_back(actors);
  parts.push_back(logs);
}

std::vector<Part> measure(const core::Paths& paths) {
  std::vector<Part> parts;
  parts.push_back(part_of("images", paths.images(), entries(paths.images() + "/sha256")));
  parts.push_back(part_of("snapshots", paths.snapshots(), entries(paths.snapshots())));
  parts.push_back(part_of("assets", paths.assets(), entries(paths.assets() + "/sha256")));
  add_actors(paths, parts);
  Part store{.name = "store"};
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const os::Usage usage = os::tree_usage(paths.database() + suffix);
    store.logical_bytes += usage.logical_bytes;
    store.allocated_bytes += usage.allocated_bytes;
    store.count += os::exists(paths.database() + suffix) ? 1 : 0;
  }
  parts.push_back(store);
  return parts;
}

std::vector<api::Backend::StorageItem> shown(const std::vector<core::Doomed>& doomed) {
  std::vector<api::Backend::StorageItem> items;
  items.reserve(doomed.size());
  for (const core::Doomed& item : doomed) {
    items.push_back({item.kind, item.id, item.bytes, item.reason});
  }
  return items;
}

}  // namespace

/// What is named by anything, or why that can't be told.
struct Storage::Named {
  objects::Catalog::Pins pins;
  std::string blocked;
};

struct Storage::Survey {
  std::vector<core::Doomed> doomed;
  std::int64_t used = 0;
  std::string blocked;
};

Storage::Storage(async::Context& context, engine::Engine& engine, objects::Catalog& catalog,
                 image::Store& images, artifacts::AssetStore& assets,
                 artifacts::SnapshotStore& snapshots, const core::Paths& paths, const Clock& clock,
                 const Log& log, Options options)
    : context_(context),
      engine_(engine),
      catalog_(catalog),
      images_(images),
      assets_(assets),
      snapshots_(snapshots),
      paths_(paths),
      clock_(clock),
      log_(log),
      options_(options),
      collecting_(context) {}

std::int64_t Storage::now_ms() const {
  return clock_.wall().time_since_epoch().count();
}

/// Reads the manifests that were not read before. It takes time in which snapshots come and go:
/// over when there was nothing to read any more.
async::Task<std::set<std::string>> Storage::read_manifests() {
  std::set<std::string> unreadable;
  bool all_known = false;
  while (!all_known) {
    all_known = true;
    for (const auto& row : engine_.snapshots(std::nullopt)) {
      if (by_snapshot_.contains(row->id()) || unreadable.contains(row->id())) {
        continue;
      }
      all_known = false;
      Result<artifacts::SnapshotStore::Opened> opened =
          co_await snapshots_.open(row->id(), row->manifest_sha256());
      if (!opened) {
        unreadable.insert(row->id());
        continue;
      }
      objects::Catalog::Pins& pins = by_snapshot_[row->id()];
      for (const auto& [container, digest] : opened->manifest->images()) {
        pins.images.insert(digest);
      }
      for (const auto& [name, digest] : opened->manifest->assets()) {
        pins.assets.insert(digest);
      }
    }
  }
  co_return unreadable;
}

async::Task<Storage::Named> Storage::named() {
  const std::set<std::string> unreadable = co_await read_manifests();
  // From here on nothing is awaited: what is taken away is taken away against this very state.
  Named named;
  named.pins = catalog_.pins();
  if (!engine_.is_ready()) {
    named.blocked = "the daemon is still looking at what a former one left";
  } else if (!named.pins.complete) {
    named.blocked = "objects are being loaded";
  }
  std::map<std::string, objects::Catalog::Pins> known;
  for (const auto& row : engine_.snapshots(std::nullopt)) {
    if (unreadable.contains(row->id())) {
      named.blocked = "snapshot " + row->id() + " can't be read, so what it needs is not known";
      continue;
    }
    const objects::Catalog::Pins& pins = known[row->id()] = std::move(by_snapshot_[row->id()]);
    named.pins.images.insert(pins.images.begin(), pins.images.end());
    named.pins.assets.insert(pins.assets.begin(), pins.assets.end());
  }
  by_snapshot_ = std::move(known);
  for (const std::string& digest : engine_.in_use()) {
    named.pins.images.insert(digest);
    named.pins.assets.insert(digest);
  }
  co_return named;
}

std::vector<core::Doomed> Storage::expired() const {
  std::vector<core::LiveSnapshot> live;
  for (const auto& row : engine_.snapshots(std::nullopt)) {
    if (row->kind() != "live") {
      continue;
    }
    live.push_back({row->id(), row->actor().atespace(), row->template_().name(),
                    parse_rfc3339(row->created_at()).time_since_epoch().count(), row->bytes(),
                    row->metadata().tags_size() > 0, row->used_by_size() > 0});
  }
  const core::KeepOf keep_of = [this](const std::string& atespace, const std::string& name) {
    core::SnapshotKeep keep;
    const auto source = catalog_.find_template(atespace, name, 0);
    if (source == nullptr) {
      return keep;  // deleted: nobody says any more how many; they stay
    }
    const v1alpha1::SnapshotPolicy& policy = source->spec().snapshots();
    if (policy.has_keep_last()) {
      keep.last = policy.keep_last();
    }
    if (const auto age = core::parse_duration(policy.keep_for()); age) {
      keep.age = *age;
    }
    return keep;
  };
  return core::expired_snapshots(std::move(live), keep_of, now_ms());
}

async::Task<Result<Storage::Survey>> Storage::survey() {
  Survey survey;
  std::vector<core::Stored> images;
  std::vector<core::Stored> assets;
  ATE_CO_ASSIGN(const std::vector<image::Store::Listed> listed, co_await images_.list());
  for (const image::Store::Listed& item : listed) {
    images.push_back({"image", item.digest, item.bytes, item.made_ms});
    survey.used += item.bytes;
  }
  ATE_CO_ASSIGN(const std::vector<artifacts::AssetStore::Listed> binaries, assets_.list());
  for (const artifacts::AssetStore::Listed& item : binaries) {
    assets.push_back({"asset", item.digest, item.bytes, item.made_ms});
    survey.used += item.bytes;
  }
  for (const auto& row : engine_.snapshots(std::nullopt)) {
    survey.used += row->bytes();
  }
  const Named named = co_await this->named();
  survey.blocked = named.blocked;
  survey.doomed = expired();
  if (named.blocked.empty()) {
    for (auto& found : {core::unnamed(images, named.pins.images, now_ms()),
                        core::unnamed(assets, named.pins.assets, now_ms())}) {
      survey.doomed.insert(survey.doomed.end(), found.begin(), found.end());
    }
  }
  co_return survey;
}

async::Task<Result<api::Backend::StorageReport>> Storage::report() {
  const async::Mutex::Lock lock = co_await collecting_.lock();
  ATE_CO_ASSIGN(const Survey found, co_await survey());
  api::Backend::StorageReport report;
  std::function<std::vector<Part>()> work = [paths = paths_]() { return measure(paths); };
  report.parts = co_await async::run_blocking(context_, std::move(work));
  ATE_CO_ASSIGN(report.free_bytes, os::free_bytes(paths_.state_dir()));
  report.reserve_bytes = options_.reserve_bytes;
  report.budget_bytes = options_.budget_bytes;
  report.used_bytes = found.used;
  report.collectable = shown(found.doomed);
  report.blocked = found.blocked;
  co_return report;
}

async::Task<Status> Storage::remove(core::Doomed item) {
  // Looked at again at the last moment, without a suspension until it is out of the way.
  if (item.kind == "snapshot") {
    const std::vector<core::Doomed> still = expired();
    if (std::ranges::none_of(still, [&item](const auto& each) { return each.id == item.id; })) {
      co_return fail(Errc::InUse, "it is kept by now");
    }
    Status gone = co_await engine_.remove_snapshot(item.id, engine::Caller{"retention", 0});
    co_return gone;
  }
  const Named still = co_await named();
  const bool image = item.kind == "image";
  const bool is_named =
      image ? still.pins.images.contains(item.id) : still.pins.assets.contains(item.id);
  if (!still.blocked.empty() || is_named) {
    co_return fail(Errc::InUse, "it is named again");
  }
  if (!image) {
    co_return assets_.remove(item.id);
  }
  Status gone = co_await images_.remove(item.id);
  co_return gone;
}

async::Task<Result<api::Backend::Collected>> Storage::collect(bool dry_run) {
  const async::Mutex::Lock lock = co_await collecting_.lock();
  ATE_CO_ASSIGN(const Survey found, co_await survey());
  api::Backend::Collected collected;
  collected.blocked = found.blocked;
  std::vector<core::Doomed> gone;
  for (const core::Doomed& item : found.doomed) {
    if (!dry_run) {
      const Status removed = co_await remove(item);
      if (!removed) {
        log_.warning("not collected",
                     {{"kind", item.kind}, {"id", item.id}, {"why", removed.error().message()}});
        continue;
      }
      log_.info("collected", {{"kind", item.kind}, {"id", item.id}, {"why", item.reason}});
    }
    collected.bytes += item.bytes;
    gone.push_back(item);
  }
  collected.items = shown(gone);
  co_return collected;
}

async::Task<bool> Storage::worth_a_turn() {
  if (options_.budget_bytes > 0) {
    co_return true;
  }
  for (const auto& source : catalog_.templates("")) {
    const v1alpha1::SnapshotPolicy& policy = source->spec().snapshots();
    if (policy.has_keep_last() || !policy.keep_for().empty()) {
      co_return true;
    }
  }
  const Result<std::vector<image::Store::Listed>> images = co_await images_.list();
  const Result<std::vector<artifacts::AssetStore::Listed>> assets = assets_.list();
  const objects::Catalog::Pins pins = catalog_.pins();
  const bool image = images && std::ranges::any_of(*images, [&pins](const auto& item) {
                       return !pins.images.contains(item.digest);
                     });
  co_return image || (assets && std::ranges::any_of(*assets, [&pins](const auto& item) {
                        return !pins.assets.contains(item.digest);
                      }));
}

async::Task<void> Storage::turn() {
  const async::Mutex::Lock lock = co_await collecting_.lock();
  const Result<Survey> found = co_await survey();
  if (!found) {
    log_.warning("what is on disk can't be looked at", {{"error", found.error().message()}});
    co_return;
  }
  const bool over = options_.budget_bytes > 0 && found->used > options_.budget_bytes;
  const SteadyTime now = clock_.steady();
  std::map<std::string, SteadyTime> since;
  std::int64_t left = found->used;
  for (const core::Doomed& item : found->doomed) {
    const auto known = unnamed_since_.find(item.id);
    const SteadyTime first = known == unnamed_since_.end() ? now : known->second;
    since[item.id] = first;
    if (item.kind != "snapshot" && !over && now - first < options_.unreferenced_for) {
      continue;
    }
    const Status removed = co_await remove(item);
    if (removed) {
      left -= item.bytes;
      log_.info("collected", {{"kind", item.kind}, {"id", item.id}, {"why", item.reason}});
    }
  }
  unnamed_since_ = std::move(since);
  const bool still = options_.budget_bytes > 0 && left > options_.budget_bytes;
  if (still && !told_over_budget_) {
    log_.warning(
        "images, snapshots and assets take more than storageBudget, and all that is left "
        "is named by something: nothing of that is taken away",
        {{"usedBytes", std::to_string(left)},
         {"budgetBytes", std::to_string(options_.budget_bytes)}});
  }
  told_over_budget_ = still;
}

async::Task<void> Storage::run() {
  while (true) {
    co_await async::sleep_for(options_.period);
    const bool worth_it = co_await worth_a_turn();
    if (worth_it) {
      co_await turn();
    }
  }
}

}  // namespace ate::daemon
