#include <algorithm>
#include <limits>
#include <set>

#include "ate/core/validate.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "core/checker.hpp"

namespace ate::core {
namespace {

using namespace std::chrono_literals;

constexpr int kMaxContainers = 16;
constexpr int kMaxStrings = 1024;
constexpr int kMaxEnv = 1024;
constexpr int kMaxPorts = 64;
constexpr int kMaxVolumes = 32;
// The kernel's MAX_ARG_STRLEN.
constexpr std::size_t kMaxArgument = 128U << 10U;

/// Uniqueness within one list: the second one is named.
class Unique {
 public:
  explicit Unique(Checker& check) : check_(check) {}

  void add(const std::string& path, const std::string& value) {
    if (!value.empty() && !seen_.insert(value).second) {
      check_.invalid(path, "\"" + value + "\" is used twice");
    }
  }

 private:
  Checker& check_;
  std::set<std::string> seen_;
};

bool is_env_name(const std::string& name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  return !name.empty() && name.size() <= 256 && !(name.front() >= '0' && name.front() <= '9') &&
         std::all_of(name.begin(), name.end(), good);
}

/// Where the runtime puts things of its own.
bool is_reserved_mount(const std::string& path) {
  for (const std::string reserved : {"/proc", "/sys", "/dev"}) {
    if (path == reserved || path.starts_with(reserved + "/")) {
      return true;
    }
  }
  return path == "/etc" || path == "/etc/resolv.conf" || path == "/etc/hosts" ||
         path == "/etc/hostname";
}

bool has_durable_dir(const v1alpha1::ActorTemplateSpec& spec) {
  return std::any_of(spec.volumes().begin(), spec.volumes().end(),
                     [](const v1alpha1::Volume& volume) { return volume.has_durable_dir(); });
}

class TemplateChecker {
 public:
  TemplateChecker(Checker& check, const v1alpha1::ActorTemplateSpec& spec)
      : check_(check), spec_(spec) {}

  void run() {
    sandbox_class();
    check_.labels("spec.workerSelector", spec_.worker_selector());
    if (spec_.has_resources()) {
      limits("spec.resources.limits", spec_.resources().limits());
    }
    volumes();
    containers();
    policies();
  }

 private:
  void sandbox_class() {
    if (spec_.sandbox_class() == v1alpha1::unspecified) {
      check_.invalid("spec.sandboxClass", "is required: gvisor");
    } else if (spec_.sandbox_class() == v1alpha1::microvm) {
      check_.not_yet("spec.sandboxClass", "the class microvm; use gvisor");
    }
  }

