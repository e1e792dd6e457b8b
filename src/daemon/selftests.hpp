#pragma once

#include <map>
#include <string>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/engine/engine.hpp"
#include "ate/objects/catalog.hpp"
#include "ate/runtime/runtime.hpp"

namespace ate::daemon {

/// Self-tests of the runtimes, one per SandboxConfig and set of assets, run one after the other in
/// the background.
class SelfTests {
 public:
  SelfTests(objects::Catalog& catalog, std::map<std::string, runtime::Runtime*> runtimes,
            const Log& log);

  /// Tests what is new or changed since the last call, or failed. Called from one task only.
  [[nodiscard]] async::Task<void> run();
  [[nodiscard]] bool any_failed() const;
  [[nodiscard]] std::vector<engine::Engine::Check> checks() const;
  /// Writes status.selfTest of a config that is about to be shown.
  void annotate(v1alpha1::SandboxConfig& config) const;

 private:
  struct Entry {
    std::string key;  // of what was tested
    runtime::Health health;
  };

  [[nodiscard]] runtime::Health health(const v1alpha1::SandboxConfig& config) const;
  [[nodiscard]] async::Task<void> test(std::shared_ptr<const v1alpha1::SandboxConfig> config);

  objects::Catalog& catalog_;
  std::map<std::string, runtime::Runtime*> runtimes_;
  const Log& log_;
  std::map<std::string, Entry> entries_;  // by name of the config
};

}  // namespace ate::daemon
