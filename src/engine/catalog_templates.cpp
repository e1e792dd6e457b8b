#include "ate/engine/templates.hpp"
#include "ate/objects/catalog.hpp"

namespace ate::engine {

std::shared_ptr<const v1alpha1::ActorTemplate> CatalogTemplates::find_template(
    const std::string& atespace, const std::string& name, std::int64_t generation) const {
  return catalog_.find_template(atespace, name, generation);
}

std::vector<std::shared_ptr<const v1alpha1::ActorTemplate>> CatalogTemplates::in_force() const {
  return catalog_.templates("");
}

std::vector<std::shared_ptr<const v1alpha1::WorkerPool>> CatalogTemplates::pools() const {
  return catalog_.pools();
}

std::shared_ptr<const v1alpha1::SandboxConfig> CatalogTemplates::sandbox_config(
    const std::string& name, const std::string& sandbox_class) const {
  return name.empty() ? catalog_.default_sandbox_config(sandbox_class)
                      : catalog_.find_sandbox_config(name);
}

async::Task<Result<Templates::Images>> CatalogTemplates::images(
    std::shared_ptr<const v1alpha1::ActorTemplate> source) {
  co_return co_await catalog_.images(std::move(source));
}

}  // namespace ate::engine
