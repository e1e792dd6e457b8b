#include "objects/object.hpp"

#include <google/protobuf/message.h>

#include <cstdlib>

#include "ate/artifacts/artifacts.hpp"
#include "ate/codec/codec.hpp"
#include "ate/core/validate.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "objects/problem_type.hpp"

namespace ate::objects {
namespace {

/// Calls `visit` with the object as what it is.
template <class M, class F>
auto with_kind(M& object, F visit) {
  if constexpr (std::is_const_v<M>) {
    if (const auto* source = dynamic_cast<const v1alpha1::ActorTemplate*>(&object)) {
      return visit(*source);
    }
    if (const auto* pool = dynamic_cast<const v1alpha1::WorkerPool*>(&object)) {
      return visit(*pool);
    }
    if (const auto* config = dynamic_cast<const v1alpha1::SandboxConfig*>(&object)) {
      return visit(*config);
    }
  } else {
    if (auto* source = dynamic_cast<v1alpha1::ActorTemplate*>(&object)) {
      return visit(*source);
    }
    if (auto* pool = dynamic_cast<v1alpha1::WorkerPool*>(&object)) {
      return visit(*pool);
    }
    if (auto* config = dynamic_cast<v1alpha1::SandboxConfig*>(&object)) {
      return visit(*config);
    }
  }
  std::abort();  // make_object makes no other
}

std::string pins_of(const v1alpha1::ActorTemplate& source) {
  std::string out;
  for (const v1alpha1::ImageStatus& image : source.status().images()) {
    out += image.container() + "=" + image.digest() + "\n";
  }
  return out;
}

std::string pins_of(const v1alpha1::WorkerPool& /*pool*/) {
  return {};
}

std::string pins_of(const v1alpha1::SandboxConfig& config) {
  const std::map<std::string, std::string> sorted(config.status().pinned().begin(),
                                                  config.status().pinned().end());
  std::string out;
  for (const auto& [asset, digest] : sorted) {
    out += asset + "=" + digest + "\n";
  }
  return out;
}

void drop_derived(v1alpha1::ActorTemplate& source) {
  source.mutable_status()->clear_object();
  for (v1alpha1::ImageStatus& image : *source.mutable_status()->mutable_images()) {
    image.clear_state();
    image.clear_error();
  }
}

void drop_derived(v1alpha1::WorkerPool& pool) {
  pool.clear_status();
}

void drop_derived(v1alpha1::SandboxConfig& config) {
  config.mutable_status()->clear_object();
  config.mutable_status()->clear_self_test();
  config.mutable_status()->clear_self_test_message();
}

bool same_map(const google::protobuf::Map<std::string, std::string>& a,
              const google::protobuf::Map<std::string, std::string>& b) {
  return std::map<std::string, std::string>(a.begin(), a.end()) ==
         std::map<std::string, std::string>(b.begin(), b.end());
}

}  // namespace

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::ActorTemplate:
      return "ActorTemplate";
    case Kind::WorkerPool:
      return "WorkerPool";
    case Kind::SandboxConfig:
      return "SandboxConfig";
  }
  return "";
}

bool parse_kind(std::string_view text, Kind& kind) {
  for (const Kind candidate : {Kind::ActorTemplate, Kind::WorkerPool, Kind::SandboxConfig}) {
    if (text == name(candidate)) {
      kind = candidate;
      return true;
    }
  }
  return false;
}

std::string text_of(const Key& key) {
  return std::string(name(key.kind)) + "/" + (key.atespace.empty() ? "" : key.atespace + "/") +
         key.name;
}

std::string defined_twice(const Key& key, const std::string& first_file) {
  return text_of(key) + " is defined in " + first_file + " too; the first file name wins";
}

std::unique_ptr<Message> make_object(Kind kind) {
  switch (kind) {
    case Kind::ActorTemplate:
      return std::make_unique<v1alpha1::ActorTemplate>();
    case Kind::WorkerPool:
      return std::make_unique<v1alpha1::WorkerPool>();
    case Kind::SandboxConfig:
      return std::make_unique<v1alpha1::SandboxConfig>();
  }
  std::abort();
}

std::unique_ptr<Message> copy_of(const Message& object) {
  std::unique_ptr<Message> copy(object.New());
  copy->CopyFrom(object);
  return copy;
}

const v1alpha1::Metadata& metadata_of(const Message& object) {
  return *with_kind(object, [](const auto& typed) { return &typed.metadata(); });
}

v1alpha1::Metadata& metadata_of(Message& object) {
  return *with_kind(object, [](auto& typed) { return typed.mutable_metadata(); });
}

const v1alpha1::ObjectStatus& status_of(const Message& object) {
  return *with_kind(object, [](const auto& typed) { return &typed.status().object(); });
}

v1alpha1::ObjectStatus& status_of(Message& object) {
  return *with_kind(object, [](auto& typed) { return typed.mutable_status()->mutable_object(); });
}

Key key_of(Kind kind, const Message& object) {
  const v1alpha1::Metadata& metadata = metadata_of(object);
  return Key{kind, kind == Kind::ActorTemplate ? metadata.atespace() : std::string(),
             metadata.name()};
}

void fill_defaults(Message& object) {
  with_kind(object, [](auto& typed) { core::apply_defaults(typed); });
}

std::string spec_bytes(const Message& object) {
  return with_kind(object, [](const auto& typed) { return codec::canonical_bytes(typed.spec()); });
}

std::string digest_of(const Message& object) {
  return with_kind(object, [](const auto& typed) {
    return "sha256:" +
           artifacts::sha256_text(pins_of(typed) + "\n" + codec::canonical_bytes(typed.spec()));
  });
}

std::string stored_bytes(const Message& object) {
  const std::unique_ptr<Message> copy = copy_of(object);
  with_kind(*copy, [](auto& typed) { drop_derived(typed); });
  return codec::canonical_bytes(*copy);
}

bool is_same(const Message& a, const Message& b) {
  return spec_bytes(a) == spec_bytes(b) &&
         same_map(metadata_of(a).labels(), metadata_of(b).labels()) &&
         same_map(metadata_of(a).annotations(), metadata_of(b).annotations());
}

bool is_default_config(const Message& object, std::string* sandbox_class) {
  const auto* config = dynamic_cast<const v1alpha1::SandboxConfig*>(&object);
  if (config == nullptr || !config->spec().default_()) {
    return false;
  }
  *sandbox_class = v1alpha1::SandboxClass_Name(config->spec().sandbox_class());
  return true;
}

void set_problems(v1alpha1::ObjectStatus& status, const std::vector<Problem>& problems) {
  status.clear_problems();
  for (const Problem& problem : problems) {
    v1alpha1::ProblemItem& item = *status.add_problems();
    item.set_type(problem_type(problem.code));
    item.set_field(problem.field);
    item.set_detail(problem.detail);
    item.set_line(problem.line);
    item.set_column(problem.column);
    item.set_file(problem.file);
  }
}

}  // namespace ate::objects
