#include "daemon/options.hpp"

#include <array>
#include <optional>

namespace ate::daemon {

namespace {

constexpr std::string_view kUsage =
    R"(ate-noded: owns the life of actors on this host; serves REST on a unix socket.

usage: ate-noded [options]
  --config FILE      NodeConfig (default /etc/ate/noded.yaml; defaults when that file is missing)
  --config-dir DIR   object files *.yaml, *.yml (default /etc/ate)
  --print-config     print the configuration in force, all defaults included, and end
  --check-config     read the configuration and the object files, print all problems, and end
  --failpoints       list the failpoints of this build, and end
  --version          print the version, and end
  --help             print this, and end

signals: TERM, INT stop it and leave running actors alone; HUP reads the object files again.
exit codes: 0 stopped as asked, 1 failed, 2 command line or configuration, 3 refused by the state of the host.
)";

struct Flag {
  std::string_view name;
  Action action;
};

constexpr std::array kFlags{
    Flag{"--print-config", Action::PrintConfig},
    Flag{"--check-config", Action::CheckConfig},
    Flag{"--failpoints", Action::Failpoints},
    Flag{"--version", Action::Version},
    Flag{"--help", Action::Help},
    Flag{"-h", Action::Help},
};

std::optional<Action> find_flag(std::string_view word) {
  for (const Flag& flag : kFlags) {
    if (flag.name == word) {
      return flag.action;
    }
  }
  return std::nullopt;
}

/// `--name VALUE` or `--name=VALUE`; moves `index` over the value.
std::optional<std::string> value_of(std::string_view name, int argc, const char* const* argv,
                                    int& index) {
  const std::string_view word = argv[index];
  if (word == name && index + 1 < argc) {
    ++index;
    return std::string(argv[index]);
  }
  if (word.starts_with(name) && word.substr(name.size()).starts_with('=')) {
    return std::string(word.substr(name.size() + 1));
  }
  return std::nullopt;
}

}  // namespace

std::string_view usage() {
  return kUsage;
}

Result<CommandLine> parse_command_line(int argc, const char* const* argv) {
  CommandLine out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (const auto action = find_flag(word)) {
      out.action = *action;
    } else if (auto directory = value_of("--config-dir", argc, argv, i)) {
      out.config_dir = std::move(*directory);
    } else if (auto file = value_of("--config", argc, argv, i)) {
      out.config = std::move(*file);
      out.config_given = true;
    } else {
      return fail(Errc::InvalidValue,
                  "unknown option or missing value: " + word + "; see ate-noded --help");
    }
  }
  if (out.config.empty() || out.config_dir.empty()) {
    return fail(Errc::InvalidValue, "--config and --config-dir need a path");
  }
  return out;
}

}  // namespace ate::daemon
