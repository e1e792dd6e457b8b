#include "ate/core/oci_spec.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "ate/v1alpha1/objects.pb.h"
#include "core/json_text.hpp"

namespace ate::core {
namespace {

constexpr const char* kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Docker's default set without NET_RAW (runsc takes it away unless it runs with --net-raw):
/// package managers, su and sshd of ordinary images expect the rest. They hold against the sentry
/// only, never against the host.
constexpr std::array kCapabilities = {
    "CAP_AUDIT_WRITE", "CAP_CHOWN",  "CAP_DAC_OVERRIDE",     "CAP_FOWNER",  "CAP_FSETID",
    "CAP_KILL",        "CAP_MKNOD",  "CAP_NET_BIND_SERVICE", "CAP_SETFCAP", "CAP_SETGID",
    "CAP_SETPCAP",     "CAP_SETUID", "CAP_SYS_CHROOT"};

struct FixedMount {
  const char* destination;
  const char* type;
  const char* options;  // JSON array
};

constexpr std::array kMounts = {
    FixedMount{"/proc", "proc", R"(["nosuid","noexec","nodev"])"},
    FixedMount{"/dev", "tmpfs", R"(["nosuid","strictatime","mode=755","size=65536k"])"},
    FixedMount{"/dev/pts", "devpts",
               R"(["nosuid","noexec","newinstance","ptmxmode=0666","mode=0620","gid=5"])"},
    FixedMount{"/dev/shm", "tmpfs", R"(["nosuid","noexec","nodev","mode=1777","size=65536k"])"},
    FixedMount{"/dev/mqueue", "mqueue", R"(["nosuid","noexec","nodev"])"},
    FixedMount{"/sys", "sysfs", R"(["nosuid","noexec","nodev","ro"])"}};

void append_strings(std::string& out, const std::vector<std::string>& values) {
  out.push_back('[');
  bool first = true;
  for (const std::string& value : values) {
    if (!std::exchange(first, false)) {
      out.push_back(',');
    }
    append_json_string(out, value);
  }
  out.push_back(']');
}

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string_view env_name(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

void put_env(std::vector<std::string>& env, const std::string& entry, bool replace) {
  const auto same = [&entry](const std::string& other) {
    return env_name(other) == env_name(entry);
  };
  const auto found = std::find_if(env.begin(), env.end(), same);
  if (found == env.end()) {
    env.push_back(entry);
  } else if (replace) {
    *found = entry;
  }
}

std::string resources_json(const CgroupLimits& limits) {
  std::vector<std::string> parts;
  if (limits.memory_bytes > 0) {
    parts.push_back(R"("memory":{"limit":)" + std::to_string(limits.memory_bytes) + "}");
  }
  if (limits.cpu_milli > 0) {
    parts.push_back(R"("cpu":{"period":)" + std::to_string(kCpuPeriodMicros) + R"(,"quota":)" +
                    std::to_string(cpu_quota_micros(limits.cpu_milli)) + "}");
  }
  if (limits.pids > 0) {
    parts.push_back(R"("pids":{"limit":)" + std::to_string(limits.pids) + "}");
  }
  std::string out = "{";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    out += (i == 0 ? "" : ",") + parts[i];
  }
  return out + "}";
}

std::string capabilities_json(bool root) {
  std::vector<std::string> all(kCapabilities.begin(), kCapabilities.end());
  std::string set;
  append_strings(set, all);
  // As Docker does: another user than root starts with none in effect, setuid programs get them.
  const std::string effective = root ? set : "[]";
  return R"({"bounding":)" + set + R"(,"effective":)" + effective + R"(,"permitted":)" + effective +
         "}";
}

std::string process_json(const OciPlan& plan, const std::vector<std::string>& args,
                         const std::string& cwd) {
  std::string out = R"({"terminal":false,"user":{"uid":)" + std::to_string(plan.user.uid) +
                    R"(,"gid":)" + std::to_string(plan.user.gid);
  if (!plan.user.additional_gids.empty()) {
    out += R"(,"additionalGids":[)";
    for (std::size_t i = 0; i < plan.user.additional_gids.size(); ++i) {
      out += (i == 0 ? "" : ",") + std::to_string(plan.user.additional_gids[i]);
    }
    out += "]";
  }
  out += R"(},"args":)";
  append_strings(out, args);
  out += R"(,"env":)";
  append_strings(out, oci_env(plan));
  out += R"(,"cwd":)" + quoted(cwd);
  out += R"(,"capabilities":)" + capabilities_json(plan.user.uid == 0);
  out += R"(,"rlimits":[{"type":"RLIMIT_NOFILE","hard":1048576,"soft":65536}])";
  // runsc sets it always; said here for whoever reads the bundle.
  out += R"(,"noNewPrivileges":false})";
  return out;
}

std::string mounts_json(const OciPlan& plan) {
  std::string out = "[";
  for (const FixedMount& mount : kMounts) {
    out += out.size() == 1 ? "\n    " : ",\n    ";
    out += R"({"destination":)" + quoted(mount.destination) + R"(,"type":)" + quoted(mount.type) +
           R"(,"source":)" + quoted(mount.type) + R"(,"options":)" + mount.options + "}";
  }
  // By destination, so a mount below another comes after it.
  for (const auto& [destination, source] : plan.paths.bind_sources) {
    out += R"(,
    {"destination":)" +
           quoted(destination) + R"(,"type":"bind","source":)" + quoted(source) +
           R"(,"options":["rbind","ro","nosuid","nodev"]})";
  }
  return out + "\n  ]";
}

bool beneath(std::string_view path, std::string_view parent) {
  return path == parent ||
         (path.size() > parent.size() && path.starts_with(parent) && path[parent.size()] == '/');
}

Status check_destination(const std::string& destination) {
  const bool clean = destination.size() > 1 && destination.front() == '/' &&
                     destination.back() != '/' && destination.find("//") == std::string::npos &&
                     (destination + "/").find("/./") == std::string::npos &&
                     (destination + "/").find("/../") == std::string::npos;
  if (!clean) {
    return fail(Error(Errc::InvalidValue,
                      "mount path " + quoted(destination) + " is not a clean absolute path"));
  }
  for (const FixedMount& mount : kMounts) {
    if (beneath(destination, mount.destination)) {
      return fail(Error(Errc::InvalidValue, "mount path " + quoted(destination) + " is inside " +
                                                mount.destination + ", which every actor has"));
    }
  }
  return {};
}

std::string absolute(const std::string& working_dir) {
  if (working_dir.empty()) {
    return "/";
  }
  // Docker takes a relative WORKDIR from the root.
  return working_dir.front() == '/' ? working_dir : "/" + working_dir;
}

}  // namespace

Result<std::vector<std::string>> oci_args(const OciImage& image,
                                          const v1alpha1::Container& container) {
  std::vector<std::string> args;
  const bool own_command = container.command_size() > 0;
  if (own_command) {
    args.assign(container.command().begin(), container.command().end());
  } else {
    args = image.entrypoint;
  }
  if (container.args_size() > 0) {
    args.insert(args.end(), container.args().begin(), container.args().end());
  } else if (!own_command) {
    args.insert(args.end(), image.cmd.begin(), image.cmd.end());
  }
  if (args.empty() || args.front().empty()) {
    return fail(Error(Errc::InvalidValue,
                      "the image names neither an entrypoint nor a command; set command")
                    .with_field("spec.containers[0].command"));
  }
  return args;
}

std::vector<std::string> oci_env(const OciPlan& plan) {
  std::vector<std::string> env;
  for (const std::string& entry : plan.image.env) {
    if (!env_name(entry).empty() && entry.find('=') != std::string::npos) {
      put_env(env, entry, true);
    }
  }
  for (const std::string& entry : plan.template_env) {
    put_env(env, entry, true);
  }
  put_env(env, std::string("PATH=") + kDefaultPath, false);
  put_env(env, "HOME=" + (plan.user.home.empty() ? std::string("/") : plan.user.home), false);
  put_env(env, std::string("HOSTNAME=") + kActorHostname, false);
  return env;
}

Result<std::string> build_oci_spec(const OciPlan& plan, const v1alpha1::Container& container) {
  ATE_ASSIGN(const std::vector<std::string> args, oci_args(plan.image, container));
  for (const auto& [destination, source] : plan.paths.bind_sources) {
    ATE_TRY(check_destination(destination));
  }
  const std::string cwd =
      absolute(container.working_dir().empty() ? plan.image.working_dir : container.working_dir());
  std::string out =
      "{\n  \"ociVersion\":\"1.0.2\",\n  \"process\":" + process_json(plan, args, cwd);
  // Not read-only: the guest's writes go to the overlay, never to the shared image.
  out += ",\n  \"root\":{\"path\":" + quoted(plan.paths.rootfs) + ",\"readonly\":false}";
  out += ",\n  \"hostname\":" + quoted(kActorHostname);
  out += ",\n  \"mounts\":" + mounts_json(plan);
  // cgroupsPath and resources are there also when nothing is enforced: a restore may fill them in.
  out += ",\n  \"linux\":{\"cgroupsPath\":" + quoted(plan.paths.cgroups_path) +
         ",\"resources\":" + resources_json(plan.paths.limits);
  out +=
      R"(,"namespaces":[{"type":"pid"},{"type":"ipc"},{"type":"uts"},{"type":"mount"},{"type":"network","path":)" +
      quoted(plan.paths.network_namespace) + "}]}\n}\n";
  return out;
}

namespace {

/// Replacements of spans, applied back to front so that spans stay right.
class Edits {
 public:
  void replace(JsonSpan span, std::string text) { edits_.emplace_back(span, std::move(text)); }

