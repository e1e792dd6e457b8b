#include <google/protobuf/message.h>

#include <algorithm>
#include <memory>

#include "ate/codec/codec.hpp"
#include "codec/json_read.hpp"
#include "codec/mapper.hpp"

namespace ate::codec {
namespace {

namespace pb = google::protobuf;

bool is_inside(const std::string& path, const std::string& outer) {
  return path == outer || (path.size() > outer.size() && path.starts_with(outer) &&
                           (path[outer.size()] == '.' || path[outer.size()] == '['));
}

class Patcher {
 public:
  Patcher(const std::vector<std::string>& allowed, std::vector<Problem>& problems)
      : allowed_(allowed), mapper_(problems, Mapper::Places::Hidden, {}) {}

  void object(const Node& node, const Schema& schema, const std::string& path,
              pb::Message& message) {
    mapper_.duplicates(node, path);
    for (const Member& member : node.members) {
      const std::string member_path = join_path(path, member.key);
      const Field* field = schema.find(member.key);
      if (field == nullptr || field->output_only) {
        mapper_.unknown(member, schema, path);
        continue;
      }
      if (check(member, *field, member_path)) {
        apply(member.value, *field, member_path, message);
      }
    }
  }

  void root(const Node& node, pb::Message& message) {
    if (node.kind != Node::Kind::Mapping) {
      mapper_.report(Errc::InvalidType, "", "a merge patch must be an object", 0, 0);
      return;
    }
    object(node, schema_of(message.GetDescriptor()), "", message);
  }

 private:
  /// A path above an allowed one may only be passed through, as an object.
  bool check(const Member& member, const Field& field, const std::string& path) {
    const bool inside = std::any_of(allowed_.begin(), allowed_.end(),
                                    [&](const std::string& a) { return is_inside(path, a); });
    const bool above = std::any_of(allowed_.begin(), allowed_.end(),
                                   [&](const std::string& a) { return is_inside(a, path); });
    if (inside) {
      return true;
    }
    if (above && field.type == Field::Type::Message && !field.repeated &&
        member.value.kind == Node::Kind::Mapping) {
      return true;
    }
    std::string list;
    for (const std::string& a : allowed_) {
      list += (list.empty() ? "" : ", ") + a;
    }
    mapper_.report(Errc::InvalidValue, path, "cannot be changed here; only " + list + " can", 0, 0);
    return false;
  }

  void apply(const Node& node, const Field& field, const std::string& path, pb::Message& message) {
    const pb::Reflection& reflection = *message.GetReflection();
    if (node.kind == Node::Kind::Null) {
      reflection.ClearField(&message, field.descriptor);
      return;
    }
    const bool is_object = node.kind == Node::Kind::Mapping;
    if (is_object && field.type == Field::Type::Message && !field.repeated) {
      object(node, *field.message, path, *reflection.MutableMessage(&message, field.descriptor));
      return;
    }
    if (is_object && field.type == Field::Type::StringMap) {
      mapper_.duplicates(node, path);
      for (const Member& member : node.members) {
        remove_entry(member.key, field, message);
        if (member.value.kind != Node::Kind::Null) {
          mapper_.map_entry(member, field, path, message);
        }
      }
      return;
    }
    mapper_.field(node, field, path, message);
  }

  static void remove_entry(const std::string& key, const Field& field, pb::Message& message) {
    const pb::Reflection& reflection = *message.GetReflection();
    const pb::FieldDescriptor* key_field = field.descriptor->message_type()->map_key();
    const int size = reflection.FieldSize(message, field.descriptor);
    for (int i = 0; i < size; ++i) {
      const pb::Message& entry = reflection.GetRepeatedMessage(message, field.descriptor, i);
      if (entry.GetReflection()->GetString(entry, key_field) == key) {
        reflection.SwapElements(&message, field.descriptor, i, size - 1);
        reflection.RemoveLast(&message, field.descriptor);
        return;
      }
    }
  }

  const std::vector<std::string>& allowed_;
  Mapper mapper_;
};

}  // namespace

Status merge_patch(std::string_view patch, const std::vector<std::string>& allowed,
                   pb::Message& message) {
  ATE_ASSIGN(const Node root, read_json(patch));
  std::vector<Problem> problems;
  const std::unique_ptr<pb::Message> copy(message.New());
  copy->CopyFrom(message);
  Patcher(allowed, problems).root(root, *copy);
  if (!problems.empty()) {
    return fail(problems_error(std::move(problems)));
  }
  message.GetReflection()->Swap(&message, copy.get());
  return {};
}

}  // namespace ate::codec
