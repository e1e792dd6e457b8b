#include "runtime/gvisor/leftovers.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "ate/net/egress.hpp"
#include "ate/os/fs.hpp"
#include "ate/util/ids.hpp"
#include "runtime/gvisor/processes.hpp"

namespace ate::runtime::gvisor {
namespace {

constexpr const char* kTrialUid = "selftest";

std::vector<std::string> names_in(const std::string& directory) {
  Result<std::vector<std::string>> names = os::list_dir(directory);
  return names ? std::move(*names) : std::vector<std::string>{};
}

std::optional<std::int64_t> serial_of(const std::string& name) {
  std::int64_t serial = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data(), end, serial);
  if (parsed.ec != std::errc{} || parsed.ptr != end || serial < 0 ||
      name != std::to_string(serial)) {
    return std::nullopt;
  }
  return serial;
}

bool is_uid(const std::string& name) {
  return is_ulid(name) || name == kTrialUid;
}

/// "<uid>/<serial>", checked again when it comes back in purge().
std::optional<GuestKey> parse_key(const std::string& id) {
  const std::size_t slash = id.find('/');
  if (slash == std::string::npos || !is_uid(id.substr(0, slash))) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> serial = serial_of(id.substr(slash + 1));
  return serial ? std::optional<GuestKey>({id.substr(0, slash), *serial}) : std::nullopt;
}

/// "<pool>-<ordinal>"; "helpers" is none.
bool is_worker(const std::string& name) {
  const std::size_t dash = name.rfind('-');
  return dash != std::string::npos && dash > 0 && serial_of(name.substr(dash + 1)).has_value();
}

class Finder {
 public:
  Finder(const Services& services, const Held& held) : services_(services), held_(held) {}

