// Stands in for runsc in fault tests. What it does is read from `fake.script` beside the program,
// one line per command: `<command> <behaviour> [argument]`. Without a line a command succeeds:
//   hang            never returns, ignores SIGTERM          exit N      fails with an error line
//   flood           prints 16 MiB, then succeeds             start-hang  starts the sandbox, hangs
//   die N           the sandbox ends at once with code N     no-pid      succeeds, writes no pid
//   file eof-once        fails with the EOF class the first time  no-files    checkpoint without
//   files enospc          fails for want of space
// Its sandbox is this program again, waiting to be killed.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Call {
  std::string command;
  std::string root;
  std::string log;
  std::string pid_file;
  std::string image;
};

std::string self() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
  return {path, length > 0 ? static_cast<std::size_t>(length) : 0};
}

std::string beside(const std::string& name) {
  const std::string program = self();
  return program.substr(0, program.rfind('/') + 1) + name;
}

Call parse(const std::vector<std::string>& arguments) {
  Call call;
  const auto value = [](const std::string& text, std::string_view key, std::string& out) {
    if (text.starts_with(key)) {
      out = text.substr(key.size());
    }
  };
  for (const std::string& text : arguments) {
    value(text, "--root=", call.root);
    value(text, "--log=", call.log);
    value(text, "-pid-file=", call.pid_file);
    value(text, "-image-path=", call.image);
    if (call.command.empty() && text.front() != '-') {
      call.command = text;
    }
  }
  return call;
}

/// Behaviour and argument for a command.
std::pair<std::string, std::string> scripted(const std::string& command) {
  std::ifstream script(beside("fake.script"));
  for (std::string line; std::getline(script, line);) {
    std::istringstream words(line);
    std::string name;
    std::string behaviour;
    std::string argument;
    words >> name >> behaviour >> argument;
    if (name == command) {
      return {behaviour, argument};
    }
  }
  return {};
}

[[noreturn]] void wait_for_ever() {
  for (;;) {
    ::pause();
  }
}

int fail_with(const Call& call, int code, const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  if (!call.log.empty()) {
    std::ofstream(call.log, std::ios::app)
        << R"({"msg":")" << message << R"(","level":"error","time":"2026-01-01T00:00:00Z"})"
        << "\n";
  }
  return code;
}

pid_t start(const Call& call, const char* role, const std::string& code) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    static_cast<void>(::setsid());
    const std::string root = "--root=" + call.root;
    const std::string program = self();
    ::execl(program.c_str(), role, root.c_str(), "sandbox-process", code.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  return pid;
}

int run(const Call& call, const std::string& behaviour, const std::string& argument) {
  const pid_t gofer = start(call, "fake-gofer", "");
  const pid_t sandbox = start(call, "fake-sandbox", behaviour == "die" ? argument : "");
  std::ofstream(call.root + "/actor_sandbox:actor.state")
      << R"({"id":"actor","goferPid":)" << gofer << R"(,"sandbox":{"pid":)" << sandbox << "}}";
  if (behaviour != "no-pid") {
    std::ofstream(call.pid_file) << sandbox;
  }
  if (behaviour == "start-hang") {
    wait_for_ever();
  }
  return 0;
}

int checkpoint(const Call& call, const std::string& behaviour) {
  static_cast<void>(::mkdir(call.image.c_str(), 0755));
  if (behaviour == "no-files") {
    return 0;
  }
  for (const char* name : {"/checkpoint.img", "/pages.img", "/pages_meta.img"}) {
    std::ofstream(call.image + name) << "fake";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const Call call = parse(arguments);
  if (call.command == "sandbox-process") {
    if (!arguments.back().empty() && arguments.back() != "sandbox-process") {
      return std::atoi(arguments.back().c_str());
    }
    wait_for_ever();
  }
  const auto [behaviour, argument] = scripted(call.command);
  if (behaviour == "hang") {
    static_cast<void>(::signal(SIGTERM, SIG_IGN));
    wait_for_ever();
  }
  if (behaviour == "exit") {
    return fail_with(call, std::atoi(argument.c_str()), "scripted failure of " + call.command);
  }
  if (behaviour == "enospc") {
    return fail_with(call, 128, "closing state file failed: no space left on device");
  }
  if (behaviour == "eof-once") {
    const std::string marker = beside("fake.marker");
    if (::access(marker.c_str(), F_OK) != 0) {
      std::ofstream(marker).put('x');
      return fail_with(call, 128, "restoring: urpc method Restore failed: EOF");
    }
  }
  if (behaviour == "flood") {
    for (int i = 0; i < 16 * 1024; ++i) {
      std::fputs(std::string(1023, 'x').append("\n").c_str(), stderr);
    }
  }
  if (call.command == "flags" || call.command == "help") {
    std::puts(
        "-overlay2 -network -ignore-cgroups -panic-log -image-path -detach -pid-file "
        "-leave-running -compression");
  } else if (call.command == "cpu-features") {
    std::puts("fake_b,fake_a");
  } else if (call.command == "run" || call.command == "restore") {
    return run(call, behaviour, argument);
  } else if (call.command == "checkpoint") {
    return checkpoint(call, behaviour);
  }
  return 0;
}
