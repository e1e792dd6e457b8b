#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ate::engine {

/// Snapshots that go with the next commit: while this lives no fork is made of them.
class Leaving {
 public:
  Leaving(std::multiset<std::string>& all, std::vector<std::string> ids)
      : all_(all), ids_(std::move(ids)) {
    all_.insert(ids_.begin(), ids_.end());
  }

  ~Leaving() {
    for (const std::string& id : ids_) {
      all_.extract(id);
    }
  }

  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;
  Leaving(Leaving&&) = delete;
  Leaving& operator=(Leaving&&) = delete;

  [[nodiscard]] const std::vector<std::string>& ids() const noexcept { return ids_; }

 private:
  std::multiset<std::string>& all_;
  std::vector<std::string> ids_;
};

}  // namespace ate::engine
