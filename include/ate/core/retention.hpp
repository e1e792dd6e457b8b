#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

/// What may go: decisions without I/O. What something names never does, whatever the budget says
/// (case T55).
namespace ate::core {

struct Doomed {
  std::string kind;  // image | asset | snapshot
  std::string id;
  std::int64_t bytes = 0;
  std::string reason;
};

/// A live snapshot. Those of suspends and pauses belong to their actors and are not looked at here.
struct LiveSnapshot {
  std::string id;
  std::string atespace;
  std::string template_name;
  std::int64_t created_ms = 0;
  std::int64_t bytes = 0;
  bool tagged = false;
  bool used = false;
};

/// spec.snapshots of a template. A snapshot is kept while it is one of the newest `last` or younger
/// than `age`; with neither set none goes by itself.
struct SnapshotKeep {
  std::optional<std::int64_t> last;
  std::optional<std::chrono::milliseconds> age;
};

using KeepOf =
    std::function<SnapshotKeep(const std::string& atespace, const std::string& template_name)>;

/// Tagged and used ones are kept and do not count.
[[nodiscard]] std::vector<Doomed> expired_snapshots(std::vector<LiveSnapshot> snapshots,
                                                    const KeepOf& keep_of, std::int64_t now_ms);

/// An image or a sandbox binary in its store.
struct Stored {
  std::string kind;
  std::string id;
  std::int64_t bytes = 0;
  std::int64_t made_ms = 0;
};

/// Those that `named` does not hold and that were not made within the last minute: those may be on
/// their way to being named.
[[nodiscard]] std::vector<Doomed> unnamed(const std::vector<Stored>& stored,
                                          const std::set<std::string>& named, std::int64_t now_ms);

}  // namespace ate::core
