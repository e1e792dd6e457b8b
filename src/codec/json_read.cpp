#include "codec/json_read.hpp"

#include <algorithm>
#include <utility>

#include "ate/core/json.hpp"

namespace ate::codec {
namespace {

/// Turns offsets into lines and columns, in one walk when asked in ascending order.
class Locator {
 public:
  explicit Locator(std::string_view text) : text_(text) {}

  void locate(std::size_t at, std::uint32_t& line, std::uint32_t& column) {
    for (; at_ < at; ++at_) {
      if (text_[at_] == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      }
    }
    line = line_;
    column = static_cast<std::uint32_t>(at - line_start_ + 1);
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  std::uint32_t line_ = 1;
};

Node::Kind node_kind(core::JsonValue::Kind kind) {
  using Kind = core::JsonValue::Kind;
  switch (kind) {
    case Kind::Null:
      return Node::Kind::Null;
    case Kind::Bool:
      return Node::Kind::Bool;
    case Kind::Number:
      return Node::Kind::Number;
    case Kind::String:
      return Node::Kind::String;
    case Kind::Array:
      return Node::Kind::Sequence;
    case Kind::Object:
      return Node::Kind::Mapping;
  }
  std::unreachable();
}

void to_node(core::JsonValue value, Locator& locator, Node& node) {
  node.kind = node_kind(value.kind);
  locator.locate(value.begin, node.line, node.column);
  node.text = std::move(value.text);
  node.items.resize(value.items.size());
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    to_node(std::move(value.items[i]), locator, node.items[i]);
  }
  node.members.resize(value.members.size());
  for (std::size_t i = 0; i < node.members.size(); ++i) {
    Member& member = node.members[i];
    member.key = std::move(value.members[i].key);
    locator.locate(value.members[i].begin, member.line, member.column);
    to_node(std::move(value.members[i].value), locator, member.value);
  }
}

Error malformed(std::string_view text, const core::JsonFault& fault) {
  Problem problem;
  problem.code = Errc::Malformed;
  problem.detail = fault.what;
  Locator(text).locate(fault.at, problem.line, problem.column);
  const std::string place =
      "line " + std::to_string(problem.line) + ", column " + std::to_string(problem.column);
  return Error(Errc::Malformed, "invalid JSON at " + place + ": " + fault.what)
      .with_problems({std::move(problem)});
}

}  // namespace

Result<Node> read_json(std::string_view text) {
  // The size is bounded by whoever took the text; duplicate keys the mapper refuses with their
  // path.
  const core::JsonLimits limits{
      .bytes = text.size(), .depth = kMaxDepth, .values = kMaxNodes, .unique_keys = false};
  std::expected<core::JsonValue, core::JsonFault> value = core::parse_json(text, limits);
  if (!value) {
    return fail(malformed(text, value.error()));
  }
  Node root;
  Locator locator(text);
  to_node(std::move(*value), locator, root);
  return root;
}

}  // namespace ate::codec
