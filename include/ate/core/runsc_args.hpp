#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ate::core {

/// The id of the sandbox's root container inside its own --root: roots are per incarnation, so one
/// constant is enough, and the control socket's path stays short.
inline constexpr const char* kRunscContainerId = "actor";
/// The id of a container that is one of several; never that of the root.
[[nodiscard]] std::string runsc_member_id(const std::string& container);
/// The socket on which the sandbox answers, below its --root.
[[nodiscard]] std::string runsc_control_socket(const std::string& root);
/// The file in which runsc keeps what it knows of a container, below --root.
[[nodiscard]] std::string runsc_state_file(const std::string& root, const std::string& id);

/// Global flags of every command of one sandbox: they must be equal on all of them (runsc.md
/// section 1).
struct RunscGlobals {
  std::string executable;
  std::string root;                // state directory of this incarnation
  std::string log;                 // file for JSON error lines
  std::string panic_log;           // where a crash of the sandbox leaves its trace
  std::string platform;            // systrap | kvm | ptrace
  std::string overlay_dir;         // on disk; the guest's writes go to an unlinked file in it
  std::int64_t overlay_bytes = 0;  // what each container's root may take of it; 0 = not limited
  bool ignore_cgroups = true;
};

using Argv = std::vector<std::string>;

/// What a container is started from. `pid_file`: where the sandbox's pid goes; "" = nowhere.
struct RunscContainer {
  std::string id;
  std::string bundle;
  std::string pid_file;
};

/// create + start in one process, which is faster than two.
[[nodiscard]] Argv runsc_run(const RunscGlobals& globals, const RunscContainer& container);
/// Without a create before: faster by one process. Of several containers the root comes first, the
/// others in any order or at once; the guest goes on when the last of them is there.
[[nodiscard]] Argv runsc_restore(const RunscGlobals& globals, const RunscContainer& container,
                                 const std::string& image_path);
/// Forgets a container that has ended, so that it can be started again and that a checkpoint does
/// not count it.
[[nodiscard]] Argv runsc_delete(const RunscGlobals& globals, const std::string& id);
/// One more process in a container; what it is comes from a file, so that no argument and no
/// variable of it is to be seen on a command line.
[[nodiscard]] Argv runsc_exec(const RunscGlobals& globals, const std::string& id,
                              const std::string& process_file, const std::string& pid_file);
[[nodiscard]] Argv runsc_pause(const RunscGlobals& globals);
[[nodiscard]] Argv runsc_resume(const RunscGlobals& globals);
/// Always with -leave-running: a plain checkpoint kills the actor when it fails.
[[nodiscard]] Argv runsc_checkpoint(const RunscGlobals& globals, const std::string& image_path);
/// To the first process of the container.
[[nodiscard]] Argv runsc_kill(const RunscGlobals& globals, const std::string& id, int signo);
/// `runsc help restore`, `runsc flags`, `runsc cpu-features`: probes, without a sandbox.
[[nodiscard]] Argv runsc_probe(const std::string& executable, std::vector<std::string> arguments);

/// The argument by which processes of an incarnation are told apart in /proc/<pid>/cmdline.
[[nodiscard]] std::string runsc_root_argument(const std::string& root);

}  // namespace ate::core
