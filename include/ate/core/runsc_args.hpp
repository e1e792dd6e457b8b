#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ate::core {

/// The container's id inside its own --root: roots are per incarnation, so one constant is enough,
/// and the control socket's path stays short.
inline constexpr const char* kRunscContainerId = "actor";

/// Global flags of every command of one sandbox: they must be equal on all of them (runsc.md
/// section 1).
struct RunscGlobals {
  std::string executable;
  std::string root;         // state directory of this incarnation
  std::string log;          // file for JSON error lines
  std::string panic_log;    // where a crash of the sandbox leaves its trace
  std::string platform;     // systrap | kvm | ptrace
  std::string overlay_dir;  // on disk; the guest's writes go to an unlinked file in it
  bool ignore_cgroups = true;
};

using Argv = std::vector<std::string>;

/// create + start in one process, which is faster than two.
[[nodiscard]] Argv runsc_run(const RunscGlobals& globals, const std::string& bundle,
                             const std::string& pid_file);
/// Without a create before: faster by one process.
[[nodiscard]] Argv runsc_restore(const RunscGlobals& globals, const std::string& bundle,
                                 const std::string& pid_file, const std::string& image_path);
[[nodiscard]] Argv runsc_pause(const RunscGlobals& globals);
[[nodiscard]] Argv runsc_resume(const RunscGlobals& globals);
/// Always with -leave-running: a plain checkpoint kills the actor when it fails.
[[nodiscard]] Argv runsc_checkpoint(const RunscGlobals& globals, const std::string& image_path);
/// To the first process of the container.
[[nodiscard]] Argv runsc_kill(const RunscGlobals& globals, int signo);
/// `runsc help restore`, `runsc flags`, `runsc cpu-features`: probes, without a sandbox.
[[nodiscard]] Argv runsc_probe(const std::string& executable, std::vector<std::string> arguments);

/// The argument by which processes of an incarnation are told apart in /proc/<pid>/cmdline.
[[nodiscard]] std::string runsc_root_argument(const std::string& root);

}  // namespace ate::core
