#include "ate/objects/check.hpp"

#include <google/protobuf/message.h>

#include <iterator>
#include <map>

#include "ate/codec/codec.hpp"
#include "ate/core/validate.hpp"
#include "ate/image/image.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "objects/directory.hpp"
#include "objects/problem_type.hpp"

namespace ate::objects {
namespace {

void check_references(const v1alpha1::ActorTemplateSpec& spec, std::vector<Problem>& problems) {
  for (int i = 0; i < spec.containers_size(); ++i) {
    const std::string& reference = spec.containers(i).image();
    if (reference.empty()) {
      continue;  // core/validate says so
    }
    if (const auto parsed = image::parse_reference(reference); !parsed) {
      problems.push_back(pin_problem(parsed.error(), Errc::InvalidValue, image_field(i)));
    }
  }
}

}  // namespace

std::vector<Problem> check_object(const google::protobuf::Message& object) {
  if (const auto* source = dynamic_cast<const v1alpha1::ActorTemplate*>(&object)) {
    std::vector<Problem> problems = core::validate(*source);
    check_references(source->spec(), problems);
    return problems;
  }
  if (const auto* pool = dynamic_cast<const v1alpha1::WorkerPool*>(&object)) {
    return core::validate(*pool);
  }
  if (const auto* config = dynamic_cast<const v1alpha1::SandboxConfig*>(&object)) {
    return core::validate(*config);
  }
  if (const auto* node = dynamic_cast<const v1alpha1::NodeConfig*>(&object)) {
    return core::validate(*node);
  }
  return {Problem{Errc::InvalidValue, "kind", "not a kind of file object", 0, 0, {}}};
}

std::vector<Problem> check_document(const codec::Document& document) {
  std::vector<Problem> problems = document.problems;
  if (document.message != nullptr) {
    std::vector<Problem> found = codec::without_echoes(problems, check_object(*document.message));
    codec::place_problems(document, found);
    problems.insert(problems.end(), std::make_move_iterator(found.begin()),
                    std::make_move_iterator(found.end()));
  }
  return problems;
}

std::vector<Problem> check_directory(const std::string& directory) {
  const DirectoryRead read = read_directory(directory, {});
  std::vector<Problem> problems;
  if (!read.error.empty()) {
    problems.push_back(Problem{Errc::NotFound, "", read.error, 0, 0, directory});
  }
  std::map<Key, std::string> first;
  for (const auto& [name, cached] : read.files) {
    const SourceFile& file = *cached.file;
    problems.insert(problems.end(), file.problems.begin(), file.problems.end());
    for (const FileObject& object : file.objects) {
      const auto [it, is_first] = first.emplace(object.key, file.path);
      if (!is_first) {
        std::vector<Problem> twice{Problem{
            Errc::AlreadyExists, "metadata.name", defined_twice(object.key, it->second), 0, 0, {}}};
        codec::place_problems(*object.text, twice);
        problems.push_back(std::move(twice.front()));
      }
    }
  }
  return problems;
}

}  // namespace ate::objects
