#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ate::engine {

/// Snapshots that are marked for as long as this lives: as going with the next commit, or as held.
class MarkedIds {
 public:
  MarkedIds(std::multiset<std::string>& all, std::vector<std::string> ids)
      : all_(all), ids_(std::move(ids)) {
    all_.insert(ids_.begin(), ids_.end());
  }

  ~MarkedIds() {
    for (const std::string& id : ids_) {
      all_.extract(id);
    }
  }

  MarkedIds(const MarkedIds&) = delete;
  MarkedIds& operator=(const MarkedIds&) = delete;
  MarkedIds(MarkedIds&&) = delete;
  MarkedIds& operator=(MarkedIds&&) = delete;

  [[nodiscard]] const std::vector<std::string>& ids() const noexcept { return ids_; }

 private:
  std::multiset<std::string>& all_;
  std::vector<std::string> ids_;
};

}  // namespace ate::engine
