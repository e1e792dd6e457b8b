#include "ate/core/runsc_args.hpp"

#include <utility>

namespace ate::core {
namespace {

Argv command(const RunscGlobals& globals, std::string name, std::vector<std::string> flags) {
  Argv argv{globals.executable, runsc_root_argument(globals.root), "--log=" + globals.log,
            "--log-format=json", "--panic-log=" + globals.panic_log,
            "--platform=" + globals.platform, "--network=sandbox",
            "--overlay2=root:dir=" + globals.overlay_dir,
            // What the host shares with a guest is read-only files of ours: nothing to talk to.
            "--host-uds=none", "--host-fifo=none"};
  if (globals.ignore_cgroups) {
    argv.emplace_back("--ignore-cgroups=true");
  }
  argv.push_back(std::move(name));
  for (std::string& flag : flags) {
    argv.push_back(std::move(flag));
  }
  argv.emplace_back(kRunscContainerId);
  return argv;
}

}  // namespace

std::string runsc_root_argument(const std::string& root) {
  return "--root=" + root;
}

Argv runsc_run(const RunscGlobals& globals, const std::string& bundle,
               const std::string& pid_file) {
  return command(globals, "run", {"-detach", "-bundle=" + bundle, "-pid-file=" + pid_file});
}

Argv runsc_restore(const RunscGlobals& globals, const std::string& bundle,
                   const std::string& pid_file, const std::string& image_path) {
  return command(
      globals, "restore",
      {"-detach", "-bundle=" + bundle, "-pid-file=" + pid_file, "-image-path=" + image_path});
}

Argv runsc_pause(const RunscGlobals& globals) {
  return command(globals, "pause", {});
}

Argv runsc_resume(const RunscGlobals& globals) {
  return command(globals, "resume", {});
}

Argv runsc_checkpoint(const RunscGlobals& globals, const std::string& image_path) {
  // The default of -compression has changed between releases, so it is always given.
  return command(globals, "checkpoint",
                 {"-leave-running", "-compression=none", "-image-path=" + image_path});
}

Argv runsc_kill(const RunscGlobals& globals, int signo) {
  Argv argv = command(globals, "kill", {});
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
