#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ate/util/result.hpp"

/// Several containers in one sandbox: what follows from how one of them ended (docs/containers.md).
namespace ate::core {

/// How the first process of a container ended.
struct ContainerEnd {
  int exit_code = 0;  // 128 + signal when one ended it
  int signal = 0;     // 0 = it ended by itself
};

/// From the wait status that wait(2) and runsc tell.
[[nodiscard]] ContainerEnd container_end(std::uint32_t wait_status);

/// "exited with code 3", "exited with code 137 (128 + signal 9)": for codes that are told in
/// runsc's way, where a signal shows as 128 + its number.
[[nodiscard]] std::string end_words(int exit_code);

/// The container a call is about: the one named, or the only one there is. Otherwise InvalidValue
/// (field container), which names those there are.
[[nodiscard]] Result<std::string> choose_container(const std::vector<std::string>& names,
                                                   const std::string& wanted);

/// The program that is the first process of a sandbox with several containers, as a file: a static
/// ELF that sleeps for ever. It is ours and tiny, depends on no library and never changes, so that
/// a snapshot finds it as it was, whatever version of the daemon restores it.
[[nodiscard]] std::string pause_program();

}  // namespace ate::core
