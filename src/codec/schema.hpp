#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Descriptor;
class EnumValueDescriptor;
class FieldDescriptor;
}  // namespace google::protobuf

namespace ate::codec {

struct Schema;

/// What the mapper needs of one field, computed once.
struct Field {
  enum class Type : std::uint8_t {
    Bool,
    Int32,
    Int64,
    Uint32,
    Double,
    String,
    Enum,
    Message,
    StringMap,
    MessageMap
  };
  const google::protobuf::FieldDescriptor* descriptor = nullptr;
  Type type = Type::String;
  bool repeated = false;  // false for maps
  bool presence = false;
  bool nullable = false;
  bool quantity = false;
  bool output_only = false;
  bool always = false;
  std::string name;                 // lowerCamelCase
  std::string key;                  // `"name":`
  const Schema* message = nullptr;  // of Message and MessageMap
  // Enumerators by their text; the unset one is in neither.
  std::map<std::string, int, std::less<>> enum_numbers;
  std::map<int, std::string> enum_names;
};

struct Schema {
  const google::protobuf::Descriptor* descriptor = nullptr;
  std::vector<Field> fields;

  [[nodiscard]] const Field* find(std::string_view name) const;
};

/// Every message of proto/ate/v1alpha1. Built at the first call, never changed: safe from any
/// thread.
[[nodiscard]] const Schema& schema_of(const google::protobuf::Descriptor* descriptor);

}  // namespace ate::codec
