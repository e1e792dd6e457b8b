#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/image/image.hpp"

namespace ate::v1alpha1 {
class ActorTemplate;
class SandboxConfig;
class WorkerPool;
}  // namespace ate::v1alpha1

namespace ate::objects {
class Catalog;
}  // namespace ate::objects

namespace ate::engine {

/// What the engine needs of the catalog; tests have a fake.
class Templates {
 public:
  using Images = std::vector<std::pair<std::string, image::Unpacked>>;

  Templates() = default;
  virtual ~Templates() = default;
  Templates(const Templates&) = delete;
  Templates& operator=(const Templates&) = delete;
  Templates(Templates&&) = delete;
  Templates& operator=(Templates&&) = delete;

  /// Null when there is none. `generation` 0 = the current one.
  [[nodiscard]] virtual std::shared_ptr<const v1alpha1::ActorTemplate> find_template(
      const std::string& atespace, const std::string& name, std::int64_t generation) const = 0;
  /// Those in force, of all atespaces.
  [[nodiscard]] virtual std::vector<std::shared_ptr<const v1alpha1::ActorTemplate>> in_force()
      const = 0;
  [[nodiscard]] virtual std::vector<std::shared_ptr<const v1alpha1::WorkerPool>> pools() const = 0;
  /// The named one, or the class's default when `name` is empty; null when there is none.
  [[nodiscard]] virtual std::shared_ptr<const v1alpha1::SandboxConfig> sandbox_config(
      const std::string& name, const std::string& sandbox_class) const = 0;
  /// Unpacked images of a template generation; waits for a running unpack.
  [[nodiscard]] virtual async::Task<Result<Images>> images(
      std::shared_ptr<const v1alpha1::ActorTemplate> source) = 0;
};

/// The real one.
class CatalogTemplates final : public Templates {
 public:
  explicit CatalogTemplates(objects::Catalog& catalog) : catalog_(catalog) {}

  [[nodiscard]] std::shared_ptr<const v1alpha1::ActorTemplate> find_template(
      const std::string& atespace, const std::string& name, std::int64_t generation) const override;
  [[nodiscard]] std::vector<std::shared_ptr<const v1alpha1::ActorTemplate>> in_force()
      const override;
  [[nodiscard]] std::vector<std::shared_ptr<const v1alpha1::WorkerPool>> pools() const override;
  [[nodiscard]] std::shared_ptr<const v1alpha1::SandboxConfig> sandbox_config(
      const std::string& name, const std::string& sandbox_class) const override;
  [[nodiscard]] async::Task<Result<Images>> images(
      std::shared_ptr<const v1alpha1::ActorTemplate> source) override;

 private:
  objects::Catalog& catalog_;
};

}  // namespace ate::engine
