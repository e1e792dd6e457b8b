#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "ate/core/golden.hpp"
#include "ate/util/clock.hpp"
#include "engine/workers.hpp"

namespace ate::engine {

using Generation =
    std::tuple<std::string, std::string, std::int64_t>;  // atespace, name, generation

/// The golden snapshot of one template generation: what it is, and how building it goes.
struct Golden {
  std::shared_ptr<const v1alpha1::ActorTemplate> source;  // null = not wanted any more
  std::string key;                                        // of one that were made now; "" = unknown
  std::string have;                                       // key of `snapshot`
  std::string snapshot;                                   // built and tried
  std::string built_at;
  std::int64_t bytes = 0;
  bool building = false;
  std::string error;          // of the last build, or why there is none yet
  std::int64_t failures = 0;  // in a row, with this key
  SteadyTime not_before;
  std::optional<core::BakedSize> size;

  [[nodiscard]] core::GoldenFacts facts() const {
    return {source != nullptr, key, snapshot.empty() ? std::string() : have, building, failures};
  }

  [[nodiscard]] bool usable() const {
    return core::golden_state(facts()) == core::GoldenState::Ready;
  }
};

}  // namespace ate::engine
