#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "ate/codec/codec.hpp"
#include "ate/core/json.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "codec/schema.hpp"

namespace ate::codec {
namespace {

using core::append_json_string;

namespace pb = google::protobuf;

template <class Number>
void append_number(std::string& out, Number value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  out.append(buffer.data(), end.ptr);
}

void append_double(std::string& out, double value) {
  // JSON has no infinity and no NaN.
  append_number(out, std::isfinite(value) ? value : 0.0);
}

using StringMap = pb::Map<std::string, std::string>;

void append_map(std::string& out, const StringMap& map) {
  std::vector<const StringMap::value_type*> entries;
  entries.reserve(map.size());
  for (const auto& entry : map) {
    entries.push_back(&entry);
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  out += '{';
  for (const auto* entry : entries) {
    if (out.back() != '{') {
      out += ',';
    }
    append_json_string(out, entry->first);
    out += ':';
    append_json_string(out, entry->second);
  }
  out += '}';
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void object(const pb::Message& message, const Schema& schema, std::string_view head) {
    out_ += '{';
    out_ += head;
    bool first = head.empty();
    for (const Field& field : schema.fields) {
      member(message, field, first);
    }
    out_ += '}';
  }

 private:
  void key(const Field& field, bool& first) {
    if (!first) {
      out_ += ',';
    }
    first = false;
    out_ += field.key;
  }

  void member(const pb::Message& message, const Field& field, bool& first) {
    const pb::Reflection& reflection = *message.GetReflection();
    if (field.repeated || field.type == Field::Type::StringMap ||
        field.type == Field::Type::MessageMap) {
      if (field.always || reflection.FieldSize(message, field.descriptor) > 0) {
        key(field, first);
        field.repeated ? list(message, field) : map(message, field);
      }
      return;
    }
    // Without presence HasField is "differs from the default".
    const bool set = reflection.HasField(message, field.descriptor);
    if (!set && field.nullable) {
      key(field, first);
      out_ += "null";
      return;
    }
    if ((!set && !field.always) || is_unset_enum(message, field)) {
      return;
    }
    key(field, first);
    scalar(message, field);
  }

  static bool is_unset_enum(const pb::Message& message, const Field& field) {
    return field.type == Field::Type::Enum &&
           !field.enum_names.contains(
               message.GetReflection()->GetEnumValue(message, field.descriptor));
  }

  void scalar(const pb::Message& message, const Field& field) {
    const pb::Reflection& reflection = *message.GetReflection();
    const pb::FieldDescriptor* descriptor = field.descriptor;
    std::string scratch;
    switch (field.type) {
      case Field::Type::Bool:
        out_ += reflection.GetBool(message, descriptor) ? "true" : "false";
        return;
      case Field::Type::Int32:
        append_number(out_, reflection.GetInt32(message, descriptor));
        return;
      case Field::Type::Int64:
        append_number(out_, reflection.GetInt64(message, descriptor));
        return;
      case Field::Type::Uint32:
        append_number(out_, reflection.GetUInt32(message, descriptor));
        return;
      case Field::Type::Double:
        append_double(out_, reflection.GetDouble(message, descriptor));
        return;
      case Field::Type::String:
        append_json_string(out_, reflection.GetStringReference(message, descriptor, &scratch));
        return;
      case Field::Type::Enum:
        append_json_string(out_, field.enum_names.at(reflection.GetEnumValue(message, descriptor)));
        return;
      case Field::Type::Message:
        object(reflection.GetMessage(message, descriptor), *field.message, {});
        return;
      case Field::Type::StringMap:
      case Field::Type::MessageMap:
        return;  // not scalars; member() writes them
    }
  }

  void list(const pb::Message& message, const Field& field) {
    const pb::Reflection& reflection = *message.GetReflection();
    const int size = reflection.FieldSize(message, field.descriptor);
    std::string scratch;
    out_ += '[';
    for (int i = 0; i < size; ++i) {
      if (i > 0) {
        out_ += ',';
      }
      // The object model has lists of strings and of messages only.
      if (field.type == Field::Type::Message) {
        object(reflection.GetRepeatedMessage(message, field.descriptor, i), *field.message, {});
      } else {
        append_json_string(
            out_, reflection.GetRepeatedStringReference(message, field.descriptor, i, &scratch));
      }
    }
    out_ += ']';
  }

  void map(const pb::Message& message, const Field& field) {
    // The maps of every actor, read without reflection: its view of a map is a second copy that
    // stays in the message.
    if (message.GetDescriptor() == v1alpha1::Metadata::descriptor()) {
      const auto& metadata = static_cast<const v1alpha1::Metadata&>(message);
      append_map(out_, field.descriptor->number() == v1alpha1::Metadata::kLabelsFieldNumber
                           ? metadata.labels()
                           : metadata.annotations());
      return;
    }
    reflected_map(message, field);
  }

  void reflected_map(const pb::Message& message, const Field& field) {
    const pb::Reflection& reflection = *message.GetReflection();
    const pb::FieldDescriptor* key_field = field.descriptor->message_type()->map_key();
    const pb::FieldDescriptor* value_field = field.descriptor->message_type()->map_value();
    std::vector<std::pair<std::string, const pb::Message*>> entries;
    const int size = reflection.FieldSize(message, field.descriptor);
    for (int i = 0; i < size; ++i) {
      const pb::Message& entry = reflection.GetRepeatedMessage(message, field.descriptor, i);
      entries.emplace_back(entry.GetReflection()->GetString(entry, key_field), &entry);
    }
    std::sort(entries.begin(), entries.end());
    out_ += '{';
    for (const auto& [name, entry] : entries) {
      if (out_.back() != '{') {
        out_ += ',';
      }
      append_json_string(out_, name);
      out_ += ':';
      const pb::Reflection& entry_reflection = *entry->GetReflection();
      if (field.type == Field::Type::MessageMap) {
        object(entry_reflection.GetMessage(*entry, value_field), *field.message, {});
      } else {
        append_json_string(out_, entry_reflection.GetString(*entry, value_field));
      }
    }
    out_ += '}';
  }

  std::string& out_;
};

}  // namespace

std::string to_json(const pb::Message& message, std::string_view kind) {
  std::string out;
  out.reserve(1024);
  std::string head;
  if (!kind.empty()) {
    head = "\"apiVersion\":\"ate.dev/v1alpha1\",\"kind\":\"" + std::string(kind) + "\"";
  }
  Writer(out).object(message, schema_of(message.GetDescriptor()), head);
  return out;
}

}  // namespace ate::codec
