#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ate/engine/templates.hpp"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::test {

/// The catalog as the engine sees it.
class FakeTemplates final : public engine::Templates {
 public:
  std::map<std::string, std::shared_ptr<v1alpha1::ActorTemplate>> templates;
  std::vector<std::shared_ptr<const v1alpha1::WorkerPool>> all_pools;
  std::shared_ptr<v1alpha1::SandboxConfig> config;
  Status images_status;
  async::Event* unpacking = nullptr;  // images() waits for it
  std::string digest = "sha256:image";

  FakeTemplates() {
    config = std::make_shared<v1alpha1::SandboxConfig>();
    config->mutable_metadata()->set_name("gvisor");
    config->mutable_spec()->set_sandbox_class(v1alpha1::gvisor);
    (*config->mutable_status()->mutable_pinned())["runsc"] = "sha256:00";
    add_template("counter");
    add_pool("small", 4, "1Gi");
  }

  v1alpha1::ActorTemplate& add_template(const std::string& name) {
    auto added = std::make_shared<v1alpha1::ActorTemplate>();
    added->mutable_metadata()->set_name(name);
    added->mutable_metadata()->set_atespace("default");
    added->mutable_metadata()->set_generation(3);
    added->mutable_spec()->set_sandbox_class(v1alpha1::gvisor);
    added->mutable_spec()->add_containers()->set_name("app");
    templates[name] = added;
    return *added;
  }

  v1alpha1::WorkerPool make_pool(const std::string& name, int replicas, const std::string& memory) {
    v1alpha1::WorkerPool pool;
    pool.mutable_metadata()->set_name(name);
    pool.mutable_spec()->set_sandbox_class(v1alpha1::gvisor);
    pool.mutable_spec()->set_replicas(replicas);
    v1alpha1::Limits& limits = *pool.mutable_spec()->mutable_resources()->mutable_limits();
    limits.set_cpu("1");
    limits.set_memory(memory);
    limits.set_pids("512");
    return pool;
  }

  void add_pool(const std::string& name, int replicas, const std::string& memory) {
    all_pools.push_back(
        std::make_shared<const v1alpha1::WorkerPool>(make_pool(name, replicas, memory)));
  }

  [[nodiscard]] std::shared_ptr<const v1alpha1::ActorTemplate> find_template(
      const std::string& atespace, const std::string& name,
      std::int64_t generation) const override {
    const auto found = templates.find(name);
    if (found == templates.end() || atespace != found->second->metadata().atespace() ||
        (generation != 0 && generation != found->second->metadata().generation())) {
      return nullptr;
    }
    return found->second;
  }

  [[nodiscard]] std::vector<std::shared_ptr<const v1alpha1::ActorTemplate>> in_force()
      const override {
    std::vector<std::shared_ptr<const v1alpha1::ActorTemplate>> all;
    for (const auto& [name, source] : templates) {
      all.push_back(source);
    }
    return all;
  }

  [[nodiscard]] std::vector<std::shared_ptr<const v1alpha1::WorkerPool>> pools() const override {
    return all_pools;
  }

  [[nodiscard]] std::shared_ptr<const v1alpha1::SandboxConfig> sandbox_config(
      const std::string&, const std::string&) const override {
    return config;
  }

  [[nodiscard]] async::Task<Result<Images>> images(
      std::shared_ptr<const v1alpha1::ActorTemplate>) override {
    if (unpacking != nullptr) {
      co_await unpacking->wait();
    }
    if (!images_status) {
      co_return fail(images_status.error());
    }
    Images images;
    images.emplace_back("app", image::Unpacked{digest, "/images/app/rootfs", {}});
    co_return images;
  }
};

}  // namespace ate::test
