#pragma once

#include <cstdio>
#include <sstream>

/// Says on a line of its own that this case can't run here and why; tests/runner.py counts these
/// lines. Past Catch's capture of std::cerr; Catch2 2 has no SKIP.
#define ATE_TEST_SKIPPED(why)                                         \
  do {                                                                \
    std::ostringstream ate_skipped;                                   \
    ate_skipped << "SKIPPED " << why << '\n';                         \
    static_cast<void>(std::fputs(ate_skipped.str().c_str(), stderr)); \
  } while (false)
