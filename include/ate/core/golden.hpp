#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

/// When a golden snapshot of a template generation is made, kept and used: decisions only.
namespace ate::core {

/// What a golden snapshot is made of: another value of any of it makes it another one.
struct GoldenParts {
  std::string spec_digest;                     // of the template generation
  std::map<std::string, std::string> images;   // container -> manifest digest
  std::map<std::string, std::string> runtime;  // assets, CPU features, platform, spec builder, ...
  std::int64_t memory_bytes = 0;               // of the guest
  std::int32_t vcpus = 0;
};

/// Everything of it, a line each, in a fixed order; its SHA-256 is the key.
[[nodiscard]] std::string golden_text(const GoldenParts& parts);

struct GoldenFacts {
  bool wanted = false;        // the generation asks for one, and is current or has actors
  std::string key;            // of one that were made now; "" = that can't be told yet
  std::string have;           // of the one that is there and was tried; "" = none
  bool building = false;      // one is being made
  std::int64_t failures = 0;  // of builds with this key, in a row
};

enum class GoldenState : std::uint8_t {
  Off,       // not wanted
  Pending,   // wanted, not begun: what it is made of is not known yet, or no worker is to spare
  Building,  // a first one
  Ready,     // new actors start from it
  Stale,     // the one that is there is of another key; new actors boot cold
  Failed     // the last build failed; it is tried again
};

/// As `status.golden.state` shows it.
[[nodiscard]] std::string_view name(GoldenState state);
[[nodiscard]] GoldenState golden_state(const GoldenFacts& facts);

/// Between builds that fail: 10 s doubling to 10 min.
[[nodiscard]] std::chrono::milliseconds golden_retry_delay(std::int64_t failures);

/// How long a guest runs after its gate opened before it is saved. Without any gate nothing says
/// when it is warm: 20 s unless the template does.
[[nodiscard]] std::chrono::seconds golden_warmup(bool has_gate, std::int32_t given_seconds,
                                                 bool given);

}  // namespace ate::core
