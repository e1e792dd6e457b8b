#include "daemon/selftests.hpp"

#include <algorithm>
#include <utility>

#include "ate/v1alpha1/objects.pb.h"

namespace ate::daemon {

namespace {

using Health = runtime::Health;

std::string_view name(Health::State state) {
  switch (state) {
    case Health::State::Pending:
      return "Pending";
    case Health::State::Running:
      return "Running";
    case Health::State::Passed:
      return "Passed";
    case Health::State::Failed:
      return "Failed";
  }
  return "Pending";
}

std::map<std::string, std::string> assets_of(const v1alpha1::SandboxConfig& config) {
  const auto& pinned = config.status().pinned();
  return {pinned.begin(), pinned.end()};
}

std::map<std::string, std::string> options_of(const v1alpha1::SandboxConfig& config) {
  const std::string& platform = config.spec().gvisor().platform();
  return {{"platform", platform.empty() ? "systrap" : platform}};
}

std::string key_of(const v1alpha1::SandboxConfig& config) {
  std::string out;
  for (const auto& [asset, digest] : assets_of(config)) {
    out += asset + '=' + digest + ' ';
  }
  return out + config.spec().gvisor().platform();
}

}  // namespace

SelfTests::SelfTests(objects::Catalog& catalog, std::map<std::string, runtime::Runtime*> runtimes,
                     const Log& log)
    : catalog_(catalog), runtimes_(std::move(runtimes)), log_(log) {}

async::Task<void> SelfTests::test(std::shared_ptr<const v1alpha1::SandboxConfig> config) {
  const std::string config_name = config->metadata().name();
  const auto runtime = runtimes_.find(v1alpha1::SandboxClass_Name(config->spec().sandbox_class()));
  Entry& entry = entries_[config_name];
  const std::string key = key_of(*config);
  // A failed one is tried again: it may have lacked memory or processes only.
  const bool again = entry.key == key && entry.health.state == Health::State::Failed;
  if ((entry.key == key && !again) || runtime == runtimes_.end()) {
    co_return;
  }
  const std::string told = again ? entry.health.detail : std::string();
  entry = Entry{key, Health{Health::State::Running, "self-test is running"}};
  Status tested = co_await runtime->second->self_test(assets_of(*config), options_of(*config));
  if (tested) {
    entry.health = Health{Health::State::Passed, "saves and restores"};
    log_.info("sandbox config passed its self-test", {{"config", config_name}});
  } else {
    entry.health = Health{Health::State::Failed, tested.error().message()};
  }
  if (!tested && tested.error().message() != told) {
    log_.error("sandbox config failed its self-test: " + tested.error().message(),
               {{"config", config_name}});
  }
}

async::Task<void> SelfTests::run() {
  const auto configs = catalog_.sandbox_configs();
  for (const auto& config : configs) {
    co_await test(config);
  }
  std::erase_if(entries_, [&](const auto& item) {
    return catalog_.find_sandbox_config(item.first) == nullptr;
  });
}

bool SelfTests::any_failed() const {
  return std::ranges::any_of(
      entries_, [](const auto& item) { return item.second.health.state == Health::State::Failed; });
}

runtime::Health SelfTests::health(const v1alpha1::SandboxConfig& config) const {
  const auto found = entries_.find(config.metadata().name());
  // What was tested may be another binary than the one that is in force by now.
  if (found == entries_.end() || found->second.key != key_of(config)) {
    return Health{Health::State::Pending, "self-test has not begun"};
  }
  return found->second.health;
}

std::vector<engine::Engine::Check> SelfTests::checks() const {
  std::vector<engine::Engine::Check> out;
  for (const auto& config : catalog_.sandbox_configs()) {
    if (runtimes_.contains(v1alpha1::SandboxClass_Name(config->spec().sandbox_class()))) {
      const Health found = health(*config);
      out.push_back(engine::Engine::Check{"sandbox-config " + config->metadata().name(),
                                          found.state == Health::State::Passed, found.detail});
    }
  }
  return out;
}

void SelfTests::annotate(v1alpha1::SandboxConfig& config) const {
  const Health found = health(config);
  v1alpha1::SandboxConfigStatus& status = *config.mutable_status();
  status.set_self_test(std::string(name(found.state)));
  status.set_self_test_message(found.detail);
  const bool over = found.state == Health::State::Passed || found.state == Health::State::Failed;
  status.mutable_object()->set_ready(!over                                  ? "Unknown"
                                     : found.state == Health::State::Passed ? "True"
                                                                            : "False");
  status.mutable_object()->set_message(found.state == Health::State::Failed ? found.detail : "");
}

}  // namespace ate::daemon
