#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ate/core/oci_spec.hpp"
#include "ate/core/paths.hpp"
#include "ate/core/runsc_args.hpp"
#include "ate/os/process.hpp"
#include "ate/runtime/runtime.hpp"
#include "ate/util/fd.hpp"
#include "runtime/gvisor/leaf.hpp"

namespace ate::v1alpha1 {
class ActorTemplateSpec;
class Container;
}  // namespace ate::v1alpha1

namespace ate::runtime::gvisor {

/// Where everything of one incarnation lies. `directory` is runsc's --root at the same time, which
/// keeps its control socket's path short.
struct Layout {
  std::string directory;
  std::string bundle;
  std::string files;  // what is bind-mounted: resolv.conf, hosts, hostname, info/
  std::string pid_file;
  std::string log;
  std::string panic_log;
  std::string record;  // what observe() needs: netns id, cgroup
  std::string overlay;
  std::string logs;  // stdio, kept over incarnations
};

[[nodiscard]] Layout make_layout(const core::Paths& paths, const std::string& uid,
                                 std::int64_t serial);

/// Creates the directories and the files that are bind-mounted. What the guest sees of identity is
/// written here, per incarnation, so that a fork or a restore never shows another actor's.
[[nodiscard]] Status write_files(const Layout& layout, const Incarnation& incarnation);

/// Bind mounts of a container: destination -> source.
struct Binds {
  std::map<std::string, std::string> sources;
  std::set<std::string> writable;  // destinations
};

/// Of the container `index`. Ours lie below `layout.files`; `volumes`: durable volume -> its
/// directory.
[[nodiscard]] Result<Binds> bind_sources(const Layout& layout,
                                         const v1alpha1::ActorTemplateSpec& spec, int index,
                                         const std::map<std::string, std::string>& volumes);

/// "K=V" of the container's env with the content of valueFrom.file (less one final newline).
/// SecretUnusable with the field; the content never gets into a message.
[[nodiscard]] Result<std::vector<std::string>> template_env(const v1alpha1::Container& container,
                                                            int index,
                                                            const std::string& secrets_dir);

/// Processes of a started sandbox. A process that is gone already has start time 0; a gofer that
/// could not be found has pid 0.
struct SandboxProcesses {
  os::ProcessId sandbox;
  os::ProcessId gofer;
};

/// The sandbox by runsc's pid file, the root's gofer by its state file. RuntimeFailed without a
/// sandbox.
[[nodiscard]] Result<SandboxProcesses> read_processes(const Layout& layout);
/// The gofer of a container by its state file; pid 0 when it could not be found.
[[nodiscard]] os::ProcessId read_gofer(const Layout& layout, const std::string& id);

/// Puts the pause program where the root of several containers finds it. Idempotent; what is there
/// already stays.
[[nodiscard]] Status make_pause_rootfs(const std::string& directory);

/// The record of an incarnation: written before anything of it runs, read by observe() and purge().
struct Record {
  std::string netns_id;
  std::string cgroup;  // directory of the leaf; "" = none
};

[[nodiscard]] Status write_record(const Layout& layout, const Record& record);
[[nodiscard]] Record read_record(const std::string& path);

}  // namespace ate::runtime::gvisor
