#include "core/checker.hpp"

#include <algorithm>

#include "ate/core/units.hpp"
#include "ate/util/ids.hpp"
#include "ate/util/log.hpp"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::core {
namespace {

constexpr std::size_t kShown = 60;
constexpr std::size_t kMaxMetadataBytes = 64U << 10U;

std::string shown(std::string_view text) {
  return "\"" + escape_text(text, kShown) + "\"";
}

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Kubernetes' grammar of label values and of the name part of keys.
bool is_qualified(std::string_view text) {
  return text.size() <= 63 && !text.empty() && is_alphanumeric(text.front()) &&
         is_alphanumeric(text.back()) && std::all_of(text.begin(), text.end(), [](char c) {
           return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

bool is_dns_subdomain(std::string_view text) {
  if (text.empty() || text.size() > 253) {
    return false;
  }
  while (true) {
    const std::size_t dot = text.find('.');
    if (!is_dns_label(text.substr(0, dot))) {
      return false;
    }
    if (dot == std::string_view::npos) {
      return true;
    }
    text.remove_prefix(dot + 1);
  }
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

std::string seconds_text(std::chrono::milliseconds value) {
  const auto count = value.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + "s" : std::to_string(count) + "ms";
}

}  // namespace

std::string item_path(const std::string& list, int index) {
  return list + "[" + std::to_string(index) + "]";
}

std::string entry_path(const std::string& map, std::string_view key) {
  const bool plain = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return is_alphanumeric(c) || c == '-' || c == '_';
  });
  return plain ? map + "." + std::string(key) : map + "[" + shown(key) + "]";
}

void Checker::invalid(const std::string& path, std::string detail) {
  Problem problem;
  problem.code = Errc::InvalidValue;
  problem.field = path;
  problem.detail = std::move(detail);
  problems_.push_back(std::move(problem));
}

void Checker::not_yet(const std::string& path, const std::string& what) {
  Problem problem;
  problem.code = Errc::NotYetSupported;
  problem.field = path;
  problem.detail = "not yet supported: " + what;
  problems_.push_back(std::move(problem));
}

void Checker::required(const std::string& path, std::string_view value) {
  if (value.empty()) {
    invalid(path, "is required");
  }
}

void Checker::label_name(const std::string& path, std::string_view value, bool needed) {
  if (value.empty()) {
    if (needed) {
      invalid(path, "is required");
    }
    return;
  }
  if (!is_dns_label(value)) {
    invalid(path, shown(value) +
                      " is no name: 1 to 63 of a-z, 0-9 and \"-\", with no \"-\" at either end");
  }
}

bool Checker::clean_path(const std::string& path, std::string_view value) {
  if (value.empty()) {
    invalid(path, "is required");
    return false;
  }
  bool clean = value.front() == '/' && value.size() > 1 && value.back() != '/' &&
               value.size() <= 4096 && !has_control(value);
  for (std::size_t at = 0; clean && at < value.size();) {
    const std::size_t end = std::min(value.find('/', at + 1), value.size());
    const std::string_view part = value.substr(at + 1, end - at - 1);
    clean = !part.empty() && part != "." && part != ".." && part.size() <= 255;
    at = end;
  }
  if (!clean) {
    invalid(path, shown(value) +
                      " is no clean absolute path: it starts with \"/\" and has no \".\", \"..\", "
                      "\"//\" or trailing \"/\"");
  }
  return clean;
}

void Checker::text(const std::string& path, std::string_view value, std::size_t limit) {
  if (value.size() > limit) {
    invalid(path, "is longer than " + std::to_string(limit) + " bytes");
  } else if (has_control(value)) {
    invalid(path, "must not contain control characters");
  }
}

std::int64_t Checker::bytes(const std::string& path, std::string_view value, std::int64_t lowest,
                            std::int64_t highest) {
  const Result<std::int64_t> parsed = parse_bytes(value);
  if (!parsed) {
    invalid(path, parsed.error().message());
    return -1;
  }
  if (*parsed < lowest || *parsed > highest) {
    invalid(path,
            shown(value) + " is outside " + format_bytes(lowest) + ".." + format_bytes(highest));
    return -1;
  }
  return *parsed;
}

std::int64_t Checker::cpu_milli(const std::string& path, std::string_view value,
                                std::int64_t lowest, std::int64_t highest) {
  const Result<std::int64_t> parsed = parse_cpu_milli(value);
  if (!parsed) {
    invalid(path, parsed.error().message());
    return -1;
  }
  if (*parsed < lowest || *parsed > highest) {
    invalid(path, shown(value) + " is outside " + std::to_string(lowest) + "m.." +
                      std::to_string(highest / 1000));
    return -1;
  }
  return *parsed;
}

std::int64_t Checker::count(const std::string& path, std::string_view value, std::int64_t lowest,
                            std::int64_t highest) {
  const Result<std::int64_t> parsed = parse_count(value);
  if (!parsed) {
    invalid(path, parsed.error().message());
    return -1;
  }
  range(path, *parsed, lowest, highest);
  return *parsed;
}

void Checker::duration(const std::string& path, std::string_view value,
                       std::chrono::milliseconds lowest, std::chrono::milliseconds highest) {
  const Result<std::chrono::milliseconds> parsed = parse_duration(value);
  if (!parsed) {
    invalid(path, parsed.error().message());
  } else if (*parsed < lowest || *parsed > highest) {
    invalid(path,
            shown(value) + " is outside " + seconds_text(lowest) + ".." + seconds_text(highest));
  }
}

void Checker::range(const std::string& path, std::int64_t value, std::int64_t lowest,
                    std::int64_t highest) {
  if (value < lowest || value > highest) {
    invalid(path, std::to_string(value) + " is outside " + std::to_string(lowest) + ".." +
                      std::to_string(highest));
  }
}

void Checker::port(const std::string& path, std::int64_t value) {
  range(path, value, 1, 65535);
}

void Checker::label_key(const std::string& path, std::string_view key) {
  const std::size_t slash = key.find('/');
  const bool prefixed = slash != std::string_view::npos;
  const std::string_view name = prefixed ? key.substr(slash + 1) : key;
  if (!is_qualified(name) || (prefixed && !is_dns_subdomain(key.substr(0, slash)))) {
    invalid(entry_path(path, key),
            shown(key) +
                " is no label key: [prefix.example/]name, the name 1 to 63 of letters, "
                "digits, \"-\", \"_\" and \".\", starting and ending with a letter or digit");
  }
}

void Checker::labels(const std::string& path,
                     const google::protobuf::Map<std::string, std::string>& map) {
  // In key order, so that the same input gives the same answer.
  std::vector<std::pair<std::string, std::string>> sorted(map.begin(), map.end());
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [key, value] : sorted) {
    label_key(path, key);
    if (!value.empty() && !is_qualified(value)) {
      invalid(entry_path(path, key),
              shown(value) +
                  " is no label value: at most 63 of letters, digits, \"-\", \"_\" and \".\", "
                  "starting and ending with a letter or digit");
    }
  }
}

void Checker::tag(const std::string& path, std::string_view value) {
  if (!is_qualified(value)) {
    invalid(path, shown(value) +
                      " is no tag: 1 to 63 of letters, digits, \"-\", \"_\" and \".\", starting "
                      "and ending with a letter or digit");
  }
}

void Checker::metadata(const v1alpha1::Metadata& metadata, bool named, bool tenant) {
  label_name("metadata.name", metadata.name(), named);
  label_name("metadata.atespace", metadata.atespace(), false);
  if (!tenant && !metadata.atespace().empty()) {
    invalid("metadata.atespace", "this kind belongs to the node, not to an atespace");
  }
  labels("metadata.labels", metadata.labels());
  std::size_t total = 0;
  std::vector<std::string> keys;
  for (const auto& [key, value] : metadata.annotations()) {
    keys.push_back(key);
    total += key.size() + value.size();
  }
  std::sort(keys.begin(), keys.end());
  for (const std::string& key : keys) {
    label_key("metadata.annotations", key);
  }
  for (const auto& [key, value] : metadata.labels()) {
    total += key.size() + value.size();
  }
  if (total > kMaxMetadataBytes) {
    invalid("metadata", "labels and annotations take " + std::to_string(total) +
                            " bytes together; at most 65536 are allowed");
  }
}

void Checker::idle(const std::string& path, const v1alpha1::Idle& idle) {
  using namespace std::chrono_literals;
  if (idle.after().empty()) {
    invalid(path + ".after", "is required");
  } else {
    duration(path + ".after", idle.after(), 1s, 8760h);
  }
  if (idle.action() == v1alpha1::Idle::unset) {
    invalid(path + ".action", "is required: pause or suspend");
  }
}

void Checker::ttl(const std::string& path, std::string_view value) {
  using namespace std::chrono_literals;
  if (!value.empty()) {
    duration(path, value, 1s, 87'600h);
  }
}

}  // namespace ate::core
