// main of the test programs that mount things: skipped as a whole where that is not possible.
#include <cstdio>

#include "support/small_disk.hpp"

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

int main(int argc, char** argv) {
  if (const std::string reason = ate::test::enter_private_mounts(); !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  return Catch::Session().run(argc, argv);
}