  [[nodiscard]] std::string apply(std::string_view text) {
    std::sort(edits_.begin(), edits_.end(),
              [](const auto& a, const auto& b) { return a.first.begin > b.first.begin; });
    std::string out(text);
    for (const auto& [span, value] : edits_) {
      out.replace(span.begin, span.end - span.begin, value);
    }
    return out;
  }

 private:
  std::vector<std::pair<JsonSpan, std::string>> edits_;
};

Error corrupt(const std::string& what) {
  return Error(Errc::SnapshotCorrupt, "the snapshot's OCI spec " + what).with_field("ociSpec");
}

Result<JsonSpan> member(std::string_view spec, JsonSpan object, const char* key) {
  const std::optional<JsonSpan> found = json_member(spec, object, key);
  if (!found) {
    return fail(corrupt(std::string("has no ") + key));
  }
  return *found;
}

struct Bind {
  std::string destination;
  JsonSpan source;
};

Result<std::vector<Bind>> binds(std::string_view spec, JsonSpan root) {
  ATE_ASSIGN(const JsonSpan mounts, member(spec, root, "mounts"));
  std::vector<Bind> found;
  for (const JsonSpan mount : json_elements(spec, mounts)) {
    ATE_ASSIGN(const JsonSpan type, member(spec, mount, "type"));
    if (json_string(spec, type) != "bind") {
      continue;
    }
    ATE_ASSIGN(const JsonSpan destination, member(spec, mount, "destination"));
    ATE_ASSIGN(const JsonSpan source, member(spec, mount, "source"));
    const std::optional<std::string> name = json_string(spec, destination);
    if (!name) {
      return fail(corrupt("has a mount without destination"));
    }
    found.push_back({.destination = *name, .source = source});
  }
  return found;
}

Status replace_binds(std::string_view spec, JsonSpan root, const OciPaths& paths, Edits& edits) {
  ATE_ASSIGN(const std::vector<Bind> found, binds(spec, root));
  for (const Bind& bind : found) {
    const auto source = paths.bind_sources.find(bind.destination);
    if (source == paths.bind_sources.end()) {
      return fail(Error(Errc::SnapshotIncompatible, "the snapshot mounts " +
                                                        quoted(bind.destination) +
                                                        ", which this actor doesn't have")
                      .with_field("ociSpec.mounts"));
    }
    edits.replace(bind.source, quoted(source->second));
  }
  return {};
}

Status replace_network(std::string_view spec, JsonSpan linux_part, const OciPaths& paths,
                       Edits& edits) {
  ATE_ASSIGN(const JsonSpan namespaces, member(spec, linux_part, "namespaces"));
  for (const JsonSpan entry : json_elements(spec, namespaces)) {
    ATE_ASSIGN(const JsonSpan type, member(spec, entry, "type"));
    if (json_string(spec, type) == "network") {
      ATE_ASSIGN(const JsonSpan path, member(spec, entry, "path"));
      edits.replace(path, quoted(paths.network_namespace));
      return {};
    }
  }
  return fail(corrupt("has no network namespace"));
}

}  // namespace

Result<std::string> with_runtime_paths(std::string_view spec, const OciPaths& paths) {
  if (!json_well_formed(spec)) {
    return fail(corrupt("is not JSON"));
  }
  const JsonSpan root = json_root(spec);
  Edits edits;
  ATE_ASSIGN(const JsonSpan root_fs, member(spec, root, "root"));
  ATE_ASSIGN(const JsonSpan path, member(spec, root_fs, "path"));
  edits.replace(path, quoted(paths.rootfs));
  ATE_TRY(replace_binds(spec, root, paths, edits));
  ATE_ASSIGN(const JsonSpan linux_part, member(spec, root, "linux"));
  ATE_ASSIGN(const JsonSpan cgroups_path, member(spec, linux_part, "cgroupsPath"));
  edits.replace(cgroups_path, quoted(paths.cgroups_path));
  ATE_ASSIGN(const JsonSpan resources, member(spec, linux_part, "resources"));
  edits.replace(resources, resources_json(paths.limits));
  ATE_TRY(replace_network(spec, linux_part, paths, edits));
  return edits.apply(spec);
}

Result<std::vector<std::string>> bind_destinations(std::string_view spec) {
  if (!json_well_formed(spec)) {
    return fail(corrupt("is not JSON"));
  }
  ATE_ASSIGN(const std::vector<Bind> found, binds(spec, json_root(spec)));
  std::vector<std::string> destinations;
  destinations.reserve(found.size());
  for (const Bind& bind : found) {
    destinations.push_back(bind.destination);
  }
  return destinations;
}

}  // namespace ate::core
