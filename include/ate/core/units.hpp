#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "ate/util/result.hpp"

namespace ate::core {

/// Kubernetes memory quantity -> bytes: decimal digits with optional fraction and Ki Mi Gi Ti Pi k
/// M G T P or nothing. "1e3", "512MB", negatives, overflow of int64: InvalidValue.
[[nodiscard]] Result<std::int64_t> parse_bytes(std::string_view text);
/// CPU quantity -> milli-CPU: "1", "0.5", "250m"; finer than 1m, negatives, exponents:
/// InvalidValue.
[[nodiscard]] Result<std::int64_t> parse_cpu_milli(std::string_view text);
/// "250ms", "30s", "10m", "24h"; one number and one unit, > 0 unless "0s"; at most 10 years.
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration(std::string_view text);
/// Plain positive integer ("4096").
[[nodiscard]] Result<std::int64_t> parse_count(std::string_view text);
/// 1073741824 -> "1Gi"; the largest binary unit that divides, else bytes.
[[nodiscard]] std::string format_bytes(std::int64_t bytes);
/// 2000 -> "2", 500 -> "500m".
[[nodiscard]] std::string format_cpu(std::int64_t milli);

}  // namespace ate::core
