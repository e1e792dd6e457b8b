#include "ate/core/runsc_args.hpp"

#include <utility>

namespace ate::core {
namespace {

std::string overlay(const RunscGlobals& globals) {
  std::string flag = "--overlay2=root:dir=" + globals.overlay_dir;
  if (globals.overlay_bytes > 0) {
    flag += ",size=" + std::to_string(globals.overlay_bytes);
  }
  return flag;
}

Argv command(const RunscGlobals& globals, std::string name, std::vector<std::string> flags,
             const std::string& id) {
  Argv argv{globals.executable, runsc_root_argument(globals.root), "--log=" + globals.log,
            "--log-format=json", "--panic-log=" + globals.panic_log,
            "--platform=" + globals.platform, "--network=sandbox", overlay(globals),
            // What the host shares with a guest is read-only files of ours: nothing to talk to.
            "--host-uds=none", "--host-fifo=none"};
  if (globals.ignore_cgroups) {
    argv.emplace_back("--ignore-cgroups=true");
  }
  argv.push_back(std::move(name));
  for (std::string& flag : flags) {
    argv.push_back(std::move(flag));
  }
  argv.push_back(id);
  return argv;
}

std::vector<std::string> start_flags(const RunscContainer& container) {
  std::vector<std::string> flags{"-detach", "-bundle=" + container.bundle};
  if (!container.pid_file.empty()) {
    flags.push_back("-pid-file=" + container.pid_file);
  }
  return flags;
}

}  // namespace

std::string runsc_member_id(const std::string& container) {
  return "c-" + container;
}

std::string runsc_control_socket(const std::string& root) {
  return root + "/runsc-" + kRunscContainerId + ".sock";
}

std::string runsc_state_file(const std::string& root, const std::string& id) {
  return root + "/" + id + "_sandbox:" + kRunscContainerId + ".state";
}

std::string runsc_root_argument(const std::string& root) {
  return "--root=" + root;
}

Argv runsc_run(const RunscGlobals& globals, const RunscContainer& container) {
  return command(globals, "run", start_flags(container), container.id);
}

Argv runsc_restore(const RunscGlobals& globals, const RunscContainer& container,
                   const std::string& image_path) {
  std::vector<std::string> flags = start_flags(container);
  flags.push_back("-image-path=" + image_path);
  return command(globals, "restore", std::move(flags), container.id);
}

Argv runsc_pause(const RunscGlobals& globals) {
  return command(globals, "pause", {}, kRunscContainerId);
}

Argv runsc_resume(const RunscGlobals& globals) {
  return command(globals, "resume", {}, kRunscContainerId);
}

Argv runsc_checkpoint(const RunscGlobals& globals, const std::string& image_path) {
  // The default of -compression has changed between releases, so it is always given.
  return command(globals, "checkpoint",
                 {"-leave-running", "-compression=none", "-image-path=" + image_path},
                 kRunscContainerId);
}

Argv runsc_delete(const RunscGlobals& globals, const std::string& id) {
  return command(globals, "delete", {"-force"}, id);
}

Argv runsc_exec(const RunscGlobals& globals, const std::string& id, const std::string& process_file,
                const std::string& pid_file) {
  return command(globals, "exec", {"-process=" + process_file, "-internal-pid-file=" + pid_file},
                 id);
}

Argv runsc_kill(const RunscGlobals& globals, const std::string& id, int signo) {
  Argv argv = command(globals, "kill", {}, id);
  argv.push_back(std::to_string(signo));
  return argv;
}

Argv runsc_probe(const std::string& executable, std::vector<std::string> arguments) {
  Argv argv{executable};
  for (std::string& argument : arguments) {
    argv.push_back(std::move(argument));
  }
  return argv;
}

}  // namespace ate::core
