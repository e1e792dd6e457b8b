#include <cstdio>
#include <string_view>

#include "ate/image/image.hpp"
#include "ate/runtime/selftest.hpp"
#include "daemon/options.hpp"
#include "daemon/run.hpp"

namespace {

/// The two programs that this binary is besides the daemon; both are started by the daemon only.
bool is_program(int argc, char** argv, std::string_view name) {
  return argc > 1 && name == argv[1];
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ate;
  if (is_program(argc, argv, "unpack-helper")) {
    return image::unpack_helper_main(argc, argv);
  }
  if (is_program(argc, argv, "selftest-workload")) {
    return runtime::selftest_workload_main();
  }
  const Result<daemon::CommandLine> command_line = daemon::parse_command_line(argc, argv);
  if (!command_line) {
    std::fprintf(stderr, "ate-noded: %s\n", command_line.error().message().c_str());
    return daemon::kExitUsage;
  }
  return daemon::run(*command_line);
}
