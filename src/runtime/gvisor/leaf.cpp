#include "runtime/gvisor/leaf.hpp"

#include <unistd.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "ate/os/fs.hpp"

namespace ate::runtime::gvisor {
namespace {

/// Value of `key` in a file of "key value" lines.
std::int64_t keyed(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      std::int64_t value = 0;
      const std::string_view digits = line.substr(key.size() + 1);
      static_cast<void>(std::from_chars(digits.data(), digits.data() + digits.size(), value));
      return value;
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return 0;
}

/// Applies limits to a directory; files that may be missing are passed over.
Status apply(const os::Cgroup& group, const core::CgroupLimits& limits) {
  for (const core::CgroupWrite& write : core::cgroup_writes(limits)) {
    Status done = group.write(write.file, write.value);
    if (!done && !write.optional) {
      return done;
    }
  }
  return {};
}

Result<os::Cgroup> make_worker(const Leaf::Place& place) {
  ATE_ASSIGN(const os::Cgroup root, os::Cgroup::open(place.root));
  if (place.enforce) {
    // Again each time: systemd switches off, also in the slice that holds our tree, what none of
    // its own units needs.
    ATE_TRY(root.enable(core::cgroup_controllers()));
  }
  const bool known = os::exists(place.root + "/" + place.worker);
  ATE_ASSIGN(os::Cgroup worker, root.make_child(place.worker, {}));
  if (place.enforce) {
    if (!known) {
      // Made with the pool's limits before (engine/budgets); one that vanished is never unlimited.
      ATE_TRY(apply(worker, place.limits));
    }
    ATE_TRY(worker.enable(core::cgroup_controllers()));
  }
  return worker;
}

Result<os::Cgroup> make_leaf(const Leaf::Place& place) {
  ATE_ASSIGN(const os::Cgroup worker, make_worker(place));
  ATE_ASSIGN(os::Cgroup leaf, worker.make_child(std::to_string(place.serial), {}));
  if (place.enforce) {
    if (Status limited = apply(leaf, place.limits); !limited) {
      static_cast<void>(leaf.remove());  // IGNORED: the first error is the one to tell
      return fail(std::move(limited).error());
    }
  }
  return leaf;
}

}  // namespace

Result<Leaf> Leaf::create(const Place& place) {
  Leaf leaf;
  if (place.root.empty()) {
    return leaf;
  }
  Result<os::Cgroup> group = make_leaf(place);
  if (!group && group.error().code() == Errc::NotFound) {
    // The incarnation before on this worker was just now removing the worker's directory.
    group = make_leaf(place);
  }
  if (!group) {
    return fail(std::move(group).error());
  }
  leaf.group_ = std::move(*group);
  leaf.keep_worker_ = place.enforce;
  return leaf;
}

Leaf Leaf::open(const std::string& directory) {
  Leaf leaf;
  if (Result<os::Cgroup> group = os::Cgroup::open(directory)) {
    leaf.group_ = std::move(*group);
    leaf.keep_worker_ = true;
  }
  return leaf;
}

std::string Leaf::directory() const {
  return group_ ? group_->path() : std::string();
}

bool Leaf::populated() const {
  if (!group_) {
    return false;
  }
  const Result<bool> answer = group_->populated();
  return answer && *answer;
}

Status Leaf::kill() const {
  return group_ && populated() ? group_->kill() : Status{};
}

async::Task<Status> Leaf::wait_empty() const {
  if (!group_) {
    co_return Status{};
  }
  ATE_CO_ASSIGN(const UniqueFd events, group_->events());
  for (;;) {
    // Asked before each wait: a change since the question makes the wait return at once.
    ATE_CO_ASSIGN(const bool inhabited, os::populated(events));
    if (!inhabited) {
      co_return Status{};
    }
    const Status changed = co_await async::wait_priority(events.get());
    ATE_CO_TRY(changed);
  }
}

Status Leaf::remove() {
  if (!group_) {
    return {};
  }
  const std::string directory = group_->path();
  ATE_TRY(group_->remove());
  group_.reset();
  if (!keep_worker_) {
    // IGNORED: the next incarnation of the worker may be in it already.
    static_cast<void>(::rmdir(os::parent_dir(directory).c_str()));
  }
  return {};
}

std::int64_t Leaf::oom_kills() const {
  if (!group_) {
    return 0;
  }
  const Result<std::string> events = group_->read("memory.events");
  return events ? keyed(*events, "oom_kill") : 0;
}

std::string Leaf::memory_peak() const {
  if (!group_) {
    return {};
  }
  const Result<std::string> peak = group_->read("memory.peak");  // Linux 5.19
  const Result<std::string> limit = group_->read("memory.max");
  if (!peak || !limit) {
    return {};
  }
  const auto line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  return "peak " + line(*peak) + " of " + line(*limit) + " bytes";
}

}  // namespace ate::runtime::gvisor
