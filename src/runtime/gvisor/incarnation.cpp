#include "runtime/gvisor/incarnation.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "ate/core/containers.hpp"
#include "ate/core/json.hpp"
#include "ate/os/fs.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "runtime/gvisor/secrets.hpp"

namespace ate::runtime::gvisor {
namespace {

constexpr mode_t kPrivate = 0700;
constexpr std::size_t kStateLimit = 16 << 20;
constexpr const char* kResolvConfText = "nameserver 169.254.17.1\n";
constexpr const char* kHostsText =
    "127.0.0.1 localhost\n"
    "::1 localhost ip6-localhost ip6-loopback\n"
    "169.254.17.2 actor\n";

/// What runsc's state file says, a JSON object; 0 when it can't be read.
std::int64_t gofer_pid(std::string_view state) {
  const core::JsonLimits limits{.bytes = kStateLimit};
  const std::expected<core::JsonValue, core::JsonFault> root = core::parse_json(state, limits);
  const core::JsonValue* pid = root ? root->find("goferPid") : nullptr;
  return pid == nullptr ? 0 : pid->as_integer().value_or(0);
}

os::ProcessId process(std::int64_t pid) {
  os::ProcessId id{.pid = static_cast<pid_t>(pid), .start_time = 0};
  if (const Result<std::uint64_t> start = os::process_start_time(id.pid)) {
    id.start_time = *start;
  }
  return id;
}

std::string container_field(int index) {
  return "spec.containers[" + std::to_string(index) + "]";
}

bool is_system_info(const v1alpha1::ActorTemplateSpec& spec, const std::string& name) {
  return std::any_of(spec.volumes().begin(), spec.volumes().end(), [&](const auto& volume) {
    return volume.name() == name && volume.has_system_info();
  });
}

}  // namespace

Layout make_layout(const core::Paths& paths, const std::string& uid, std::int64_t serial) {
  const std::string directory = paths.incarnation(uid, serial);
  return {.directory = directory,
          .bundle = directory + "/bundle",
          .files = directory + "/files",
          .pid_file = directory + "/sandbox.pid",
          .log = directory + "/runsc.log",
          .panic_log = directory + "/panic.log",
          .record = directory + "/incarnation",
          .overlay = paths.actor_overlay(uid, serial),
          .logs = paths.actor_logs(uid)};
}

Status write_files(const Layout& layout, const Incarnation& incarnation) {
  ATE_TRY(os::make_dirs(layout.bundle, kPrivate));
  ATE_TRY(os::make_dirs(layout.overlay, kPrivate));
  const std::string info = layout.files + "/info";
  ATE_TRY(os::make_dirs(layout.files, kPrivate));
  // The guest's user, whoever it is, has to pass through; its parents stay 0700.
  ATE_TRY(os::make_dir(info, 0755));
  constexpr mode_t kReadable = 0644;
  const std::pair<std::string, std::string> files[] = {
      {layout.files + "/resolv.conf", kResolvConfText},
      {layout.files + "/hosts", kHostsText},
      {layout.files + "/hostname", std::string(core::kActorHostname) + "\n"},
      {info + "/name", incarnation.name},
      {info + "/atespace", incarnation.atespace},
      {info + "/uid", incarnation.uid},
      {info + "/template", incarnation.template_name},
      {info + "/generation", std::to_string(incarnation.template_generation)},
      {info + "/serial", std::to_string(incarnation.serial)}};
  for (const auto& [path, text] : files) {
    ATE_TRY(os::create_file(path, text, kReadable));
  }
  return {};
}

Result<Binds> bind_sources(const Layout& layout, const v1alpha1::ActorTemplateSpec& spec, int index,
                           const std::map<std::string, std::string>& volumes) {
  const v1alpha1::Container& container = spec.containers(index);
  Binds binds;
  binds.sources = {{core::kResolvConf, layout.files + "/resolv.conf"},
                   {core::kHosts, layout.files + "/hosts"},
                   {core::kHostnameFile, layout.files + "/hostname"}};
  for (int i = 0; i < container.volume_mounts_size(); ++i) {
    const v1alpha1::VolumeMount& mount = container.volume_mounts(i);
    const std::string field = container_field(index) + ".volumeMounts[" + std::to_string(i) + "]";
    const auto durable = volumes.find(mount.name());
    if (durable == volumes.end() && !is_system_info(spec, mount.name())) {
      return fail(Error(Errc::InvalidValue, "there is no volume \"" + mount.name() + "\"")
                      .with_field(field + ".name"));
    }
    const std::string source = durable == volumes.end() ? layout.files + "/info" : durable->second;
    if (!binds.sources.emplace(mount.mount_path(), source).second) {
      return fail(
          Error(Errc::InvalidValue, "something is mounted at " + mount.mount_path() + " already")
              .with_field(field + ".mountPath"));
    }
    if (durable != volumes.end() && !mount.read_only()) {
      binds.writable.insert(mount.mount_path());
    }
  }
  return binds;
}

Result<std::vector<std::string>> template_env(const v1alpha1::Container& container, int index,
                                              const std::string& secrets_dir) {
  std::vector<std::string> env;
  for (int i = 0; i < container.env_size(); ++i) {
    const v1alpha1::EnvVar& variable = container.env(i);
    std::string value = variable.value();
    if (variable.has_value_from()) {
      const std::string field =
          container_field(index) + ".env[" + std::to_string(i) + "].valueFrom.file";
      Result<std::string> secret = read_secret(secrets_dir, variable.value_from().file());
      if (!secret) {
        return fail(std::move(secret).error().with_field(field));
      }
      value = std::move(*secret);
    }
    env.push_back(variable.name() + "=" + value);
  }
  return env;
}

Result<SandboxProcesses> read_processes(const Layout& layout) {
  constexpr std::size_t kPidLimit = 64;
  const Result<std::string> text = os::read_file(layout.pid_file, kPidLimit);
  std::int64_t pid = 0;
  if (text) {
    static_cast<void>(std::from_chars(text->data(), text->data() + text->size(), pid));
  }
  if (pid <= 1) {
    return fail(Errc::RuntimeFailed, "runsc reported success but wrote no sandbox pid");
  }
  return SandboxProcesses{.sandbox = process(pid),
                          .gofer = read_gofer(layout, core::kRunscContainerId)};
}

os::ProcessId read_gofer(const Layout& layout, const std::string& id) {
  const Result<std::string> state =
      os::read_file(core::runsc_state_file(layout.directory, id), kStateLimit);
  const std::int64_t gofer = state ? gofer_pid(*state) : 0;
  return gofer > 1 ? process(gofer) : os::ProcessId{};
}

Status make_pause_rootfs(const std::string& directory) {
  const std::string program = directory + "/" + core::kPauseProgramName;
  if (os::exists(program)) {
    return {};
  }
  constexpr mode_t kProgram = 0755;
  // The guest's side opens it as nobody of this host; its parents let only us pass.
  ATE_TRY(os::make_dirs(directory, kProgram));
  return os::write_file_atomic(program, core::pause_program(), kProgram);
}

Status write_record(const Layout& layout, const Record& record) {
  ATE_TRY(os::make_dirs(layout.directory, kPrivate));
  return os::create_file(layout.record, record.netns_id + "\n" + record.cgroup + "\n", 0600);
}

Record read_record(const std::string& path) {
  Record record;
  const Result<std::string> text = os::read_file(path, 8192);
  if (text) {
    const std::size_t first = text->find('\n');
    if (first != std::string::npos) {
      record.netns_id = text->substr(0, first);
      record.cgroup = text->substr(first + 1, text->find('\n', first + 1) - first - 1);
    }
  }
  return record;
}

}  // namespace ate::runtime::gvisor
