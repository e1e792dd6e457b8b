#pragma once

#include <string>

#include "ate/util/result.hpp"

namespace ate::runtime::gvisor {

/// The text of a secret file (docs/configuration.md "Secrets"), less one newline at its end.
/// `directory` is the only place where secrets are taken from: whoever may put a template must not
/// read any file of root's by it. SecretUnusable says what is wrong, never what the file holds.
[[nodiscard]] Result<std::string> read_secret(const std::string& directory,
                                              const std::string& path);

}  // namespace ate::runtime::gvisor
