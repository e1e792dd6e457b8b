#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/gvisor/guest.hpp"

namespace ate::runtime::gvisor {

/// What a checkpoint writes into the manifest beside the spec.
struct Provenance {
  std::map<std::string, std::string> assets;
  std::vector<std::string> cpu_features;
  std::string kernel;
  std::string platform;
};

/// The engine's handle of a guest.
[[nodiscard]] std::unique_ptr<Sandbox> make_sandbox(GuestPtr guest, Provenance provenance);

/// "SIGTERM", "TERM", "15" -> 15; 0 when it is none.
[[nodiscard]] int parse_signal(const std::string& text);

/// Bytes an interface moved, from the text of /proc/<pid>/net/dev.
[[nodiscard]] std::uint64_t interface_bytes(const std::string& text, const std::string& interface);

}  // namespace ate::runtime::gvisor
