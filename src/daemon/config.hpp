#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ate/core/admission.hpp"
#include "ate/util/cidr.hpp"
#include "ate/util/log.hpp"
#include "ate/util/result.hpp"
#include "daemon/options.hpp"

namespace ate::daemon {

/// NodeConfig with its texts parsed.
struct Config {
  std::string config_dir;
  std::string state_dir;
  std::string run_dir;
  std::string socket;
  mode_t socket_mode = 0660;
  std::string socket_group;
  bool enforcement = true;
  std::string cgroup_root;
  std::chrono::milliseconds operation_wait{60'000};
  LogLevel log_level = LogLevel::Info;
  std::int64_t disk_reserve_bytes = 0;
  core::OverheadTerms gvisor_overhead;
  Cidr uplinks;               // of spec.network
  std::vector<Cidr> blocked;  // of spec.network
  std::string nft;
  std::string resolv_conf;
  core::OverheadTerms microvm_overhead;
  core::Overcommit overcommit;
  std::int64_t host_reserve_bytes = 0;
  bool require_actor_limits = false;
  std::string secrets_dir;
  std::size_t keep_operations = 0;
  std::size_t keep_events = 0;
  std::chrono::milliseconds keep_operations_for{0};
  std::chrono::milliseconds keep_events_for{0};
  std::chrono::milliseconds unreferenced_for{0};
  std::int64_t storage_budget_bytes = 0;  // 0 = none
  std::string text;  // the whole NodeConfig, defaults filled in, as indented JSON (which is YAML)
};

/// Reads and checks the file. The error lists all problems with file, line and column.
[[nodiscard]] Result<Config> load_config(const CommandLine& command_line);

/// One line per problem: `file:line:column: field: text`.
[[nodiscard]] std::string describe(const Error& error);

/// JSON with two spaces of indentation.
[[nodiscard]] std::string indent_json(const std::string& json);

}  // namespace ate::daemon
