#include "ate/util/failpoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>

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
    "idempotency-after-reserve",
    "idempotency-before-keep",
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
    "snapshot-before-intent",
    "snapshot-after-intent",
    "snapshot-after-checkpoint",
    "snapshot-after-unpause",
    "snapshot-after-seal",
    "snapshot-after-commit",
    "golden-after-intent",
    "golden-before-intent",
    "golden-after-checkpoint",
    "golden-after-seal",
    "golden-before-trial",
    "golden-after-trial",
    "golden-after-commit",
    "snapshot-gc",
    "image-remove-after-rename",
    "reconcile-after-purge",
    "reconcile-after-commit",
    "gvisor-record",
    "gvisor-leaf",
    "gvisor-prepared",
    "gvisor-root-started",
    "gvisor-sidecar",
    "gvisor-exec",
    "gvisor-started",
    "gvisor-ready",
    "egress-leased",
    "egress-rules",
    "egress-linked",
    "egress-removed",
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
    "volumes-made",
    "volumes-saved",
    "volumes-restored",
    "volumes-swapped",
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
namespace {

std::string read_small(const std::string& path) {
  std::array<char, 512> buffer{};
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return {};
  }
  const ssize_t length = ::read(file, buffer.data(), buffer.size());
  static_cast<void>(::close(file));
  return {buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

bool write_small(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const ssize_t written = file < 0 ? -1 : ::write(file, text.data(), text.size());
  static_cast<void>(file >= 0 && ::close(file) != 0);  // IGNORED: a test's file on a test's disk
  return written == static_cast<ssize_t>(text.size());
}

void append_line(const std::string& path, std::string_view name) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) {
    return;
  }
  const std::string line = std::string(name) + "\n";
  // IGNORED: a line that is missing makes the sweep fail, which is loud enough.
  static_cast<void>(::write(file, line.data(), line.size()) < 0);
  static_cast<void>(::close(file));
}

bool act(std::string_view action) {
  if (action == "pass") {
    return false;
  }
  if (action == "error") {
    return true;
  }
  static_cast<void>(::raise(action == "stall" ? SIGSTOP : SIGKILL));
  return false;
}

/// What "name=action" asks for at `name`; empty when it is about another one.
std::string_view action_at(std::string_view armed, std::string_view name) {
  const std::size_t equals = armed.find('=');
  if (armed.substr(0, equals) != name) {
    return {};
  }
  return equals == std::string_view::npos ? "kill" : armed.substr(equals + 1);
}

/// The first line is the armed one. Taking it away and acting is one thread's: the one whose rename
/// or unlink comes through.
bool at_file(const std::string& path, std::string_view name) {
  append_line(path + ".passed", name);
  const std::string text = read_small(path);
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view action = action_at(std::string_view(text).substr(0, end), name);
  if (action.empty()) {
    return false;
  }
  const std::string rest = text.substr(std::min(end + 1, text.size()));
  if (rest.empty()) {
    return ::unlink(path.c_str()) == 0 && act(action);
  }
  const std::string next = path + ".next";
  return write_small(next, rest) && ::rename(next.c_str(), path.c_str()) == 0 && act(action);
}

}  // namespace

bool failpoint(std::string_view name) {
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
    std::abort();  // a failpoint that the sweep does not know is never tested
  }
  const char* armed = std::getenv("ATE_FAILPOINT");
  if (armed == nullptr) {
    return false;
  }
  if (*armed == '@') {
    return at_file(armed + 1, name);
  }
  const std::string_view action = action_at(armed, name);
  if (action.empty()) {
    return false;
  }
  static std::atomic<bool> used = false;
  return action == "error" ? !used.exchange(true) : act(action);
}
#endif

}  // namespace ate
