#include <string>

#include "ate/core/units.hpp"
#include "ate/core/validate.hpp"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::core {
namespace {

void fill(std::string* text, const char* value) {
  if (text->empty()) {
    *text = value;
  }
}

/// One spelling per value; text that does not parse stays for validate to name.
void plain_bytes(std::string* text) {
  if (const auto parsed = parse_bytes(*text)) {
    *text = format_bytes(*parsed);
  }
}

void plain_cpu(std::string* text) {
  if (const auto milli = parse_cpu_milli(*text)) {
    *text = format_cpu(*milli);
  }
}

void plain_duration(std::string* text) {
  const auto parsed = parse_duration(*text);
  if (!parsed) {
    return;
  }
  const auto count = parsed->count();
  if (count == 0) {
    *text = "0s";
  } else if (count % 3'600'000 == 0) {
    *text = std::to_string(count / 3'600'000) + "h";
  } else if (count % 60'000 == 0) {
    *text = std::to_string(count / 60'000) + "m";
  } else if (count % 1000 == 0) {
    *text = std::to_string(count / 1000) + "s";
  } else {
    *text = std::to_string(count) + "ms";
  }
}

void plain_limits(v1alpha1::Limits& limits) {
  plain_cpu(limits.mutable_cpu());
  plain_bytes(limits.mutable_memory());
}

void fill_container(v1alpha1::Container& container, const v1alpha1::ActorTemplateSpec& spec) {
  for (v1alpha1::ContainerPort& port : *container.mutable_ports()) {
    fill(port.mutable_protocol(), "TCP");
  }
  if (container.has_readyz()) {
    v1alpha1::Readyz& readyz = *container.mutable_readyz();
    if (!readyz.has_period_ms()) {
      readyz.set_period_ms(50);
    }
    fill(readyz.mutable_timeout(), "30s");
    plain_duration(readyz.mutable_timeout());
    if (readyz.has_http()) {
      fill(readyz.mutable_http()->mutable_path(), "/");
    }
  }
  // System information is read-only whatever the mount says.
  for (v1alpha1::VolumeMount& mount : *container.mutable_volume_mounts()) {
    for (const v1alpha1::Volume& volume : spec.volumes()) {
      if (volume.name() == mount.name() && volume.has_system_info()) {
        mount.set_read_only(true);
      }
    }
  }
}

void fill_terms(v1alpha1::OverheadTerms& terms, const char* fixed, const char* per_vcpu,
                double percent) {
  fill(terms.mutable_fixed(), fixed);
  fill(terms.mutable_per_vcpu(), per_vcpu);
  if (!terms.has_percent()) {
    terms.set_percent(percent);
  }
}

}  // namespace

void apply_defaults(v1alpha1::ActorTemplate& object) {
  fill(object.mutable_metadata()->mutable_atespace(), "default");
  v1alpha1::ActorTemplateSpec& spec = *object.mutable_spec();
  for (v1alpha1::Container& container : *spec.mutable_containers()) {
    fill_container(container, spec);
  }
  v1alpha1::SnapshotPolicy& snapshots = *spec.mutable_snapshots();
  if (snapshots.on_pause() == v1alpha1::SnapshotPolicy::UNSET) {
    snapshots.set_on_pause(v1alpha1::SnapshotPolicy::FULL);
  }
  if (snapshots.on_suspend() == v1alpha1::SnapshotPolicy::UNSET) {
    snapshots.set_on_suspend(v1alpha1::SnapshotPolicy::FULL);
  }
  if (spec.has_idle()) {
    plain_duration(spec.mutable_idle()->mutable_after());
  }
  if (spec.restart_policy() == v1alpha1::Unset) {
    spec.set_restart_policy(v1alpha1::Never);
  }
  fill(spec.mutable_termination_grace(), "10s");
  plain_duration(spec.mutable_termination_grace());
}

void apply_defaults(v1alpha1::WorkerPool& object) {
  v1alpha1::WorkerPoolSpec& spec = *object.mutable_spec();
  if (!spec.has_replicas()) {
    spec.set_replicas(1);
  }
  v1alpha1::Limits& limits = *spec.mutable_resources()->mutable_limits();
  fill(limits.mutable_pids(), "4096");
  plain_limits(limits);
}

void apply_defaults(v1alpha1::SandboxConfig& object) {
  v1alpha1::SandboxConfigSpec& spec = *object.mutable_spec();
  if (spec.sandbox_class() == v1alpha1::gvisor) {
    fill(spec.mutable_gvisor()->mutable_platform(), "systrap");
  }
}

void apply_defaults(v1alpha1::NodeConfig& object) {
  v1alpha1::NodeConfigSpec& spec = *object.mutable_spec();
  fill(spec.mutable_state_dir(), "/var/lib/ate");
  fill(spec.mutable_run_dir(), "/run/ate");
  v1alpha1::Listen& listen = *spec.mutable_listen();
  if (listen.socket().empty()) {
    listen.set_socket(spec.run_dir() + "/noded.sock");
  }
  fill(listen.mutable_mode(), "0660");
  fill(listen.mutable_group(), "ate");
  fill(spec.mutable_enforcement(), "required");
  fill(spec.mutable_cgroup_root(), "/sys/fs/cgroup/ate.slice");
  v1alpha1::UidRange& range = *spec.mutable_uid_range();
  if (!range.has_start()) {
    range.set_start(2'000'000'000);
  }
  if (!range.has_count()) {
    range.set_count(65'536);
  }
  v1alpha1::SizingOvercommit& overcommit = *spec.mutable_sizing()->mutable_overcommit();
  if (!overcommit.has_memory()) {
    overcommit.set_memory(1);
  }
  if (!overcommit.has_cpu()) {
    overcommit.set_cpu(1);
  }
  fill(spec.mutable_host_reserve()->mutable_memory(), "1Gi");
  fill_terms(*spec.mutable_overhead()->mutable_microvm(), "12Mi", "1Mi", 1.0);
  fill_terms(*spec.mutable_overhead()->mutable_gvisor(), "72Mi", "0", 0);
  fill(spec.mutable_operation_wait(), "60s");
  fill(spec.mutable_log_level(), "info");
  fill(spec.mutable_disk_reserve(), "1Gi");
  fill(spec.mutable_network()->mutable_uplinks(), "198.19.0.0/16");
  fill(spec.mutable_network()->mutable_nft(), "/usr/sbin/nft");
  fill(spec.mutable_network()->mutable_resolv_conf(), "/etc/resolv.conf");
  fill(spec.mutable_secrets_dir(), "/etc/ate/secrets");
  v1alpha1::Retention& retention = *spec.mutable_retention();
  if (!retention.has_operations()) {
    retention.set_operations(10'000);
  }
  if (!retention.has_events()) {
    retention.set_events(100'000);
  }
  fill(retention.mutable_operations_for(), "0s");
  fill(retention.mutable_events_for(), "0s");
  fill(retention.mutable_unreferenced_for(), "24h");
}

}  // namespace ate::core
