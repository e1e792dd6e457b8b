#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/gvisor/guest.hpp"

/// Whether a runsc binary can be trusted with actors: what it offers, and whether it restores what
/// it saves (runsc.md section 14: it may print no version, so only trying tells).
namespace ate::runtime::gvisor {

/// What is known about one binary on this host.
struct Trial {
  explicit Trial(async::Context& context) : done(context) {}

  Health health;
  async::Event done;
  std::vector<std::string> cpu_features;  // as this binary names them, sorted
};

using TrialPtr = std::shared_ptr<Trial>;

/// `runsc cpu-features`, sorted. RuntimeFailed when the binary has no such command.
[[nodiscard]] async::Task<Result<std::vector<std::string>>> probe_cpu_features(Services& services,
                                                                               std::string runsc);

/// Features of `wanted` that `have` lacks; both sorted.
[[nodiscard]] std::vector<std::string> missing_features(const std::vector<std::string>& wanted,
                                                        const std::vector<std::string>& have);

/// What a pass is remembered by: one line of the file of results.
[[nodiscard]] std::string trial_key(const std::string& digest, const std::string& platform,
                                    const std::string& kernel,
                                    const std::vector<std::string>& features);

/// Probes the binary, then recalls or runs the save-and-restore test. Fills `trial` and sets its
/// `done`. AssetInvalid for a binary that lacks something, Unavailable where runsc can't run.
[[nodiscard]] async::Task<Status> run_trial(Services& services, TrialPtr trial, std::string digest,
                                            std::string runsc, std::string platform);

/// Root file system of the test: the program and, when it is linked dynamically, the libraries that
/// this process has loaded. Blocking.
[[nodiscard]] Status make_trial_rootfs(const std::string& directory, const std::string& program);

}  // namespace ate::runtime::gvisor
