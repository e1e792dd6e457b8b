#include <google/protobuf/message.h>

#include "ate/artifacts/artifacts.hpp"
#include "ate/codec/codec.hpp"
#include "ate/core/validate.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "objects/directory.hpp"

namespace ate::objects {
namespace {

constexpr std::string_view kNodeFile = "noded.yaml";

bool is_node_file(const std::string& path) {
  return path.size() > kNodeFile.size() && path.ends_with(kNodeFile) &&
         path[path.size() - kNodeFile.size() - 1] == '/';
}

void flag(SourceFile& file, const codec::Document& document, std::string field,
          std::string detail) {
  Problem problem;
  problem.code = Errc::InvalidValue;
  problem.field = std::move(field);
  problem.detail = std::move(detail);
  std::vector<Problem> problems{std::move(problem)};
  codec::place_problems(document, problems);
  file.problems.push_back(std::move(problems.front()));
}

void add_object(SourceFile& file, Kind kind, codec::Document& document) {
  std::vector<Problem> problems = validate_object(*document.message);
  if (!problems.empty()) {
    codec::place_problems(document, problems);
    file.problems.insert(file.problems.end(), std::make_move_iterator(problems.begin()),
                         std::make_move_iterator(problems.end()));
    return;
  }
  fill_defaults(*document.message);
  FileObject object;
  object.key = key_of(kind, *document.message);
  const auto place = document.places.find("metadata.name");
  object.line = place != document.places.end() ? place->second.line : document.line;
  object.column = place != document.places.end() ? place->second.column : 1;
  object.object = std::move(document.message);
  file.objects.push_back(std::move(object));
}

/// NodeConfig is the daemon's own file; here only its place is checked.
void check_node_config(SourceFile& file, const codec::Document& document, int& seen) {
  if (!is_node_file(file.path)) {
    flag(file, document, "kind", "a NodeConfig is read from noded.yaml only");
    return;
  }
  if (++seen > 1) {
    flag(file, document, "kind", "noded.yaml has exactly one NodeConfig");
    return;
  }
  // In force at the next start only; the operator should hear of a mistake now.
  if (const auto* node = dynamic_cast<const v1alpha1::NodeConfig*>(document.message.get())) {
    std::vector<Problem> problems = core::validate(*node);
    codec::place_problems(document, problems);
    file.problems.insert(file.problems.end(), std::make_move_iterator(problems.begin()),
                         std::make_move_iterator(problems.end()));
  }
}

}  // namespace

SourceFile parse_source(const std::string& path, const std::string& text) {
  SourceFile file;
  file.path = path;
  file.digest = "sha256:" + artifacts::sha256_text(text);
  int node_configs = 0;
  for (codec::Document& document : codec::parse_yaml(text, path)) {
    if (!document.problems.empty()) {
      file.problems.insert(file.problems.end(), std::make_move_iterator(document.problems.begin()),
                           std::make_move_iterator(document.problems.end()));
      continue;
    }
    Kind kind = Kind::ActorTemplate;
    if (!parse_kind(document.kind, kind)) {
      check_node_config(file, document, node_configs);
    } else if (is_node_file(path)) {
      flag(file, document, "kind",
           "noded.yaml has the NodeConfig only; put this into another file");
    } else {
      add_object(file, kind, document);
    }
  }
  return file;
}

}  // namespace ate::objects