  /// Values that are wrong are wrong, also in fields of later work.
  void limits(const std::string& path, const v1alpha1::Limits& limits) {
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    if (!limits.cpu().empty()) {
      check_.cpu_milli(path + ".cpu", limits.cpu(), 1, 1'000'000'000);
    }
    if (!limits.memory().empty()) {
      check_.bytes(path + ".memory", limits.memory(), 1, kMax);
    }
    if (!limits.pids().empty()) {
      check_.count(path + ".pids", limits.pids(), 1, 4'194'304);
    }
  }

  void volumes() {
    Unique names(check_);
    if (spec_.volumes_size() > kMaxVolumes) {
      check_.invalid("spec.volumes", "more than " + std::to_string(kMaxVolumes) + " volumes");
    }
    for (int i = 0; i < spec_.volumes_size(); ++i) {
      const v1alpha1::Volume& volume = spec_.volumes(i);
      const std::string path = item_path("spec.volumes", i);
      check_.label_name(path + ".name", volume.name(), true);
      names.add(path + ".name", volume.name());
      if (volume.has_durable_dir() == volume.has_system_info()) {
        check_.invalid(path, "needs exactly one of durableDir and systemInfo");
      }
      if (volume.has_durable_dir()) {
        if (!volume.durable_dir().size().empty()) {
          check_.bytes(path + ".durableDir.size", volume.durable_dir().size(), 1LL << 20,
                       1LL << 50);
        }
        if (spec_.sandbox_class() == v1alpha1::microvm) {
          check_.not_yet(path + ".durableDir", "durable directories of the class microvm");
        }
      }
    }
  }

  void containers() {
    Unique names(check_);
    if (spec_.containers_size() == 0) {
      check_.invalid("spec.containers", "is required: one container or several");
    } else if (spec_.containers_size() > kMaxContainers) {
      check_.invalid("spec.containers",
                     "more than " + std::to_string(kMaxContainers) + " containers");
    } else if (std::ranges::all_of(spec_.containers(), &v1alpha1::Container::sidecar)) {
      check_.invalid("spec.containers",
                     "needs one that is no sidecar: its end is the end of the actor");
    }
    for (int i = 0; i < std::min(spec_.containers_size(), kMaxContainers); ++i) {
      const std::string path = item_path("spec.containers", i);
      names.add(path + ".name", spec_.containers(i).name());
      container(path, spec_.containers(i));
    }
  }

  void container(const std::string& path, const v1alpha1::Container& container) {
    check_.label_name(path + ".name", container.name(), true);
    check_.required(path + ".image", container.image());
    check_.text(path + ".image", container.image(), 4096);
    strings(path + ".command", container.command());
    strings(path + ".args", container.args());
    if (container.command_size() > 0 && container.command(0).empty()) {
      check_.invalid(path + ".command[0]", "must not be empty");
    }
    environment(path + ".env", container.env());
    if (!container.working_dir().empty() && container.working_dir() != "/") {
      check_.clean_path(path + ".workingDir", container.working_dir());
    }
    ports(path + ".ports", container.ports());
    if (container.has_readyz()) {
      readyz(path + ".readyz", container.readyz());
    }
    if (container.has_resources()) {
      limits(path + ".resources.limits", container.resources().limits());
      if (spec_.sandbox_class() == v1alpha1::microvm) {
        check_.not_yet(path + ".resources", "limits of one container");
      } else {
        check_.invalid(path + ".resources",
                       "not on gvisor: its containers share one kernel process, which only the "
                       "worker's own limits can bound; set them in the WorkerPool");
      }
    }
    mounts(path + ".volumeMounts", container.volume_mounts());
  }

  template <class Strings>
  void strings(const std::string& path, const Strings& values) {
    if (values.size() > kMaxStrings) {
      check_.invalid(path, "more than " + std::to_string(kMaxStrings) + " entries");
      return;
    }
    for (int i = 0; i < values.size(); ++i) {
      if (values[i].size() > kMaxArgument) {
        check_.invalid(item_path(path, i), "is longer than 131072 bytes");
      }
    }
  }

  template <class Variables>
  void environment(const std::string& path, const Variables& variables) {
    Unique names(check_);
    if (variables.size() > kMaxEnv) {
      check_.invalid(path, "more than " + std::to_string(kMaxEnv) + " entries");
      return;
    }
    for (int i = 0; i < variables.size(); ++i) {
      const v1alpha1::EnvVar& variable = variables[i];
      const std::string item = item_path(path, i);
      if (!is_env_name(variable.name())) {
        check_.invalid(
            item + ".name",
            "must be letters, digits, \"_\", \".\" and \"-\", not starting with a digit");
      }
      names.add(item + ".name", variable.name());
      if (variable.has_value() == variable.has_value_from()) {
        check_.invalid(item, "needs exactly one of value and valueFrom");
      }
      if (variable.value().size() > kMaxArgument) {
        check_.invalid(item + ".value", "is longer than 131072 bytes");
      }
      if (variable.has_value_from()) {
        check_.clean_path(item + ".valueFrom.file", variable.value_from().file());
      }
    }
  }

  template <class Ports>
  void ports(const std::string& path, const Ports& ports) {
    Unique names(check_);
    Unique numbers(check_);
    if (ports.size() > kMaxPorts) {
      check_.invalid(path, "more than " + std::to_string(kMaxPorts) + " ports");
      return;
    }
    for (int i = 0; i < ports.size(); ++i) {
      const v1alpha1::ContainerPort& port = ports[i];
      const std::string item = item_path(path, i);
      check_.label_name(item + ".name", port.name(), false);
      names.add(item + ".name", port.name());
      check_.port(item + ".containerPort", port.container_port());
      numbers.add(item + ".containerPort", std::to_string(port.container_port()));
      if (port.protocol() == "UDP") {
        check_.not_yet(item + ".protocol", "UDP; only TCP is");
      } else if (!port.protocol().empty() && port.protocol() != "TCP") {
        check_.invalid(item + ".protocol", "must be TCP");
      }
    }
  }

  void readyz(const std::string& path, const v1alpha1::Readyz& readyz) {
    const int given =
        (readyz.has_http() ? 1 : 0) + (readyz.has_tcp() ? 1 : 0) + (readyz.has_exec() ? 1 : 0);
    if (given != 1) {
      check_.invalid(path, "needs exactly one of http, tcp and exec");
    }
    if (readyz.has_http()) {
      check_.port(path + ".http.port", readyz.http().port());
      const std::string& target = readyz.http().path();
      if (!target.empty() &&
          (target.front() != '/' || target.find_first_of(" #") != std::string::npos)) {
        check_.invalid(path + ".http.path", "must start with \"/\" and have no space or \"#\"");
      }
      check_.text(path + ".http.path", target, 1024);
    }
    if (readyz.has_tcp()) {
      check_.port(path + ".tcp.port", readyz.tcp().port());
    }
    if (readyz.has_exec()) {
      const auto& command = readyz.exec().command();
      if (command.empty() || command[0].empty()) {
        check_.invalid(path + ".exec.command", "is required: the program and its arguments");
      }
      strings(path + ".exec.command", command);
    }
    if (readyz.has_period_ms()) {
      check_.range(path + ".periodMs", readyz.period_ms(), 1, 60'000);
    }
    if (!readyz.timeout().empty()) {
      check_.duration(path + ".timeout", readyz.timeout(), 1ms, 1h);
    }
  }

  template <class Mounts>
  void mounts(const std::string& path, const Mounts& mounts) {
    Unique paths(check_);
    for (int i = 0; i < mounts.size(); ++i) {
      const v1alpha1::VolumeMount& mount = mounts[i];
      const std::string item = item_path(path, i);
      const auto is_named = [&mount](const v1alpha1::Volume& v) {
        return v.name() == mount.name();
      };
      if (std::none_of(spec_.volumes().begin(), spec_.volumes().end(), is_named)) {
        check_.invalid(item + ".name",
                       "there is no volume \"" + mount.name() + "\" in spec.volumes");
      }
      if (check_.clean_path(item + ".mountPath", mount.mount_path()) &&
          is_reserved_mount(mount.mount_path())) {
        check_.invalid(item + ".mountPath",
                       "\"" + mount.mount_path() + "\" belongs to the sandbox");
      }
      paths.add(item + ".mountPath", mount.mount_path());
      overlaps(item + ".mountPath", mounts, i);
    }
    if (mounts.size() > kMaxVolumes) {
      check_.invalid(path, "more than " + std::to_string(kMaxVolumes) + " mounts");
    }
  }

  /// A mount inside another one would have to make its directory in that volume.
  template <class Mounts>
  void overlaps(const std::string& path, const Mounts& mounts, int index) {
    const std::string& inner = mounts[index].mount_path();
    for (int i = 0; i < mounts.size(); ++i) {
      const std::string& outer = mounts[i].mount_path();
      if (i != index && !outer.empty() && inner.starts_with(outer + "/")) {
        check_.invalid(
            path, "\"" + inner + "\" is inside \"" + outer + "\", where another volume is mounted");
      }
    }
  }

  void scope(const std::string& path, v1alpha1::SnapshotPolicy::Scope scope) {
    const bool on_golden = scope == v1alpha1::SnapshotPolicy::DATA_ON_GOLDEN;
    if ((on_golden || scope == v1alpha1::SnapshotPolicy::DATA) && !has_durable_dir(spec_)) {
      check_.invalid(path, v1alpha1::SnapshotPolicy::Scope_Name(scope) +
                               " keeps durable volumes only, and spec.volumes has no durableDir");
    }
    if (on_golden && !spec_.snapshots().golden()) {
      check_.invalid(path,
                     "DATA_ON_GOLDEN starts from the golden snapshot: ask for one by "
                     "spec.snapshots.golden: true");
    }
  }

  void policies() {
    scope("spec.snapshots.onPause", spec_.snapshots().on_pause());
    scope("spec.snapshots.onSuspend", spec_.snapshots().on_suspend());
    if (spec_.snapshots().has_keep_last()) {
      check_.range("spec.snapshots.keepLast", spec_.snapshots().keep_last(), 0, 100'000);
    }
    if (!spec_.snapshots().keep_for().empty()) {
      check_.duration("spec.snapshots.keepFor", spec_.snapshots().keep_for(), 1min, 24h * 3650);
    }
    if (spec_.has_idle()) {
      check_.idle("spec.idle", spec_.idle());
    }
    if (!spec_.disk_quota().empty()) {
      check_.bytes("spec.diskQuota", spec_.disk_quota(), 1LL << 20, 1LL << 50);
    }
    check_.ttl("spec.ttl", spec_.ttl());
    if (spec_.on_host_reboot() != v1alpha1::ActorTemplateSpec::none) {
      check_.not_yet("spec.onHostReboot", "anything but none");
    }
    if (!spec_.termination_grace().empty()) {
      check_.duration("spec.terminationGrace", spec_.termination_grace(), 0s, 1h);
    }
    if (spec_.has_warmup_seconds()) {
      check_.range("spec.warmupSeconds", spec_.warmup_seconds(), 0, 3600);
      if (!spec_.snapshots().golden()) {
        check_.invalid("spec.warmupSeconds",
                       "is how long a guest runs before its golden snapshot is taken: ask for one "
                       "by spec.snapshots.golden: true");
      }
    }
  }

  Checker& check_;
  const v1alpha1::ActorTemplateSpec& spec_;
};

}  // namespace

std::vector<Problem> validate(const v1alpha1::ActorTemplate& object) {
  Checker check;
  check.metadata(object.metadata(), true, true);
  TemplateChecker(check, object.spec()).run();
  return check.take();
}

}  // namespace ate::core
