#include <algorithm>
#include <set>

#include "ate/core/validate.hpp"
#include "ate/util/ids.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"
#include "core/checker.hpp"

namespace ate::core {
namespace {

void sandbox_class(Checker& check, v1alpha1::SandboxClass value) {
  if (value == v1alpha1::unspecified) {
    check.invalid("spec.sandboxClass", "is required: gvisor");
  } else if (value == v1alpha1::microvm) {
    check.not_yet("spec.sandboxClass", "the class microvm; use gvisor");
  }
}

bool is_digest(const std::string& text) {
  constexpr std::string_view kPrefix = "sha256:";
  return text.size() == kPrefix.size() + 64 && text.starts_with(kPrefix) &&
         std::all_of(text.begin() + kPrefix.size(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

void assets(Checker& check, const v1alpha1::SandboxConfigSpec& spec) {
  std::vector<std::string> names;
  for (const auto& [name, asset] : spec.assets()) {
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const v1alpha1::Asset& asset = spec.assets().at(name);
    const std::string path = entry_path("spec.assets", name);
    if (spec.sandbox_class() == v1alpha1::gvisor && name != "runsc") {
      check.invalid(path, "the class gvisor has one asset: runsc");
    }
    check.clean_path(path + ".path", asset.path());
    if (!asset.sha256().empty() && !is_digest(asset.sha256())) {
      check.invalid(path + ".sha256", "must be \"sha256:\" and 64 lower-case hexadecimal digits");
    }
  }
  if (spec.sandbox_class() == v1alpha1::gvisor && !spec.assets().contains("runsc")) {
    check.invalid("spec.assets.runsc", "is required: {path: /usr/local/bin/runsc}");
  }
}

}  // namespace

std::vector<Problem> validate(const v1alpha1::WorkerPool& object) {
  Checker check;
  const v1alpha1::WorkerPoolSpec& spec = object.spec();
  check.metadata(object.metadata(), true, false);
  sandbox_class(check, spec.sandbox_class());
  check.label_name("spec.sandboxConfig", spec.sandbox_config(), false);
  if (spec.has_replicas()) {
    check.range("spec.replicas", spec.replicas(), 0, 1000);
  }
  // Without both limits the host would be the budget.
  const v1alpha1::Limits& limits = spec.resources().limits();
  if (limits.cpu().empty()) {
    check.invalid("spec.resources.limits.cpu",
                  "is required: what each worker may use, for example \"1\"");
  } else {
    // 10m is the smallest quota that the kernel takes: 1000 us of 100000 us.
    check.cpu_milli("spec.resources.limits.cpu", limits.cpu(), 10, 1'024'000);
  }
  if (limits.memory().empty()) {
    check.invalid("spec.resources.limits.memory",
                  "is required: what each worker may use, for example 1Gi");
  } else {
    check.bytes("spec.resources.limits.memory", limits.memory(), 1LL << 20, 1LL << 46);
  }
  if (!limits.pids().empty()) {
    check.count("spec.resources.limits.pids", limits.pids(), 16, 4'194'304);
  }
  return check.take();
}

std::vector<Problem> validate(const v1alpha1::SandboxConfig& object) {
  Checker check;
  const v1alpha1::SandboxConfigSpec& spec = object.spec();
  check.metadata(object.metadata(), true, false);
  sandbox_class(check, spec.sandbox_class());
  assets(check, spec);
  if (spec.has_gvisor()) {
    if (spec.sandbox_class() == v1alpha1::microvm) {
      check.invalid("spec.gvisor", "does not belong to the class microvm");
    }
    const std::string& platform = spec.gvisor().platform();
    if (!platform.empty() && platform != "systrap" && platform != "kvm" && platform != "ptrace") {
      check.invalid("spec.gvisor.platform", "must be systrap, kvm or ptrace");
    }
  }
  if (spec.has_microvm()) {
    if (spec.sandbox_class() == v1alpha1::gvisor) {
      check.invalid("spec.microvm", "does not belong to the class gvisor");
    } else {
      check.text("spec.microvm.kernelParams", spec.microvm().kernel_params(), 2048);
      check.not_yet("spec.microvm", "the class microvm; use gvisor");
    }
  }
  return check.take();
}

std::vector<Problem> validate(const v1alpha1::Actor& object) {
  Checker check;
  const v1alpha1::ActorSpec& spec = object.spec();
  check.metadata(object.metadata(), true, true);
  const bool fork = !spec.from_snapshot().empty();
  check.label_name("spec.template.name", spec.template_().name(), !fork);
  if (spec.template_().generation() < 0) {
    check.invalid("spec.template.generation", "must not be negative");
  }
  if (spec.has_idle()) {
    check.idle("spec.idle", spec.idle());
  }
  if (fork && !is_ulid(spec.from_snapshot())) {
    check.invalid("spec.fromSnapshot", "is no id of a snapshot");
  }
  check.ttl("spec.ttl", spec.ttl());
  return check.take();
}

Error to_error(std::vector<Problem> problems) {
  const Problem first = problems.front();
  return Error(first.code, first.field.empty() ? first.detail : first.field + ": " + first.detail)
      .with_field(first.field)
      .with_problems(std::move(problems));
}

std::vector<Problem> validate(const v1alpha1::SnapshotMetadata& metadata) {
  constexpr int kMostLabels = 64;
  constexpr int kMostTags = 32;
  Checker check;
  check.labels("metadata.labels", metadata.labels());
  if (metadata.labels().size() > kMostLabels) {
    check.invalid("metadata.labels", "takes at most " + std::to_string(kMostLabels) + " labels");
  }
  if (metadata.tags_size() > kMostTags) {
    check.invalid("metadata.tags", "takes at most " + std::to_string(kMostTags) + " tags");
  }
  std::set<std::string> seen;
  for (int i = 0; i < metadata.tags_size(); ++i) {
    const std::string path = item_path("metadata.tags", i);
    check.tag(path, metadata.tags(i));
    if (!seen.insert(metadata.tags(i)).second) {
      check.invalid(path, "is there twice");
    }
  }
  return check.take();
}

}  // namespace ate::core
