// main of the tests that run a real runsc: skipped as a whole where there is none, or no root.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "support/small_disk.hpp"

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

namespace {

std::string find_runsc() {
  if (const char* given = std::getenv("ATE_TEST_RUNSC")) {
    return given;
  }
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string candidate = directory + "/runsc";
    if (::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string runsc = find_runsc();
  if (runsc.empty() || ::access(runsc.c_str(), X_OK) != 0) {
    std::printf("skipped: no runsc: neither ATE_TEST_RUNSC nor PATH leads to one\n");
    return 77;
  }
  if (const std::string reason = ate::test::enter_private_mounts(); !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  static_cast<void>(::setenv("ATE_TEST_RUNSC", runsc.c_str(), 1));
  return Catch::Session().run(argc, argv);
}
