#include "codec/mapper.hpp"

#include <google/protobuf/message.h>

#include <algorithm>
#include <array>

#include "ate/util/log.hpp"

namespace ate::codec {
namespace {

namespace pb = google::protobuf;

constexpr std::size_t kShown = 60;

std::string shown(std::string_view text) {
  return "\"" + escape_text(text, kShown) + "\"";
}

std::string_view kind_name(const Node& node) {
  switch (node.kind) {
    case Node::Kind::Null:
      return "null";
    case Node::Kind::Bool:
      return "a boolean";
    case Node::Kind::Number:
      return "a number";
    case Node::Kind::String:
      return "a string";
    case Node::Kind::Sequence:
      return "a list";
    case Node::Kind::Mapping:
      return "an object";
  }
  return "";
}

/// Fields of other systems that are refused for good (design.md section 7), with the reason.
struct Refused {
  std::string_view name;
  std::string_view reason;
};

constexpr std::array<Refused, 9> kRefused{{
    {"requests", "only limits exist: a worker's budget is reserved whole"},
    {"claims", "resource claims are a scheduler's concept and do not exist on one host"},
    {"csi", "CSI drivers need a cluster; use durableDir"},
    {"persistentVolumeClaim", "claims need a cluster; use durableDir"},
    {"trustBundle", "trust bundles are not distributed by this daemon; put them into the image"},
    {"clusterTrustBundle",
     "trust bundles are not distributed by this daemon; put them into the image"},
    {"hostPath", "host paths are never mounted into actors"},
    {"location", "snapshots are kept under stateDir; object stores are not supported"},
    {"objectStore", "snapshots are kept under stateDir; object stores are not supported"},
}};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string suggestion(std::string_view key, const Schema& schema) {
  if (key.size() > 40) {
    return {};
  }
  for (const Field& field : schema.fields) {
    if (!field.output_only && edit_distance(key, field.name) <= 2) {
      return "; did you mean " + field.name + "?";
    }
  }
  return {};
}

bool is_map(const Field& field) {
  return field.type == Field::Type::StringMap || field.type == Field::Type::MessageMap;
}

}  // namespace

std::string join_path(const std::string& path, std::string_view key) {
  const bool plain =
      !key.empty() && key.size() <= 63 && std::all_of(key.begin(), key.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_';
      });
  if (!plain) {
    return path + "[" + shown(key) + "]";
  }
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

Mapper::Mapper(std::vector<Problem>& problems, Places places, std::string file)
    : problems_(problems), places_(places), file_(std::move(file)) {}

void Mapper::report(Errc code, const std::string& path, std::string detail, std::uint32_t line,
                    std::uint32_t column) {
  if (problems_.size() >= kMaxProblems) {
    return;
  }
  Problem problem;
  problem.code = code;
  problem.field = path;
  problem.detail = std::move(detail);
  problem.file = file_;
  if (places_ == Places::Shown) {
    problem.line = line;
    problem.column = column;
  }
  problems_.push_back(std::move(problem));
}

void Mapper::wrong_type(const Node& node, const std::string& path, std::string_view wanted) {
  std::string detail = "must be " + std::string(wanted) + ", not " + std::string(kind_name(node));
  if (node.kind == Node::Kind::Null) {
    detail += "; leave the field out instead";
  } else if (node.kind == Node::Kind::Bool || node.kind == Node::Kind::Number) {
    detail += " (" + escape_text(node.text, kShown) + ")";
  } else if (node.kind == Node::Kind::String) {
    detail += " (" + shown(node.text) + ")";
  }
  report(Errc::InvalidType, path, std::move(detail), node.line, node.column);
}

void Mapper::unknown(const Member& member, const Schema& schema, const std::string& path) {
  const Field* known = schema.find(member.key);
  std::string detail = "unknown field " + shown(member.key);
  if (known != nullptr) {
    detail = shown(member.key) + " is set by the server and cannot be given";
  } else {
    const auto refused =
        std::find_if(kRefused.begin(), kRefused.end(),
                     [&member](const Refused& row) { return row.name == member.key; });
    detail += refused != kRefused.end() ? ": " + std::string(refused->reason)
                                        : suggestion(member.key, schema);
  }
  report(Errc::UnknownField, join_path(path, member.key), std::move(detail), member.line,
         member.column);
}

void Mapper::duplicates(const Node& node, const std::string& path) {
  if (node.members.size() < 2) {
    return;
  }
  std::vector<const Member*> order;
  order.reserve(node.members.size());
  for (const Member& member : node.members) {
    order.push_back(&member);
  }
  // Both stand in one vector: the address is the order in the text.
  std::sort(order.begin(), order.end(), [](const Member* a, const Member* b) {
    return a->key != b->key ? a->key < b->key : a < b;
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->key == order[i - 1]->key) {
      std::string detail = "the key " + shown(order[i]->key) + " stands twice";
      if (places_ == Places::Shown) {
        detail += ", in lines " + std::to_string(order[i - 1]->line) + " and " +
                  std::to_string(order[i]->line);
      }
      report(Errc::Malformed, join_path(path, order[i]->key), std::move(detail), order[i]->line,
             order[i]->column);
    }
  }
}

void Mapper::object(const Node& node, std::string_view kind, pb::Message& message) {
  kind_ = kind;
  if (node.kind != Node::Kind::Mapping) {
    wrong_type(node, "", "an object");
    return;
  }
  members(node, schema_of(message.GetDescriptor()), "", true, message);
}

void Mapper::head(const Member& member) {
  const std::string wanted = member.key == "kind" ? kind_ : std::string(kApiVersion);
  if (member.value.kind != Node::Kind::String) {
    wrong_type(member.value, member.key, "a string");
  } else if (member.value.text != wanted) {
    report(Errc::InvalidValue, member.key,
           "must be " + shown(wanted) + ", not " + shown(member.value.text), member.value.line,
           member.value.column);
  }
}

void Mapper::members(const Node& node, const Schema& schema, const std::string& path, bool is_root,
                     pb::Message& message) {
  duplicates(node, path);
  for (const Member& member : node.members) {
    if (is_root && !kind_.empty() && (member.key == "kind" || member.key == "apiVersion")) {
      head(member);
      continue;
    }
    const Field* known = schema.find(member.key);
    if (known == nullptr || known->output_only) {
      unknown(member, schema, path);
      continue;
    }
    field(member.value, *known, join_path(path, member.key), message);
  }
}

void Mapper::field(const Node& node, const Field& field, const std::string& path,
                   pb::Message& message) {
  const pb::Reflection& reflection = *message.GetReflection();
  if (node.kind == Node::Kind::Null && field.nullable) {
    reflection.ClearField(&message, field.descriptor);
    return;
  }
  if (is_map(field)) {
    if (node.kind != Node::Kind::Mapping) {
      wrong_type(node, path, "an object");
      return;
    }
    reflection.ClearField(&message, field.descriptor);
    duplicates(node, path);
    for (const Member& member : node.members) {
      map_entry(member, field, path, message);
    }
    return;
  }
  if (field.repeated) {
    list(node, field, path, message);
    return;
  }
  if (field.type == Field::Type::Message) {
    if (node.kind != Node::Kind::Mapping) {
      wrong_type(node, path, "an object");
      return;
    }
    members(node, *field.message, path, false,
            *reflection.MutableMessage(&message, field.descriptor));
    return;
  }
  scalar(node, field, path, message);
}

void Mapper::map_entry(const Member& member, const Field& field, const std::string& path,
                       pb::Message& message) {
  const std::string entry_path = join_path(path, member.key);
  if (member.ambiguous) {
    report(Errc::InvalidType, entry_path, "put quotes around the key " + shown(member.key),
           member.line, member.column);
    return;
  }
  if (member.key.find('\0') != std::string::npos) {
    report(Errc::InvalidValue, entry_path, "a key must not contain NUL", member.line,
           member.column);
    return;
  }
  std::string text;
  if (field.type == Field::Type::StringMap && !string(member.value, false, entry_path, text)) {
    return;
  }
  if (field.type == Field::Type::MessageMap && member.value.kind != Node::Kind::Mapping) {
    wrong_type(member.value, entry_path, "an object");
    return;
  }
  const pb::Reflection& reflection = *message.GetReflection();
  const pb::FieldDescriptor* key_field = field.descriptor->message_type()->map_key();
  const pb::FieldDescriptor* value_field = field.descriptor->message_type()->map_value();
  pb::Message* entry = reflection.AddMessage(&message, field.descriptor);
  const pb::Reflection& entry_reflection = *entry->GetReflection();
  entry_reflection.SetString(entry, key_field, member.key);
  if (field.type == Field::Type::StringMap) {
    entry_reflection.SetString(entry, value_field, std::move(text));
    return;
  }
  members(member.value, *field.message, entry_path, false,
          *entry_reflection.MutableMessage(entry, value_field));
}

void Mapper::list(const Node& node, const Field& field, const std::string& path,
                  pb::Message& message) {
  if (node.kind != Node::Kind::Sequence) {
    wrong_type(node, path, "a list");
    return;
  }
  const pb::Reflection& reflection = *message.GetReflection();
  reflection.ClearField(&message, field.descriptor);
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const Node& item = node.items[i];
    const std::string item_path = path + "[" + std::to_string(i) + "]";
    if (field.type != Field::Type::Message) {
      std::string text;
      string(item, false, item_path, text);
      reflection.AddString(&message, field.descriptor, std::move(text));
      continue;
    }
    // Also for an item that can't be read: those behind it keep their numbers in later findings.
    pb::Message& added = *reflection.AddMessage(&message, field.descriptor);
    if (item.kind != Node::Kind::Mapping) {
      wrong_type(item, item_path, "an object");
      continue;
    }
    members(item, *field.message, item_path, false, added);
  }
}

}  // namespace ate::codec
