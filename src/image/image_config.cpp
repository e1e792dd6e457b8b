#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ate/image/digest.hpp"
#include "ate/util/log.hpp"
#include "image/json.hpp"
#include "image/limits.hpp"
#include "image/oci.hpp"

namespace ate::image {

namespace {

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Errc::ImageInvalid, "image config: " + what);
}

std::string show(std::string_view text) {
  return "'" + escape_text(text, 100) + "'";
}

Result<std::string> text_member(const core::JsonValue& object, std::string_view key) {
  const core::JsonValue* value = object.find(key);
  if (value == nullptr) {
    return std::string();
  }
  if (value->as_text() == nullptr) {
    return invalid("'" + std::string(key) + "' is not a string");
  }
  return *value->as_text();
}

Result<std::vector<std::string>> list_member(const core::JsonValue& object, std::string_view key) {
  std::vector<std::string> list;
  const core::JsonValue* value = object.find(key);
  if (value == nullptr) {
    return list;
  }
  if (value->as_array() == nullptr) {
    return invalid("'" + std::string(key) + "' is not a list");
  }
  if (value->as_array()->size() > kMaxConfigEntries) {
    return invalid("'" + std::string(key) + "' has more than 4096 entries");
  }
  for (const core::JsonValue& item : *value->as_array()) {
    if (item.as_text() == nullptr) {
      return invalid("'" + std::string(key) + "' holds something that is not a string");
    }
    list.push_back(*item.as_text());
  }
  return list;
}

Status check_texts(std::string_view what, const std::vector<std::string>& list,
                   std::size_t& total) {
  for (const std::string& text : list) {
    total += text.size();
    if (text.contains('\0')) {
      return invalid(std::string(what) + " holds a NUL byte");
    }
    if (text.size() > kMaxConfigText || total > kMaxConfigBytes) {
      return invalid(std::string(what) + " is too long");
    }
  }
  return {};
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

Status check_env(const std::vector<std::string>& env) {
  for (const std::string& item : env) {
    const std::size_t equals = item.find('=');
    if (equals == 0 || equals == std::string::npos || has_control(item.substr(0, equals))) {
      return invalid("Env entry " + show(item) + " is not NAME=VALUE");
    }
  }
  return {};
}

// The directory is opened inside the sandbox, where /proc is the sandbox's; the refusal of
// /proc/self/fd (CVE-2024-21626) costs nothing and keeps that true for any runtime.
Status check_working_dir(std::string& dir) {
  if (dir.empty()) {
    return {};
  }
  if (dir.size() >= kMaxPathBytes || has_control(dir)) {
    return invalid("WorkingDir is too long or holds control characters");
  }
  std::vector<std::string> parts;
  std::string_view rest = dir;
  while (!rest.empty()) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
    if (part == ".." && !parts.empty()) {
      parts.pop_back();
    } else if (!part.empty() && part != "." && part != "..") {
      parts.emplace_back(part);
    }
  }
  std::string clean;
  for (const std::string& part : parts) {
    clean += "/" + part;
  }
  dir = clean.empty() ? "/" : clean;
  if ((dir + "/").starts_with("/proc/") || (dir + "/").starts_with("/dev/fd/")) {
    return invalid("WorkingDir " + show(dir) + " is below /proc");
  }
  return {};
}

Status check_stop_signal(const std::string& signal) {
  const bool ok = signal.size() <= 16 && std::ranges::all_of(signal, [](char c) {
                    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-';
                  });
  if (!ok) {
    return invalid("StopSignal " + show(signal) + " is no signal");
  }
  return {};
}

Status check_platform(const core::JsonValue& document) {
  ATE_ASSIGN(const std::string os, text_member(document, "os"));
  ATE_ASSIGN(const std::string architecture, text_member(document, "architecture"));
  if (os.empty() || architecture.empty()) {
    return invalid("'os' or 'architecture' is missing");
  }
  if (os != "linux" || architecture != "amd64") {
    return invalid("the image is for " + escape_text(os, 40) + "/" + escape_text(architecture, 40) +
                   ", this host runs linux/amd64");
  }
  return {};
}

Result<std::vector<std::string>> read_diff_ids(const core::JsonValue& document) {
  const core::JsonValue* rootfs = document.find("rootfs");
  if (rootfs == nullptr) {
    return invalid("'rootfs' is missing");
  }
  ATE_ASSIGN(const std::string type, text_member(*rootfs, "type"));
  if (type != "layers") {
    return invalid("rootfs.type is not 'layers'");
  }
  ATE_ASSIGN(std::vector<std::string> ids, list_member(*rootfs, "diff_ids"));
  for (const std::string& id : ids) {
    if (!is_sha256_digest(id)) {
      return invalid("diff_id " + show(id) + " is not a sha256 digest");
    }
  }
  return ids;
}

}  // namespace

Status check_config(Config& config) {
  std::size_t total = 0;
  ATE_TRY(check_texts("Entrypoint", config.entrypoint, total));
  ATE_TRY(check_texts("Cmd", config.cmd, total));
  ATE_TRY(check_texts("Env", config.env, total));
  ATE_TRY(check_env(config.env));
  if (config.user.size() > 256 || has_control(config.user)) {
    return invalid("User is too long or holds control characters");
  }
  ATE_TRY(check_working_dir(config.working_dir));
  return check_stop_signal(config.stop_signal);
}

Result<Config> config_from_json(const core::JsonValue& value) {
  Config config;
  ATE_ASSIGN(config.entrypoint, list_member(value, "Entrypoint"));
  ATE_ASSIGN(config.cmd, list_member(value, "Cmd"));
  ATE_ASSIGN(config.env, list_member(value, "Env"));
  ATE_ASSIGN(config.user, text_member(value, "User"));
  ATE_ASSIGN(config.working_dir, text_member(value, "WorkingDir"));
  ATE_ASSIGN(config.stop_signal, text_member(value, "StopSignal"));
  ATE_TRY(check_config(config));
  return config;
}

std::string config_to_json(const Config& config) {
  core::JsonObject out;
  out.strings("Entrypoint", config.entrypoint)
      .strings("Cmd", config.cmd)
      .strings("Env", config.env)
      .text("User", config.user)
      .text("WorkingDir", config.working_dir)
      .text("StopSignal", config.stop_signal);
  return std::move(out).finish();
}

Result<ImageConfig> parse_image_config(std::string_view text) {
  ATE_ASSIGN(const core::JsonValue document, parse_json(text));
  if (!document.is_object()) {
    return invalid("not an object");
  }
  ATE_TRY(check_platform(document));
  ImageConfig config;
  ATE_ASSIGN(config.diff_ids, read_diff_ids(document));
  if (const core::JsonValue* process = document.find("config"); process != nullptr) {
    if (!process->is_object()) {
      return invalid("'config' is not an object");
    }
    ATE_ASSIGN(config.process, config_from_json(*process));
  }
  return config;
}

}  // namespace ate::image
