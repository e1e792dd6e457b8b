#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ate/util/error.hpp"
#include "codec/node.hpp"
#include "codec/schema.hpp"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace ate::codec {

inline constexpr std::string_view kApiVersion = "ate.dev/v1alpha1";

/// Node -> message by reflection, for both front ends. All problems are collected (at most
/// kMaxProblems), each with its path; the message is only good when there are none.
class Mapper {
 public:
  static constexpr std::size_t kMaxProblems = 100;

  /// Files are written in lines; a request's place is its path alone.
  enum class Places : std::uint8_t { Hidden, Shown };
  Mapper(std::vector<Problem>& problems, Places places, std::string file);

  /// A whole object. `kind` non-empty: apiVersion and kind members are allowed and must match.
  void object(const Node& node, std::string_view kind, google::protobuf::Message& message);

  /// Sets one field from a value (lists and maps are replaced); `path` is the field's.
  void field(const Node& node, const Field& field, const std::string& path,
             google::protobuf::Message& message);

  /// Sets one entry of a map field.
  void map_entry(const Member& member, const Field& field, const std::string& path,
                 google::protobuf::Message& message);

  void unknown(const Member& member, const Schema& schema, const std::string& path);
  void duplicates(const Node& node, const std::string& path);
  void report(Errc code, const std::string& path, std::string detail, std::uint32_t line,
              std::uint32_t column);

 private:
  void members(const Node& node, const Schema& schema, const std::string& path, bool is_root,
               google::protobuf::Message& message);
  void head(const Member& member);
  void list(const Node& node, const Field& field, const std::string& path,
            google::protobuf::Message& message);
  void scalar(const Node& node, const Field& field, const std::string& path,
              google::protobuf::Message& message);
  void integer(const Node& node, const Field& field, const std::string& path,
               google::protobuf::Message& message);
  void floating(const Node& node, const Field& field, const std::string& path,
                google::protobuf::Message& message);
  void enumerator(const Node& node, const Field& field, const std::string& path,
                  google::protobuf::Message& message);
  bool string(const Node& node, bool quantity, const std::string& path, std::string& out);
  void wrong_type(const Node& node, const std::string& path, std::string_view wanted);

  std::vector<Problem>& problems_;
  Places places_;
  std::string file_;
  std::string kind_;
};

/// `spec` + `image` -> `spec.image`; keys that are no plain word become `labels["a.b/c"]`.
[[nodiscard]] std::string join_path(const std::string& path, std::string_view key);

}  // namespace ate::codec
