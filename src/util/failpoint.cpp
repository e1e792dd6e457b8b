#include "ate/util/failpoint.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

namespace ate {

namespace {

constexpr auto kNames = std::to_array<std::string_view>({
    "image-helper-confined",
    "image-helper-layer",
    "image-commit-before",
    "image-commit-after",
    "asset-before-rename",
    "store-commit-before",
    "store-commit-after",
    "resume-before-intent",
    "resume-after-intent",
    "resume-after-launch",
    "resume-after-ready",
    "resume-after-commit",
    "suspend-before-intent",
    "suspend-after-intent",
    "suspend-after-checkpoint",
    "suspend-after-seal",
    "suspend-after-commit",
    "suspend-after-destroy",
    "pause-before-intent",
    "pause-after-intent",
    "pause-after-checkpoint",
    "pause-after-seal",
    "pause-after-commit",
    "pause-after-destroy",
    "revert-before-intent",
    "revert-after-intent",
    "revert-after-destroy",
    "revert-after-commit",
    "delete-before-intent",
    "delete-after-intent",
    "delete-after-destroy",
    "delete-after-files",
    "delete-after-commit",
    "snapshot-gc",
    "reconcile-after-purge",
    "reconcile-after-commit",
    "gvisor-record",
    "gvisor-leaf",
    "gvisor-prepared",
    "gvisor-started",
    "gvisor-ready",
    "gvisor-pause",
    "gvisor-paused",
    "gvisor-saved",
    "gvisor-unpause",
    "gvisor-kill",
    "gvisor-killed",
    "gvisor-leaf-removed",
    "gvisor-removed",
    "seal-after-payload",
    "seal-before-rename",
    "seal-after-rename",
    "snapshot-remove-after-rename",
});

}  // namespace

std::span<const std::string_view> failpoint_names() {
  return kNames;
}

bool failpoints_enabled() noexcept {
#ifdef ATE_FAILPOINTS
  return true;
#else
  return false;
#endif
}

#ifdef ATE_FAILPOINTS
bool failpoint(std::string_view name) {
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
    std::abort();  // a failpoint that the sweep does not know is never tested
  }
  const char* armed = std::getenv("ATE_FAILPOINT");
  if (armed == nullptr) {
    return false;
  }
  const std::string_view text(armed);
  const std::size_t equals = text.find('=');
  if (text.substr(0, equals) != name) {
    return false;
  }
  const std::string_view action =
      equals == std::string_view::npos ? "kill" : text.substr(equals + 1);
  if (action == "error") {
    static bool used = false;
    return !std::exchange(used, true);
  }
  static_cast<void>(::raise(action == "stall" ? SIGSTOP : SIGKILL));
  return false;
}
#endif

}  // namespace ate
