#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ate/store/store.hpp"
#include "ate/util/clock.hpp"
#include "objects/object.hpp"

namespace ate::objects {

inline constexpr std::string_view kApiSource = "api";

/// One decided change: what to store, and what to show once it is stored.
struct Change {
  enum class What : std::uint8_t { Created, Updated, Removed };
  Key key;
  What what = What::Updated;
  std::string source;
  ObjectPtr object;  // null when removed
  std::int64_t generation = 0;
  std::vector<store::ObjectRow> put_rows;
  std::vector<store::ObjectRow> delete_rows;
  std::vector<std::pair<std::string, std::string>> meta;
};

/// What the book cannot know by itself.
struct Stamp {
  std::string uid;         // for a new object
  std::string created_at;  // for a new object
  std::int64_t version = 0;
};

/// The objects in force and the generations that something may still name. Decides and remembers;
/// no I/O: a change is planned, then stored by the caller, then applied.
class Book {
 public:
  struct Version {
    ObjectPtr object;
    SteadyTime retired{};  // since when it is not the current one
  };

  struct Entry {
    std::string source;        // kApiSource or the owning file's path
    std::int64_t current = 0;  // 0 = deleted; its versions stay while they are named
    std::map<std::int64_t, Version> versions;
  };

  [[nodiscard]] Status load(const store::Loaded& loaded, SteadyTime now);

  /// Null when there is none in force.
  [[nodiscard]] ObjectPtr current(const Key& key) const;
  [[nodiscard]] ObjectPtr version(const Key& key, std::int64_t generation) const;
  /// Source of the object in force; "" when there is none.
  [[nodiscard]] std::string source(const Key& key) const;
  /// In order of atespace and name; `atespace` "" = all.
  [[nodiscard]] std::vector<ObjectPtr> list(Kind kind, const std::string& atespace) const;
  [[nodiscard]] std::vector<Key> keys() const;
  /// Every version there is, in force or not.
  void visit(const std::function<void(const ObjectPtr&)>& visit) const;

  /// nullopt when the object is in force already, from the same source: then no stamp is made.
  /// `candidate` carries its pins in its status.
  [[nodiscard]] std::optional<Change> plan_put(const Key& key, const Message& candidate,
                                               const std::string& source,
                                               const std::function<Stamp()>& make_stamp) const;
  /// The key must be in force.
  [[nodiscard]] Change plan_remove(const Key& key) const;
  void apply(const Change& change, SteadyTime now);

  using InUse = std::function<bool(const Key&, std::int64_t generation)>;
  /// Versions that are out of force for `grace` and not in use.
  [[nodiscard]] std::vector<std::pair<Key, std::int64_t>> prunable(SteadyTime now,
                                                                   std::chrono::seconds grace,
                                                                   const InUse& in_use) const;
  void forget(const Key& key, std::int64_t generation);
  /// Another status of the same version; nothing is stored.
  void show(const Key& key, std::int64_t generation, ObjectPtr object);

 private:
  [[nodiscard]] store::ObjectRow row(const Key& key, const Message& object,
                                     const std::string& source, bool hidden) const;
  [[nodiscard]] std::int64_t last_generation(const Key& key) const;

  std::map<Key, Entry> entries_;
  std::map<Key, std::int64_t> last_generations_;
};

[[nodiscard]] std::string generation_meta_key(const Key& key);

}  // namespace ate::objects
