#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ate::runtime::gvisor {

/// The end of a guest's output file, written since `from`: at most `limit` bytes, whole lines where
/// there are any, escaped. "" when nothing was written.
[[nodiscard]] std::string last_words(const std::string& path, std::int64_t from, std::size_t limit);
/// Size of a file; 0 when it is missing.
[[nodiscard]] std::int64_t size_of(const std::string& path);

}  // namespace ate::runtime::gvisor
