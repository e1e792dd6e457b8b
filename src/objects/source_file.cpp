#include <google/protobuf/message.h>

#include "ate/artifacts/artifacts.hpp"
#include "ate/codec/codec.hpp"
#include "ate/objects/check.hpp"
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

bool may_be_flagged(const std::string& path) {
  return path == "metadata.name" || path == "spec.default" || path.ends_with(".image") ||
         path.starts_with("spec.assets");
}

void add_object(SourceFile& file, Kind kind, codec::Document& document) {
  fill_defaults(*document.message);
  FileObject object;
  object.key = key_of(kind, *document.message);
  object.object = std::move(document.message);
  std::erase_if(document.places, [](const auto& place) { return !may_be_flagged(place.first); });
  object.text = std::make_shared<const codec::Document>(std::move(document));
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
}

}  // namespace

SourceFile parse_source(const std::string& path, const std::string& text) {
  SourceFile file;
  file.path = path;
  file.digest = "sha256:" + artifacts::sha256_text(text);
  int node_configs = 0;
  for (codec::Document& document : codec::parse_yaml(text, path)) {
    // Also of a NodeConfig, which is in force at the next start only: the operator should hear now.
    std::vector<Problem> problems = check_document(document);
    Kind kind = Kind::ActorTemplate;
    const bool is_object = parse_kind(document.kind, kind);
    if (document.message != nullptr && !is_object) {
      check_node_config(file, document, node_configs);
    } else if (document.message != nullptr && is_node_file(path)) {
      flag(file, document, "kind",
           "noded.yaml has the NodeConfig only; put this into another file");
    } else if (problems.empty()) {
      add_object(file, kind, document);
    }
    file.problems.insert(file.problems.end(), std::make_move_iterator(problems.begin()),
                         std::make_move_iterator(problems.end()));
  }
  return file;
}

}  // namespace ate::objects
