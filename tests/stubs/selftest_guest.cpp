// The self-test's workload as a static program of its own: tests are linked dynamically.
#include "ate/runtime/selftest.hpp"

int main() {
  return ate::runtime::selftest_workload_main();
}
