#include "daemon/worker_groups.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "ate/os/cgroup.hpp"
#include "ate/os/fs.hpp"
#include "ate/os/mount.hpp"

namespace ate::daemon {

namespace {

constexpr std::size_t kCgroupFileLimit = 64UL * 1024;

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

/// The kernel rounds memory down to whole pages.
bool took(std::string_view wanted, std::string_view found) {
  if (wanted == found) {
    return true;
  }
  std::int64_t asked = 0;
  std::int64_t got = 0;
  const auto number = [](std::string_view text, std::int64_t& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size();
  };
  return number(wanted, asked) && number(found, got) && got <= asked &&
         asked - got < ::sysconf(_SC_PAGESIZE);
}

Status write_and_read_back(const os::Cgroup& group, const core::CgroupWrite& write) {
  Status written = group.write(write.file, write.value);
  if (!written) {
    return write.optional ? Status() : written;
  }
  ATE_ASSIGN(const std::string text, group.read(write.file));
  if (!took(write.value, first_line(text))) {
    return fail(Errc::Unavailable, group.path() + "/" + write.file + " was given " + write.value +
                                       " but says " + std::string(first_line(text)));
  }
  return {};
}

}  // namespace

Result<FoundPlaces::Places> FoundPlaces::get(const std::function<Result<Places>()>& look) const {
  const std::scoped_lock lock(mutex_);
  if (places_.empty()) {
    ATE_ASSIGN(places_, look());
  }
  return places_;
}

void FoundPlaces::forget() const {
  const std::scoped_lock lock(mutex_);
  places_.clear();
}

Result<os::CgroupPlace> CgroupWorkers::place() const {
  ATE_ASSIGN(const FoundPlaces::Places places, found_.get([this]() -> Result<FoundPlaces::Places> {
    ATE_ASSIGN(const std::vector<os::MountEntry> mounts, os::list_mounts("/proc", "/"));
    ATE_ASSIGN(const os::CgroupPlace at, os::locate_cgroup(root_, mounts));
    return FoundPlaces::Places{at};
  }));
  return places.front();
}

Result<core::LimitFiles> CgroupWorkers::read(const std::string& worker) const {
  ATE_ASSIGN(os::CgroupPlace at, place());
  const std::string root = at.relative;
  if (!worker.empty()) {
    at.relative += (root.empty() ? "" : "/") + worker;
  }
  Result<os::CgroupLimitFiles> limits = os::read_cgroup_limits(at);
  if (!limits && limits.error().code() == Errc::NotFound && !worker.empty()) {
    at.relative = root;  // not made yet
    limits = os::read_cgroup_limits(at);
  }
  if (!limits) {
    found_.forget();
    return fail(std::move(limits).error());
  }
  return std::move(limits->files);
}

Status CgroupWorkers::apply(const std::string& worker, const core::CgroupLimits& limits) const {
  ATE_ASSIGN(const os::Cgroup root, os::Cgroup::open(root_));
  // Again each time: systemd switches off, also in the slice that holds our tree, what none of its
  // own units needs.
  ATE_TRY(root.enable(core::cgroup_controllers()));
  ATE_ASSIGN(const os::Cgroup group, root.make_child(worker, {}));
  for (const core::CgroupWrite& write : core::cgroup_writes(limits)) {
    ATE_TRY(write_and_read_back(group, write));
  }
  return group.enable(core::cgroup_controllers());
}

Status CgroupWorkers::remove(const std::string& worker) const {
  Result<os::Cgroup> group = os::Cgroup::open(root_ + "/" + worker);
  if (!group) {
    return group.error().code() == Errc::NotFound ? Status() : fail(std::move(group).error());
  }
  return group->remove();
}

Result<core::LimitFiles> OwnLimits::read(const std::string& /*worker*/) const {
  ATE_ASSIGN(const FoundPlaces::Places places, found_.get([]() -> Result<FoundPlaces::Places> {
    ATE_ASSIGN(const std::string own, os::read_file("/proc/self/cgroup", kCgroupFileLimit));
    ATE_ASSIGN(const std::vector<os::MountEntry> mounts, os::list_mounts("/proc", "/"));
    return os::find_cgroup_places(own, mounts);
  }));
  core::LimitFiles files;
  for (const os::CgroupPlace& at : places) {
    Result<os::CgroupLimitFiles> limits = os::read_cgroup_limits(at);
    if (!limits) {
      found_.forget();
      return fail(std::move(limits).error());
    }
    files.insert(files.end(), std::make_move_iterator(limits->files.begin()),
                 std::make_move_iterator(limits->files.end()));
  }
  return files;
}

Status OwnLimits::apply(const std::string& worker, const core::CgroupLimits& /*limits*/) const {
  return fail(Errc::Internal, "nothing is enforced; worker " + worker + " has no limits to write");
}

Status OwnLimits::remove(const std::string& /*worker*/) const {
  return {};
}

}  // namespace ate::daemon
