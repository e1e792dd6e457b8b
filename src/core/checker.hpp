#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ate/util/error.hpp"

namespace google::protobuf {
template <class Key, class T>
class Map;
}  // namespace google::protobuf

namespace ate::v1alpha1 {
class Metadata;
class Idle;
}  // namespace ate::v1alpha1

namespace ate::core {

/// Collects problems; the small rules that all kinds share.
class Checker {
 public:
  void invalid(const std::string& path, std::string detail);
  /// `what` as a noun: "several containers per actor". The sentence is made here.
  void not_yet(const std::string& path, const std::string& what);

  void required(const std::string& path, std::string_view value);
  /// DNS-1123 label; empty is a problem only when `needed`.
  void label_name(const std::string& path, std::string_view value, bool needed);
  /// Absolute, without `.`, `..`, `//`, trailing slash or control characters; "/" itself is
  /// refused.
  bool clean_path(const std::string& path, std::string_view value);
  /// At most `limit` bytes and no control character.
  void text(const std::string& path, std::string_view value, std::size_t limit);
  /// Bytes within [lowest, highest]; returns them or -1.
  std::int64_t bytes(const std::string& path, std::string_view value, std::int64_t lowest,
                     std::int64_t highest);
  std::int64_t cpu_milli(const std::string& path, std::string_view value, std::int64_t lowest,
                         std::int64_t highest);
  std::int64_t count(const std::string& path, std::string_view value, std::int64_t lowest,
                     std::int64_t highest);
  void duration(const std::string& path, std::string_view value, std::chrono::milliseconds lowest,
                std::chrono::milliseconds highest);
  void range(const std::string& path, std::int64_t value, std::int64_t lowest,
             std::int64_t highest);
  void port(const std::string& path, std::int64_t value);
  void labels(const std::string& path, const google::protobuf::Map<std::string, std::string>& map);
  /// Grammar of a label's value, not empty.
  void tag(const std::string& path, std::string_view value);
  /// `named`: metadata.name is required. `tenant`: the kind lives in an atespace.
  void metadata(const v1alpha1::Metadata& metadata, bool named, bool tenant);
  void idle(const std::string& path, const v1alpha1::Idle& idle);
  void ttl(const std::string& path, std::string_view value);

  [[nodiscard]] std::vector<Problem> take() { return std::move(problems_); }

 private:
  void label_key(const std::string& path, std::string_view key);

  std::vector<Problem> problems_;
};

[[nodiscard]] std::string item_path(const std::string& list, int index);
/// `path["key"]` or `path.key`, as the codec writes it.
[[nodiscard]] std::string entry_path(const std::string& map, std::string_view key);

}  // namespace ate::core
