#include "ate/core/oci_spec.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "ate/core/json.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "core/oci_text.hpp"

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

std::string capabilities_json(bool root) {
  const std::vector<std::string> all(kCapabilities.begin(), kCapabilities.end());
  const std::string set = json_strings(all);
  // As Docker does: another user than root starts with none in effect, setuid programs get them.
  const std::string effective = root ? set : "[]";
  return R"({"bounding":)" + set + R"(,"effective":)" + effective + R"(,"permitted":)" + effective +
         "}";
}

std::string process_json(const OciProcess& process) {
  std::string out = R"({"terminal":false,"user":{"uid":)" + std::to_string(process.user.uid) +
                    R"(,"gid":)" + std::to_string(process.user.gid);
  if (!process.user.additional_gids.empty()) {
    out += R"(,"additionalGids":[)";
    for (std::size_t i = 0; i < process.user.additional_gids.size(); ++i) {
      out += (i == 0 ? "" : ",") + std::to_string(process.user.additional_gids[i]);
    }
    out += "]";
  }
  out += R"(},"args":)";
  out += json_strings(process.args);
  out += R"(,"env":)";
  out += json_strings(process.env);
  out += R"(,"cwd":)" + json_quote(process.cwd);
  out += R"(,"capabilities":)" + capabilities_json(process.user.uid == 0);
  out += R"(,"rlimits":[{"type":"RLIMIT_NOFILE","hard":1048576,"soft":65536}])";
  // runsc sets it always; said here for whoever reads the bundle.
  out += R"(,"noNewPrivileges":false})";
  return out;
}

/// By them runsc tells the root of a sandbox from what joins it, and a restore who is who.
std::string annotations_json(const char* type, const OciPod& pod) {
  std::string out = R"({"io.kubernetes.cri.container-type":)" + json_quote(type) +
                    R"(,"io.kubernetes.cri.container-name":)" + json_quote(pod.name);
  if (!pod.sandbox.empty()) {
    out += R"(,"io.kubernetes.cri.sandbox-id":)" + json_quote(pod.sandbox);
  }
  return out + "}";
}

/// cgroupsPath and resources are there also when nothing is enforced: a restore may fill them in.
std::string linux_json(const OciPaths& paths) {
  return R"({"cgroupsPath":)" + json_quote(paths.cgroups_path) + R"(,"resources":)" +
         resources_json(paths.limits) +
         R"(,"namespaces":[{"type":"pid"},{"type":"ipc"},{"type":"uts"},{"type":"mount"},{"type":"network","path":)" +
         json_quote(paths.network_namespace) + "}]}";
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

Result<std::vector<std::string>> oci_args(const OciImage& image,
                                          const v1alpha1::Container& container, std::size_t index) {
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
                    .with_field("spec.containers[" + std::to_string(index) + "].command"));
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
  ATE_ASSIGN(const std::vector<std::string> args, oci_args(plan.image, container, plan.index));
  for (const auto& [destination, source] : plan.paths.bind_sources) {
    ATE_TRY(check_destination(destination));
  }
  const std::string cwd =
      absolute(container.working_dir().empty() ? plan.image.working_dir : container.working_dir());
  const OciProcess process{.args = args, .env = oci_env(plan), .cwd = cwd, .user = plan.user};
  std::string out = "{\n  \"ociVersion\":\"1.0.2\",\n  \"process\":" + process_json(process);
  // Not read-only: the guest's writes go to the overlay, never to the shared image.
  out += ",\n  \"root\":{\"path\":" + json_quote(plan.paths.rootfs) + ",\"readonly\":false}";
  out += ",\n  \"hostname\":" + json_quote(kActorHostname);
  out += ",\n  \"mounts\":" + mounts_json(plan);
  if (!plan.pod.name.empty()) {
    out += ",\n  \"annotations\":" + annotations_json("container", plan.pod);
  }
  return out + ",\n  \"linux\":" + linux_json(plan.paths) + "\n}\n";
}

std::string build_pause_spec(const OciPaths& paths) {
  // Nobody inside, whatever becomes of it: the guest's other processes can't even see it.
  constexpr std::uint32_t kNobody = 65534;
  OciProcess process{
      .args = {std::string("/") + kPauseProgramName}, .env = {}, .cwd = "/", .user = {}};
  process.user.uid = kNobody;
  process.user.gid = kNobody;
  std::string out = "{\n  \"ociVersion\":\"1.0.2\",\n  \"process\":" + process_json(process);
  out += ",\n  \"root\":{\"path\":" + json_quote(paths.rootfs) + ",\"readonly\":false}";
  out += ",\n  \"hostname\":" + json_quote(kActorHostname);
  out += ",\n  \"mounts\":[],\n  \"annotations\":" +
         annotations_json("sandbox", {.name = kPauseContainerName, .sandbox = {}});
  return out + ",\n  \"linux\":" + linux_json(paths) + "\n}\n";
}

std::string build_process_json(const OciProcess& process) {
  return process_json(process) + "\n";
}

std::vector<std::string> merge_env(std::vector<std::string> base,
                                   const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) {
    put_env(base, entry, true);
  }
  return base;
}

}  // namespace ate::core