  Result<std::vector<Leftover>> find() {
    for (const std::string& uid : names_in(services_.paths.run_actors())) {
      if (is_uid(uid)) {
        run_directories(uid);
      }
    }
    if (!services_.options.cgroup_root.empty()) {
      for (const std::string& worker : names_in(services_.options.cgroup_root)) {
        leaves(worker);
      }
    }
    ATE_TRY(networks());
    for (const std::string& uid : names_in(services_.paths.actors())) {
      if (is_uid(uid)) {
        overlays(uid);
      }
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool ours(const std::string& uid, std::int64_t serial) const {
    return held_.guests.contains({uid, serial});
  }

  void run_directories(const std::string& uid) {
    const std::vector<std::string> names = names_in(services_.paths.run_actor(uid));
    if (names.empty()) {
      // Killed after the last incarnation's directory went, or before the first one came.
      found_.push_back({.kind = "rundir", .id = uid + "/0", .uid = uid, .serial = 0});
    }
    for (const std::string& name : names) {
      const std::optional<std::int64_t> serial = serial_of(name);
      if (!serial) {
        continue;
      }
      const Layout layout = make_layout(services_.paths, uid, *serial);
      const Record record = read_record(layout.record);
      if (ours(uid, *serial)) {
        own_leaves_.insert(record.cgroup);
        continue;
      }
      netns_of_[record.netns_id] = {uid, *serial};
      leaf_of_[record.cgroup] = {uid, *serial};
      const Leaf leaf = Leaf::open(record.cgroup);
      const bool live =
          leaf.exists() ? leaf.populated() : !processes_by_root(layout.directory).empty();
      found_.push_back(
          {.kind = "rundir", .id = uid + "/" + name, .uid = uid, .serial = *serial, .live = live});
    }
  }

  void leaves(const std::string& worker) {
    const std::string directory = services_.options.cgroup_root + "/" + worker;
    bool empty = true;
    for (const std::string& name : names_in(directory)) {
      const std::optional<std::int64_t> serial = serial_of(name);
      const std::string path = directory + "/" + name;
      empty = empty && !serial;
      if (!serial || own_leaves_.contains(path)) {
        continue;  // control files, foreign groups, ours
      }
      const Leaf leaf = Leaf::open(path);
      if (leaf.exists()) {
        const GuestKey owner = leaf_of_[path];
        found_.push_back({.kind = "cgroup",
                          .id = worker + "/" + name,
                          .uid = owner.first,
                          .serial = *serial,
                          .live = leaf.populated()});
      }
    }
    if (empty && is_worker(worker) && !services_.options.enforcement) {
      // Killed after the leaf went, or before it came. (Enforced budgets keep their directories.)
      found_.push_back({.kind = "cgroup", .id = worker + "/0", .uid = "", .serial = 0});
    }
  }

  Status networks() {
    ATE_ASSIGN(const std::vector<std::string> ids, services_.netns.list());
    for (const std::string& id : ids) {
      if (!held_.networks.contains(id)) {
        const GuestKey owner = netns_of_[id];
        found_.push_back(
            {.kind = "netns", .id = id, .uid = owner.first, .serial = owner.second, .live = false});
      }
    }
    return uplinks();
  }

  Status uplinks() {
    if (services_.options.egress == nullptr) {
      return {};
    }
    ATE_ASSIGN(const std::vector<std::string> ids, services_.options.egress->leftovers());
    for (const std::string& id : ids) {
      if (!held_.networks.contains(id)) {
        const GuestKey owner = netns_of_[id];
        found_.push_back({.kind = "uplink",
                          .id = id,
                          .uid = owner.first,
                          .serial = owner.second,
                          .live = false});
      }
    }
    return {};
  }

  void overlays(const std::string& uid) {
    const std::string directory = os::parent_dir(services_.paths.actor_overlay(uid, 0));
    for (const std::string& name : names_in(directory)) {
      const std::optional<std::int64_t> serial = serial_of(name);
      if (serial && !ours(uid, *serial)) {
        found_.push_back({.kind = "overlay",
                          .id = uid + "/" + name,
                          .uid = uid,
                          .serial = *serial,
                          .live = false});
      }
    }
  }

  const Services& services_;
  const Held& held_;
  std::set<std::string> own_leaves_;
  std::map<std::string, GuestKey> netns_of_;
  std::map<std::string, GuestKey> leaf_of_;
  std::vector<Leftover> found_;
};

async::Task<Result<bool>> until_empty(std::shared_ptr<Leaf> leaf) {
  const Status empty = co_await leaf->wait_empty();
  ATE_CO_TRY(empty);
  co_return true;
}

async::Task<Result<bool>> until_gone(std::string directory) {
  const Status gone = co_await wait_by_root(std::move(directory));
  ATE_CO_TRY(gone);
  co_return true;
}

async::Task<Status> purge_leaf(Services& services, std::string directory) {
  auto leaf = std::make_shared<Leaf>(Leaf::open(directory));
  ATE_CO_TRY(leaf->kill());
  const Result<bool> empty = co_await async::with_deadline(
      services.options.deadlines.reap, "waiting for cgroup " + directory, until_empty(leaf));
  ATE_CO_TRY(empty);
  ATE_CO_TRY(leaf->remove());
  if (!services.options.enforcement) {
    // IGNORED: an incarnation may be in it by now.
    static_cast<void>(::rmdir(os::parent_dir(directory).c_str()));
  }
  co_return Status{};
}

async::Task<Status> purge_run_directory(Services& services, GuestKey key) {
  const Layout layout = make_layout(services.paths, key.first, key.second);
  const Record record = read_record(layout.record);
  const std::string& root = services.options.cgroup_root;
  if (!root.empty() && record.cgroup.starts_with(root + "/")) {
    const Status purged = co_await purge_leaf(services, record.cgroup);
    ATE_CO_TRY(purged);
  }
  ATE_CO_TRY(kill_by_root(layout.directory));
  const Result<bool> gone = co_await async::with_deadline(services.options.deadlines.reap,
                                                          "waiting for " + layout.directory,
                                                          until_gone(layout.directory));
  ATE_CO_TRY(gone);
  auto job = [layout]() -> Status {
    ATE_TRY(os::remove_tree(layout.directory));
    // IGNORED: another incarnation may be in it.
    static_cast<void>(::rmdir(os::parent_dir(layout.directory).c_str()));
    return {};
  };
  co_return co_await async::run_blocking(services.context, job);
}

async::Task<Status> purge_overlay(Services& services, GuestKey key) {
  const std::string overlay = services.paths.actor_overlay(key.first, key.second);
  auto job = [overlay]() -> Status {
    ATE_TRY(os::remove_tree(overlay));
    static_cast<void>(::rmdir(os::parent_dir(overlay).c_str()));  // IGNORED: as above
    return {};
  };
  co_return co_await async::run_blocking(services.context, job);
}

}  // namespace

Result<std::vector<Leftover>> find_leftovers(const Services& services, const Held& held) {
  return Finder(services, held).find();
}

async::Task<Status> purge_leftover(Services& services, Leftover leftover) {
  if (leftover.kind == "netns") {
    co_return co_await services.netns.purge(leftover.id);
  }
  if (leftover.kind == "uplink" && services.options.egress != nullptr) {
    co_return co_await services.options.egress->purge(leftover.id);
  }
  if (leftover.kind == "cgroup") {
    const std::size_t slash = leftover.id.find('/');
    const bool known = slash != std::string::npos && slash > 0 && leftover.id[0] != '.' &&
                       serial_of(leftover.id.substr(slash + 1)).has_value();
    if (known && !services.options.cgroup_root.empty()) {
      std::string path = services.options.cgroup_root + "/" + leftover.id;
      co_return co_await purge_leaf(services, std::move(path));
    }
    co_return fail(Errc::Internal, "no cgroup of ours: " + leftover.id);
  }
  const std::optional<GuestKey> key = parse_key(leftover.id);
  if (!key) {
    co_return fail(Errc::Internal, "no leftover of ours: " + leftover.kind + " " + leftover.id);
  }
  if (leftover.kind == "rundir") {
    co_return co_await purge_run_directory(services, *key);
  }
  if (leftover.kind == "overlay") {
    co_return co_await purge_overlay(services, *key);
  }
  co_return fail(Errc::Internal, "unknown kind of leftover: " + leftover.kind);
}

}  // namespace ate::runtime::gvisor
