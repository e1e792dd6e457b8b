#include "ate/core/oci_spec.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "ate/core/json.hpp"
#include "ate/v1alpha1/objects.pb.h"

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
  const std::vector<std::string> all(kCapabilities.begin(), kCapabilities.end());
  const std::string set = json_strings(all);
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
  out += json_strings(args);
  out += R"(,"env":)";
  out += json_strings(oci_env(plan));
  out += R"(,"cwd":)" + json_quote(cwd);
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
    out += R"({"destination":)" + json_quote(mount.destination) + R"(,"type":)" +
           json_quote(mount.type) + R"(,"source":)" + json_quote(mount.type) + R"(,"options":)" +
           mount.options + "}";
  }
  // By destination, so a mount below another comes after it.
  for (const auto& [destination, source] : plan.paths.bind_sources) {
    out += R"(,
    {"destination":)" +
           json_quote(destination) + R"(,"type":"bind","source":)" + json_quote(source) +
           R"(,"options":["rbind",)" +
           (plan.paths.writable.contains(destination) ? R"("rw")" : R"("ro")") +
           R"(,"nosuid","nodev"]})";
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
                      "mount path " + json_quote(destination) + " is not a clean absolute path"));
  }
  for (const FixedMount& mount : kMounts) {
    if (beneath(destination, mount.destination)) {
      return fail(Error(Errc::InvalidValue, "mount path " + json_quote(destination) +
                                                " is inside " + mount.destination +
                                                ", which every actor has"));
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
  out += ",\n  \"root\":{\"path\":" + json_quote(plan.paths.rootfs) + ",\"readonly\":false}";
  out += ",\n  \"hostname\":" + json_quote(kActorHostname);
  out += ",\n  \"mounts\":" + mounts_json(plan);
  // cgroupsPath and resources are there also when nothing is enforced: a restore may fill them in.
  out += ",\n  \"linux\":{\"cgroupsPath\":" + json_quote(plan.paths.cgroups_path) +
         ",\"resources\":" + resources_json(plan.paths.limits);
  out +=
      R"(,"namespaces":[{"type":"pid"},{"type":"ipc"},{"type":"uts"},{"type":"mount"},{"type":"network","path":)" +
      json_quote(plan.paths.network_namespace) + "}]}\n}\n";
  return out;
}

namespace {

/// Replacements of values, applied back to front so that their places stay right.
class Edits {
 public:
  void replace(const JsonValue& value, std::string text) {
    edits_.push_back({.begin = value.begin, .end = value.end, .text = std::move(text)});
  }

  [[nodiscard]] std::string apply(std::string_view text) {
    std::sort(edits_.begin(), edits_.end(),
              [](const Edit& a, const Edit& b) { return a.begin > b.begin; });
    std::string out(text);
    for (const Edit& edit : edits_) {
      out.replace(edit.begin, edit.end - edit.begin, edit.text);
    }
    return out;
  }

 private:
  struct Edit {
    std::size_t begin;
    std::size_t end;
    std::string text;
  };

  std::vector<Edit> edits_;
};

Error corrupt(const std::string& what) {
  return Error(Errc::SnapshotCorrupt, "the snapshot's OCI spec " + what).with_field("ociSpec");
}

Result<JsonValue> parse_spec(std::string_view spec) {
  std::expected<JsonValue, JsonFault> value = parse_json(spec, JsonLimits{});
  if (!value) {
    return fail(corrupt("is not JSON: " + value.error().what));
  }
  return std::move(*value);
}

Result<const JsonValue*> member(const JsonValue& object, const char* key) {
  const JsonValue* found = object.find(key);
  if (found == nullptr) {
    return fail(corrupt(std::string("has no ") + key));
  }
  return found;
}

struct Bind {
  std::string destination;
  const JsonValue* source;
};

bool is_of_type(const JsonValue& entry, std::string_view type) {
  const std::string* text = entry.as_text();
  return text != nullptr && *text == type;
}

Result<std::vector<Bind>> binds(const JsonValue& root) {
  ATE_ASSIGN(const JsonValue* mounts, member(root, "mounts"));
  std::vector<Bind> found;
  for (const JsonValue& mount : mounts->items) {
    ATE_ASSIGN(const JsonValue* type, member(mount, "type"));
    if (!is_of_type(*type, "bind")) {
      continue;
    }
    ATE_ASSIGN(const JsonValue* destination, member(mount, "destination"));
    ATE_ASSIGN(const JsonValue* source, member(mount, "source"));
    if (destination->as_text() == nullptr) {
      return fail(corrupt("has a mount without destination"));
    }
    found.push_back({.destination = *destination->as_text(), .source = source});
  }
  return found;
}

Status replace_binds(const JsonValue& root, const OciPaths& paths, Edits& edits) {
  ATE_ASSIGN(const std::vector<Bind> found, binds(root));
  for (const Bind& bind : found) {
    const auto source = paths.bind_sources.find(bind.destination);
    if (source == paths.bind_sources.end()) {
      return fail(Error(Errc::SnapshotIncompatible, "the snapshot mounts " +
                                                        json_quote(bind.destination) +
                                                        ", which this actor doesn't have")
                      .with_field("ociSpec.mounts"));
    }
    edits.replace(*bind.source, json_quote(source->second));
  }
  return {};
}

Status replace_network(const JsonValue& linux_part, const OciPaths& paths, Edits& edits) {
  ATE_ASSIGN(const JsonValue* namespaces, member(linux_part, "namespaces"));
  for (const JsonValue& entry : namespaces->items) {
    ATE_ASSIGN(const JsonValue* type, member(entry, "type"));
    if (is_of_type(*type, "network")) {
      ATE_ASSIGN(const JsonValue* path, member(entry, "path"));
      edits.replace(*path, json_quote(paths.network_namespace));
      return {};
    }
  }
  return fail(corrupt("has no network namespace"));
}

}  // namespace

Result<std::string> with_runtime_paths(std::string_view spec, const OciPaths& paths) {
  ATE_ASSIGN(const JsonValue root, parse_spec(spec));
  Edits edits;
  ATE_ASSIGN(const JsonValue* root_fs, member(root, "root"));
  ATE_ASSIGN(const JsonValue* path, member(*root_fs, "path"));
  edits.replace(*path, json_quote(paths.rootfs));
  ATE_TRY(replace_binds(root, paths, edits));
  ATE_ASSIGN(const JsonValue* linux_part, member(root, "linux"));
  ATE_ASSIGN(const JsonValue* cgroups_path, member(*linux_part, "cgroupsPath"));
  edits.replace(*cgroups_path, json_quote(paths.cgroups_path));
  ATE_ASSIGN(const JsonValue* resources, member(*linux_part, "resources"));
  edits.replace(*resources, resources_json(paths.limits));
  ATE_TRY(replace_network(*linux_part, paths, edits));
  return edits.apply(spec);
}

Result<std::vector<std::string>> bind_destinations(std::string_view spec) {
  ATE_ASSIGN(const JsonValue root, parse_spec(spec));
  ATE_ASSIGN(const std::vector<Bind> found, binds(root));
  std::vector<std::string> destinations;
  destinations.reserve(found.size());
  for (const Bind& bind : found) {
    destinations.push_back(bind.destination);
  }
  return destinations;
}

}  // namespace ate::core
