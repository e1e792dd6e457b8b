#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "ate/v1alpha1/actor.pb.h"
#include "engine/packed.hpp"

namespace ate::engine {

/// Kept whether an actor names it or not.
[[nodiscard]] bool stands_alone(const v1alpha1::Snapshot& row);

/// The snapshots table in memory, and what it names.
class SnapshotRows {
 public:
  using Row = std::shared_ptr<const v1alpha1::Snapshot>;

  void put(const Row& row);
  void erase(const std::string& id);

  /// Null when there is none.
  [[nodiscard]] Row find(const std::string& id) const;

  [[nodiscard]] bool contains(const std::string& id) const { return rows_.contains(id); }

  /// In the order of their ids.
  void visit(const std::function<void(const Row&)>& visit) const;

  /// How many live snapshots name that generation of a template. (A golden one goes with it.)
  [[nodiscard]] std::size_t uses(const std::string& atespace, const std::string& name,
                                 std::int64_t generation) const;

 private:
  std::map<std::string, Packed<v1alpha1::Snapshot>> rows_;
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::size_t> uses_;
};

}  // namespace ate::engine
