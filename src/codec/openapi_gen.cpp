// Build tool: docs/openapi.yaml -> a C++ file that holds it as JSON text. Scalars keep their type:
// quoted ones are text, plain ones follow YAML's core schema. Aliases are written out.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>

namespace {

constexpr std::size_t kChunk = 8000;  // string literals have a limit

bool is_plain_json(const std::string& text) {
  if (text == "true" || text == "false" || text == "null") {
    return true;
  }
  return !text.empty() && text.find_first_not_of("-0123456789") == std::string::npos &&
         text.find('-', 1) == std::string::npos && text != "-";
}

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string to_json(const YAML::Node& node) {
  std::string out;
  switch (node.Type()) {
    case YAML::NodeType::Map:
      for (const auto& member : node) {
        out +=
            (out.empty() ? "" : ",") + quote(member.first.Scalar()) + ':' + to_json(member.second);
      }
      return '{' + out + '}';
    case YAML::NodeType::Sequence:
      for (const auto& item : node) {
        out += (out.empty() ? "" : ",") + to_json(item);
      }
      return '[' + out + ']';
    case YAML::NodeType::Scalar: {
      const bool quoted = node.Tag() == "!";
      return !quoted && is_plain_json(node.Scalar()) ? node.Scalar() : quote(node.Scalar());
    }
    case YAML::NodeType::Null:
    case YAML::NodeType::Undefined:
      break;
  }
  return "null";
}

std::string literal(std::string_view text) {
  std::string out = "    \"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    if (c == '?') {
      out += '\\';  // no trigraphs
    }
    out += c;
  }
  return out + "\",\n";
}

int generate(const char* source, const char* json_file, const char* cpp_file) {
  const std::string json = to_json(YAML::LoadFile(source));
  std::ofstream(json_file) << json << '\n';
  std::ofstream out(cpp_file);
  out << "#include <string>\n#include <string_view>\n\n#include \"ate/api/api.hpp\"\n\n"
         "namespace ate::api {\n\nnamespace {\n\nconstexpr std::string_view kParts[] = {\n";
  std::string_view left = json;
  while (!left.empty()) {
    // Not inside a UTF-8 sequence: the compiler checks each literal by itself.
    std::size_t size = std::min(kChunk, left.size());
    while (size < left.size() && (static_cast<unsigned char>(left[size]) & 0xc0U) == 0x80) {
      ++size;
    }
    out << literal(left.substr(0, size));
    left.remove_prefix(size);
  }
  out << "};\n\n}  // namespace\n\nstd::string openapi_json() {\n  std::string out;\n"
         "  for (const std::string_view part : kParts) {\n    out += part;\n  }\n  return "
         "out;\n}\n\n"
         "}  // namespace ate::api\n";
  return out.good() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: openapi-gen openapi.yaml out.json out.cpp\n", stderr);
    return 2;
  }
  try {
    return generate(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
}
