#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ate/util/result.hpp"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

/// The one reflection-driven mapper between JSON/YAML text and messages of proto/.
namespace ate::codec {

/// JSON text of a message: lowerCamelCase names, 64-bit integers as numbers, enumerators by name,
/// unset fields left out except (nullable) -> null and (always). `kind` non-empty adds apiVersion
/// and kind in front.
[[nodiscard]] std::string to_json(const google::protobuf::Message& message, std::string_view kind);

/// JSON object -> message. Unknown fields, wrong types, output-only fields, duplicate keys, depth >
/// 32, trailing bytes: all problems at once, with their path. `kind` non-empty: optional
/// apiVersion/kind members must match. After an error `message` holds what could be read.
[[nodiscard]] Status from_json(std::string_view text, std::string_view kind,
                               google::protobuf::Message& message);

/// RFC 7396 merge patch of `message` by JSON text; then checked as from_json does. `allowed`: the
/// only field paths that the patch may touch (`metadata.labels`, `spec.idle`, ...); others are
/// InvalidValue with the path.
[[nodiscard]] Status merge_patch(std::string_view patch, const std::vector<std::string>& allowed,
                                 google::protobuf::Message& message);

struct Place {
  std::uint32_t line = 0;    // 1-based
  std::uint32_t column = 0;  // 1-based, in bytes
};

/// One document of a YAML file.
struct Document {
  std::string api_version;
  std::string kind;
  std::uint32_t line = 1;  // where it starts
  /// NodeConfig, ActorTemplate, WorkerPool or SandboxConfig; null when the text is none. With
  /// problems it holds what could be read: good for finding more of them, for nothing else.
  std::unique_ptr<google::protobuf::Message> message;
  std::vector<Problem> problems;
  std::string file;
  /// Where each path stands (`spec.containers[0].image`), for problems found later.
  std::map<std::string, Place> places;
};

/// Gives problems of core/validate about `document` its file, and the line and column of their path
/// (of the nearest outer one when that is not in the text).
void place_problems(const Document& document, std::vector<Problem>& problems);

/// `found` in what could be read of a text, less what only echoes `known` problems of it: findings
/// about the same path, or about what holds it or lies in it. Nothing when the text itself is
/// broken.
[[nodiscard]] std::vector<Problem> without_echoes(const std::vector<Problem>& known,
                                                  std::vector<Problem> found);

/// An error of from_json together with what was found in what could be read.
[[nodiscard]] Error with_findings(Error error, std::vector<Problem> found);

/// One error that carries all `problems` (not empty); its code is one of 400 when any of them is.
[[nodiscard]] Error problems_error(std::vector<Problem> problems);

/// Splits at ^---(\s|$), pre-scans depth and aliases, parses each document (anchors, aliases, tags,
/// duplicate keys are refused), maps it by its kind. Never throws; every problem carries line and
/// column.
[[nodiscard]] std::vector<Document> parse_yaml(std::string_view text, const std::string& file);

/// The deterministic serialization: equal bytes for equal messages whatever their text was. Digests
/// are taken of it (artifacts::sha256_text) and the store keeps it.
[[nodiscard]] std::string canonical_bytes(const google::protobuf::Message& message);

}  // namespace ate::codec
