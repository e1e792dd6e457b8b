#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/image/image.hpp"
#include "ate/util/clock.hpp"

namespace ate::v1alpha1 {
class ActorTemplate;
class WorkerPool;
class SandboxConfig;
}  // namespace ate::v1alpha1

namespace ate::store {
class Store;
struct Loaded;
}  // namespace ate::store

namespace ate::artifacts {
class AssetStore;
}  // namespace ate::artifacts

namespace ate::objects {

class Sources;

enum class Kind : std::uint8_t { ActorTemplate, WorkerPool, SandboxConfig };

/// Who else names an object, so that a delete knows what must stay.
class References {
 public:
  virtual ~References() = default;
  /// True while an actor or snapshot names that generation of the template.
  [[nodiscard]] virtual bool template_in_use(const std::string& atespace, const std::string& name,
                                             std::int64_t generation) const = 0;
};

/// Templates, pools and sandbox configs in force, from /etc/ate and from the API: ownership,
/// generations, per-file status, removal rules (design.md sections 2 and 7). Shared pointers handed
/// out are immutable; an update replaces them.
class Catalog {
 public:
  struct Options {
    std::string directory;                    // /etc/ate
    std::chrono::milliseconds absence{2000};  // how long a file must be gone before its objects go
    std::chrono::milliseconds debounce{250};
    std::chrono::seconds rescan{60};
  };

  using OnChange =
      std::function<void(Kind kind, const std::string& atespace, const std::string& name)>;
  using OnLog = std::function<void(bool is_error, const std::string& text)>;

  Catalog(async::Context& context, store::Store& store, image::Store& images,
          artifacts::AssetStore& assets, const Clock& clock, Options options, OnChange on_change,
          OnLog on_log);
  /// With other sources of images and assets (tests).
  Catalog(async::Context& context, store::Store& store, std::unique_ptr<Sources> sources,
          const Clock& clock, Options options, OnChange on_change, OnLog on_log);
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;
  Catalog(Catalog&&) = delete;
  Catalog& operator=(Catalog&&) = delete;

  void set_references(const References* references);
  /// From the store, before the first scan.
  [[nodiscard]] Status load(const store::Loaded& loaded);
  /// Scans the directory now (start, SIGHUP). From the second time on it also resolves every image
  /// tag and asset again.
  [[nodiscard]] async::Task<void> scan();
  /// Watches with inotify and rescans, until cancelled.
  [[nodiscard]] async::Task<void> watch();
  /// Ends unpacking in the background; before the loop stops.
  [[nodiscard]] async::Task<void> close();

  // Reads; null when there is none. `generation` 0 = the current, not hidden, one.
  [[nodiscard]] std::shared_ptr<const v1alpha1::ActorTemplate> find_template(
      const std::string& atespace, const std::string& name, std::int64_t generation) const;
  [[nodiscard]] std::shared_ptr<const v1alpha1::WorkerPool> find_pool(
      const std::string& name) const;
  [[nodiscard]] std::shared_ptr<const v1alpha1::SandboxConfig> find_sandbox_config(
      const std::string& name) const;
  /// The class's default ("gvisor"), or null.
  [[nodiscard]] std::shared_ptr<const v1alpha1::SandboxConfig> default_sandbox_config(
      const std::string& sandbox_class) const;
  /// Lists are in order of atespace and name; `atespace` "" = all.
  [[nodiscard]] std::vector<std::shared_ptr<const v1alpha1::ActorTemplate>> templates(
      const std::string& atespace) const;
  [[nodiscard]] std::vector<std::shared_ptr<const v1alpha1::WorkerPool>> pools() const;
  [[nodiscard]] std::vector<std::shared_ptr<const v1alpha1::SandboxConfig>> sandbox_configs() const;

  /// PUT: parses, validates (all problems), resolves images and assets, stores. FileOwned,
  /// PreconditionFailed (if_match), ...
  struct Put {
    bool created = false;
    std::shared_ptr<const v1alpha1::ActorTemplate> as_template;
    std::shared_ptr<const v1alpha1::WorkerPool> as_pool;
    std::shared_ptr<const v1alpha1::SandboxConfig> as_sandbox_config;
  };

  [[nodiscard]] async::Task<Result<Put>> put(Kind kind, std::string atespace, std::string name,
                                             std::string json, std::optional<std::string> if_match);
  [[nodiscard]] async::Task<Status> remove(Kind kind, std::string atespace, std::string name,
                                           std::optional<std::string> if_match);

  /// Unpacked images of a template generation, waiting for a running unpack. ImageInvalid with the
  /// reason.
  [[nodiscard]] async::Task<Result<std::vector<std::pair<std::string, image::Unpacked>>>> images(
      std::shared_ptr<const v1alpha1::ActorTemplate> source);

  /// Per-file status, for GET /v1/files and readiness: path, problems, objects.
  struct FileStatus {
    std::string path;
    std::string digest;
    std::vector<Problem> problems;
    std::vector<std::string> objects;  // "ActorTemplate/default/counter"
  };

  [[nodiscard]] std::vector<FileStatus> files() const;

  /// What objects of any generation, deleted ones that something still names too, are pinned to.
  struct Pins {
    std::set<std::string> images;
    std::set<std::string> assets;
    bool complete = true;  // false while what was just imported is not yet named by its object
  };

  [[nodiscard]] Pins pins() const;
  /// Current highest resourceVersion; the engine and the catalog share one counter.
  using NextVersion = std::function<std::int64_t()>;
  void set_next_version(NextVersion next);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ate::objects
