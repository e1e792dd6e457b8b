#include "codec/schema.hpp"

#include <google/protobuf/descriptor.h>

#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"
#include "ate/v1alpha1/options.pb.h"
#include "ate/v1alpha1/requests.pb.h"

namespace ate::codec {
namespace {

namespace pb = google::protobuf;

/// `none_` is how the object model writes an enumerator whose name is taken.
std::string enum_text(const pb::EnumValueDescriptor& value) {
  std::string text = value.name();
  if (!text.empty() && text.back() == '_') {
    text.pop_back();
  }
  return text;
}

bool means_unset(const pb::EnumValueDescriptor& value) {
  const std::string& name = value.name();
  return value.number() == 0 &&
         (name == "unspecified" || name == "unset" || name == "Unset" || name == "UNSET");
}

Field::Type type_of(const pb::FieldDescriptor& field) {
  if (field.is_map()) {
    const pb::FieldDescriptor* value = field.message_type()->map_value();
    return value->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE ? Field::Type::MessageMap
                                                                     : Field::Type::StringMap;
  }
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return Field::Type::Bool;
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return Field::Type::Int32;
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return Field::Type::Int64;
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      return Field::Type::Uint32;
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return Field::Type::Double;
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return Field::Type::String;
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      return Field::Type::Enum;
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      return Field::Type::Message;
    case pb::FieldDescriptor::CPPTYPE_UINT64:
    case pb::FieldDescriptor::CPPTYPE_FLOAT:
      break;
  }
  std::abort();  // the object model has no such field; found by any test that runs
}

class Registry {
 public:
  Registry() {
    add_file(*v1alpha1::ActorTemplate::descriptor()->file());
    add_file(*v1alpha1::Actor::descriptor()->file());
    add_file(*v1alpha1::ResumeRequest::descriptor()->file());
    for (auto& [descriptor, schema] : schemas_) {
      fill(*schema);
    }
  }

  [[nodiscard]] const Schema* find(const pb::Descriptor* descriptor) const {
    const auto it = schemas_.find(descriptor);
    return it == schemas_.end() ? nullptr : it->second.get();
  }

 private:
  void add_file(const pb::FileDescriptor& file) {
    for (int i = 0; i < file.message_type_count(); ++i) {
      auto schema = std::make_unique<Schema>();
      schema->descriptor = file.message_type(i);
      schemas_.emplace(file.message_type(i), std::move(schema));
    }
  }

  void fill(Schema& schema) {
    for (int i = 0; i < schema.descriptor->field_count(); ++i) {
      const pb::FieldDescriptor& descriptor = *schema.descriptor->field(i);
      Field field;
      field.descriptor = &descriptor;
      field.type = type_of(descriptor);
      field.repeated = descriptor.is_repeated() && !descriptor.is_map();
      field.presence = descriptor.has_presence();
      field.nullable = descriptor.options().GetExtension(v1alpha1::nullable);
      field.quantity = descriptor.options().GetExtension(v1alpha1::quantity);
      field.output_only = descriptor.options().GetExtension(v1alpha1::output_only);
      field.always = descriptor.options().GetExtension(v1alpha1::always);
      field.name = descriptor.json_name();
      field.key = "\"" + field.name + "\":";
      if (field.type == Field::Type::Message) {
        field.message = find(descriptor.message_type());
      } else if (field.type == Field::Type::MessageMap) {
        field.message = find(descriptor.message_type()->map_value()->message_type());
      } else if (field.type == Field::Type::Enum) {
        fill_enum(field, *descriptor.enum_type());
      }
      schema.fields.push_back(std::move(field));
    }
  }

  static void fill_enum(Field& field, const pb::EnumDescriptor& descriptor) {
    for (int i = 0; i < descriptor.value_count(); ++i) {
      const pb::EnumValueDescriptor& value = *descriptor.value(i);
      if (!means_unset(value)) {
        field.enum_numbers.emplace(enum_text(value), value.number());
        field.enum_names.emplace(value.number(), enum_text(value));
      }
    }
  }

  std::unordered_map<const pb::Descriptor*, std::unique_ptr<Schema>> schemas_;
};

}  // namespace

const Field* Schema::find(std::string_view name) const {
  for (const Field& field : fields) {
    if (field.name == name) {
      return &field;
    }
  }
  return nullptr;
}

const Schema& schema_of(const pb::Descriptor* descriptor) {
  static const Registry registry;
  const Schema* schema = registry.find(descriptor);
  if (schema == nullptr) {
    std::abort();  // a message that is not of the object model: a bug of the caller
  }
  return *schema;
}

}  // namespace ate::codec
