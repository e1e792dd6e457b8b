#include <google/protobuf/message.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "ate/util/log.hpp"
#include "codec/mapper.hpp"

namespace ate::codec {
namespace {

namespace pb = google::protobuf;

constexpr std::size_t kShown = 60;

std::string shown(std::string_view text) {
  return "\"" + escape_text(text, kShown) + "\"";
}

bool is_plain_integer(std::string_view text) {
  if (text.starts_with('-')) {
    text.remove_prefix(1);
  }
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   [](char c) { return c >= '0' && c <= '9'; });
  return digits && (text.size() == 1 || text.front() != '0');
}

std::string known_names(const Field& field) {
  std::string out;
  for (const auto& [number, name] : field.enum_names) {
    out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

}  // namespace

void Mapper::scalar(const Node& node, const Field& field, const std::string& path,
                    pb::Message& message) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::string text;
  switch (field.type) {
    case Field::Type::Bool:
      if (node.kind != Node::Kind::Bool) {
        wrong_type(node, path, "true or false");
        return;
      }
      reflection.SetBool(&message, field.descriptor, node.text == "true");
      return;
    case Field::Type::Int32:
    case Field::Type::Int64:
    case Field::Type::Uint32:
      integer(node, field, path, message);
      return;
    case Field::Type::Double:
      floating(node, field, path, message);
      return;
    case Field::Type::String:
      if (string(node, field.quantity, path, text)) {
        reflection.SetString(&message, field.descriptor, std::move(text));
      }
      return;
    case Field::Type::Enum:
      enumerator(node, field, path, message);
      return;
    case Field::Type::Message:
    case Field::Type::StringMap:
    case Field::Type::MessageMap:
      return;  // field() handles them
  }
}

void Mapper::integer(const Node& node, const Field& field, const std::string& path,
                     pb::Message& message) {
  if (node.kind != Node::Kind::Number || !is_plain_integer(node.text)) {
    wrong_type(node, path, "a whole number without point or exponent");
    return;
  }
  std::int64_t value = 0;
  const char* end = node.text.data() + node.text.size();
  const bool fits = std::from_chars(node.text.data(), end, value).ec == std::errc{};
  const pb::Reflection& reflection = *message.GetReflection();
  std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  std::int64_t highest = std::numeric_limits<std::int64_t>::max();
  if (field.type == Field::Type::Int32) {
    lowest = std::numeric_limits<std::int32_t>::min();
    highest = std::numeric_limits<std::int32_t>::max();
  } else if (field.type == Field::Type::Uint32) {
    lowest = 0;
    highest = std::numeric_limits<std::uint32_t>::max();
  }
  if (!fits || value < lowest || value > highest) {
    report(Errc::InvalidValue, path,
           escape_text(node.text, kShown) + " is outside " + std::to_string(lowest) + ".." +
               std::to_string(highest),
           node.line, node.column);
    return;
  }
  if (field.type == Field::Type::Int32) {
    reflection.SetInt32(&message, field.descriptor, static_cast<std::int32_t>(value));
  } else if (field.type == Field::Type::Uint32) {
    reflection.SetUInt32(&message, field.descriptor, static_cast<std::uint32_t>(value));
  } else {
    reflection.SetInt64(&message, field.descriptor, value);
  }
}

void Mapper::floating(const Node& node, const Field& field, const std::string& path,
                      pb::Message& message) {
  if (node.kind != Node::Kind::Number) {
    wrong_type(node, path, "a number");
    return;
  }
  double value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto parsed = std::from_chars(node.text.data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end) {
    report(Errc::InvalidValue, path, shown(node.text) + " is not a plain decimal number in range",
           node.line, node.column);
    return;
  }
  message.GetReflection()->SetDouble(&message, field.descriptor, value);
}

void Mapper::enumerator(const Node& node, const Field& field, const std::string& path,
                        pb::Message& message) {
  if (node.kind != Node::Kind::String) {
    wrong_type(node, path, "one of " + known_names(field));
    return;
  }
  const auto it = field.enum_numbers.find(node.text);
  if (it == field.enum_numbers.end()) {
    report(Errc::InvalidValue, path, shown(node.text) + " is none of " + known_names(field),
           node.line, node.column);
    return;
  }
  message.GetReflection()->SetEnumValue(&message, field.descriptor, it->second);
}

bool Mapper::string(const Node& node, bool quantity, const std::string& path, std::string& out) {
  const bool as_text =
      node.kind == Node::Kind::String || (quantity && node.kind == Node::Kind::Number);
  if (!as_text) {
    if (node.ambiguous && node.kind != Node::Kind::Sequence && node.kind != Node::Kind::Mapping) {
      report(Errc::InvalidType, path,
             "must be a string; put quotes around " +
                 (node.text.empty() ? std::string("it") : escape_text(node.text, kShown)),
             node.line, node.column);
    } else {
      wrong_type(node, path, "a string");
    }
    return false;
  }
  if (node.text.find('\0') != std::string::npos) {
    report(Errc::InvalidValue, path, "must not contain NUL", node.line, node.column);
    return false;
  }
  out = node.text;
  return true;
}

}  // namespace ate::codec
