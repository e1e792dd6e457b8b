#include "ate/core/retention.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace ate::core {
namespace {

constexpr std::chrono::milliseconds kOnTheWay = std::chrono::minutes(1);

std::string count_of(std::int64_t number) {
  return std::to_string(number);
}

/// Why the one at `place` (0 = newest) goes; "" when it stays.
std::string why(const LiveSnapshot& snapshot, std::int64_t place, const SnapshotKeep& keep,
                std::int64_t now_ms) {
  const bool beyond = keep.last && place >= *keep.last;
  const bool old = keep.age && snapshot.created_ms + keep.age->count() < now_ms;
  if ((!keep.last && !keep.age) || (keep.last && !beyond) || (keep.age && !old)) {
    return {};
  }
  std::string reason = "template " + snapshot.template_name + " keeps";
  if (keep.last) {
    reason += " the newest " + count_of(*keep.last);
  }
  if (keep.age) {
    reason += std::string(keep.last ? " and" : "") + " what is younger than " +
              count_of(keep.age->count() / 1000) + "s";
  }
  return reason;
}

}  // namespace

std::vector<Doomed> expired_snapshots(std::vector<LiveSnapshot> snapshots, const KeepOf& keep_of,
                                      std::int64_t now_ms) {
  std::sort(snapshots.begin(), snapshots.end(), [](const LiveSnapshot& a, const LiveSnapshot& b) {
    return std::pair(a.created_ms, a.id) > std::pair(b.created_ms, b.id);
  });
  std::map<std::pair<std::string, std::string>, std::int64_t> places;
  std::vector<Doomed> doomed;
  for (const LiveSnapshot& snapshot : snapshots) {
    if (snapshot.tagged || snapshot.used) {
      continue;
    }
    const std::int64_t place = places[{snapshot.atespace, snapshot.template_name}]++;
    const std::string reason =
        why(snapshot, place, keep_of(snapshot.atespace, snapshot.template_name), now_ms);
    if (!reason.empty()) {
      doomed.push_back({"snapshot", snapshot.id, snapshot.bytes, reason});
    }
  }
  return doomed;
}

std::vector<Doomed> unnamed(const std::vector<Stored>& stored, const std::set<std::string>& named,
                            std::int64_t now_ms) {
  std::vector<Doomed> doomed;
  for (const Stored& item : stored) {
    if (!named.contains(item.id) && item.made_ms + kOnTheWay.count() < now_ms) {
      doomed.push_back({item.kind, item.id, item.bytes, "no object, actor or snapshot names it"});
    }
  }
  return doomed;
}

}  // namespace ate::core
