#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ate/core/cgroup_plan.hpp"
#include "ate/util/result.hpp"

namespace ate::v1alpha1 {
class Container;
}  // namespace ate::v1alpha1

/// The OCI config.json that runsc gets, as a pure function of image, template and paths.
namespace ate::core {

/// Constant in both classes: a restore can't change it, identity comes from the system-info files.
inline constexpr const char* kActorHostname = "actor";

/// The pause program's name in its root file system, and the name of its container: no DNS label,
/// so that no container of a template can have it.
inline constexpr const char* kPauseProgramName = "pause";
inline constexpr const char* kPauseContainerName = "_pause";

/// Raised whenever the text that build_oci_spec writes changes in a way a restore would notice.
inline constexpr const char* kOciSpecBuilder = "1";

/// What the image's config says (image::Config without what isn't needed here).
struct OciImage {
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::string> env;
  std::string working_dir;
};

/// A user resolved inside the image.
struct OciUser {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> additional_gids;
  std::string home;
};

/// The parts of a spec that differ between two incarnations of one actor.
struct OciPaths {
  std::string rootfs;
  std::string network_namespace;
  std::map<std::string, std::string> bind_sources;  // destination -> source on the host
  std::set<std::string> writable;                   // destinations that are not read-only
  std::string cgroups_path;                         // below the cgroup2 mount; "" = not enforced
  CgroupLimits limits;
};

/// The place of a container among several. Empty: it is its sandbox's only one, and its root.
struct OciPod {
  std::string name;     // by which a restore finds the container again
  std::string sandbox;  // runsc's id of the sandbox that it joins
};

struct OciPlan {
  OciImage image;
  OciUser user;
  std::vector<std::string> template_env;  // "K=V", secrets already read
  OciPaths paths;
  OciPod pod;
  std::size_t index = 0;  // of the container in the template, for messages
};

/// Files that every actor gets from us, with their place inside.
inline constexpr const char* kResolvConf = "/etc/resolv.conf";
inline constexpr const char* kHosts = "/etc/hosts";
inline constexpr const char* kHostnameFile = "/etc/hostname";

/// argv by Kubernetes' rules: `command` replaces ENTRYPOINT and drops CMD, `args` replaces CMD.
/// InvalidValue (field spec.containers[<index>].command) when nothing is left to run.
[[nodiscard]] Result<std::vector<std::string>> oci_args(const OciImage& image,
                                                        const v1alpha1::Container& container,
                                                        std::size_t index);

/// Image env, then template env over it, then PATH, HOME and HOSTNAME where missing.
[[nodiscard]] std::vector<std::string> oci_env(const OciPlan& plan);

/// config.json. Problems of mount points and of the command are InvalidValue with their field.
[[nodiscard]] Result<std::string> build_oci_spec(const OciPlan& plan,
                                                 const v1alpha1::Container& container);

/// config.json of the container that a sandbox with several begins with: our pause program, which
/// holds the network and the limits. Of `paths` everything but bind mounts counts.
[[nodiscard]] std::string build_pause_spec(const OciPaths& paths);

/// Argv, environment and the rest of one more process in a container: runsc's process.json.
struct OciProcess {
  std::vector<std::string> args;
  std::vector<std::string> env;
  std::string cwd;
  OciUser user;
};

[[nodiscard]] std::string build_process_json(const OciProcess& process);

/// What of a container's own spec one more process takes over. SnapshotCorrupt.
[[nodiscard]] Result<OciProcess> process_of_spec(std::string_view spec);

/// `entries` ("K=V") over the environment `base`.
[[nodiscard]] std::vector<std::string> merge_env(std::vector<std::string> base,
                                                 const std::vector<std::string>& entries);

/// The spec of a snapshot with nothing replaced but root.path, sources of bind mounts, the network
/// namespace, cgroupsPath and resources: runsc refuses a restore for less than one added rlimit.
/// Byte for byte the same elsewhere. SnapshotCorrupt when the text is no such spec,
/// SnapshotIncompatible when it has a bind mount that `paths` knows no source for.
[[nodiscard]] Result<std::string> with_runtime_paths(std::string_view spec, const OciPaths& paths);

/// Destinations of the bind mounts of a spec, in order. SnapshotCorrupt.
[[nodiscard]] Result<std::vector<std::string>> bind_destinations(std::string_view spec);

}  // namespace ate::core
