#pragma once

namespace ate::runtime {

/// The workload of the self-test, run inside the sandbox: counts up in memory and prints. `main`
/// of the daemon dispatches `selftest-workload` here. Returns the exit code.
[[nodiscard]] int selftest_workload_main();

}  // namespace ate::runtime
