// What a restore reads in the OCI spec of a snapshot, and what it replaces there.
#include <algorithm>
#include <utility>

#include "ate/core/json.hpp"
#include "ate/core/oci_spec.hpp"
#include "core/oci_text.hpp"

namespace ate::core {

namespace {

/// Replacements of values, applied back to front so that their places stay right.
class Edits {
 public:
  void replace(const JsonValue& value, std::string text) {
    edits_.push_back({.begin = value.begin, .end = value.end, .text = std::move(text)});
  }

  [[nodiscard]] std::string apply(std::string_view text) {
    std::sort(edits_.begin(), edits_.end(),
              [](const Edit& a, const Edit& b) { return a.begin > b.begin; });
    std::string out(text);
    for (const Edit& edit : edits_) {
      out.replace(edit.begin, edit.end - edit.begin, edit.text);
    }
    return out;
  }

 private:
  struct Edit {
    std::size_t begin;
    std::size_t end;
    std::string text;
  };

  std::vector<Edit> edits_;
};

Error corrupt(const std::string& what) {
  return Error(Errc::SnapshotCorrupt, "the snapshot's OCI spec " + what).with_field("ociSpec");
}

Result<JsonValue> parse_spec(std::string_view spec) {
  std::expected<JsonValue, JsonFault> value = parse_json(spec, JsonLimits{});
  if (!value) {
    return fail(corrupt("is not JSON: " + value.error().what));
  }
  return std::move(*value);
}

Result<const JsonValue*> member(const JsonValue& object, const char* key) {
  const JsonValue* found = object.find(key);
  if (found == nullptr) {
    return fail(corrupt(std::string("has no ") + key));
  }
  return found;
}

struct Bind {
  std::string destination;
  const JsonValue* source;
};

bool is_of_type(const JsonValue& entry, std::string_view type) {
  const std::string* text = entry.as_text();
  return text != nullptr && *text == type;
}

Result<std::vector<Bind>> binds(const JsonValue& root) {
  ATE_ASSIGN(const JsonValue* mounts, member(root, "mounts"));
  std::vector<Bind> found;
  for (const JsonValue& mount : mounts->items) {
    ATE_ASSIGN(const JsonValue* type, member(mount, "type"));
    if (!is_of_type(*type, "bind")) {
      continue;
    }
    ATE_ASSIGN(const JsonValue* destination, member(mount, "destination"));
    ATE_ASSIGN(const JsonValue* source, member(mount, "source"));
    if (destination->as_text() == nullptr) {
      return fail(corrupt("has a mount without destination"));
    }
    found.push_back({.destination = *destination->as_text(), .source = source});
  }
  return found;
}

Status replace_binds(const JsonValue& root, const OciPaths& paths, Edits& edits) {
  ATE_ASSIGN(const std::vector<Bind> found, binds(root));
  for (const Bind& bind : found) {
    const auto source = paths.bind_sources.find(bind.destination);
    if (source == paths.bind_sources.end()) {
      return fail(Error(Errc::SnapshotIncompatible, "the snapshot mounts " +
                                                        json_quote(bind.destination) +
                                                        ", which this actor doesn't have")
                      .with_field("ociSpec.mounts"));
    }
    edits.replace(*bind.source, json_quote(source->second));
  }
  return {};
}

Status replace_network(const JsonValue& linux_part, const OciPaths& paths, Edits& edits) {
  ATE_ASSIGN(const JsonValue* namespaces, member(linux_part, "namespaces"));
  for (const JsonValue& entry : namespaces->items) {
    ATE_ASSIGN(const JsonValue* type, member(entry, "type"));
    if (is_of_type(*type, "network")) {
      ATE_ASSIGN(const JsonValue* path, member(entry, "path"));
      edits.replace(*path, json_quote(paths.network_namespace));
      return {};
    }
  }
  return fail(corrupt("has no network namespace"));
}

Result<std::vector<std::string>> texts(const JsonValue& list) {
  std::vector<std::string> out;
  for (const JsonValue& entry : list.items) {
    if (entry.as_text() == nullptr) {
      return fail(corrupt("has a word that is no text"));
    }
    out.push_back(*entry.as_text());
  }
  return out;
}

std::uint32_t number(const JsonValue* value) {
  return value == nullptr ? 0 : static_cast<std::uint32_t>(value->as_integer().value_or(0));
}

}  // namespace

Result<OciProcess> process_of_spec(std::string_view spec) {
  ATE_ASSIGN(const JsonValue root, parse_spec(spec));
  ATE_ASSIGN(const JsonValue* process, member(root, "process"));
  ATE_ASSIGN(const JsonValue* env, member(*process, "env"));
  ATE_ASSIGN(const JsonValue* cwd, member(*process, "cwd"));
  ATE_ASSIGN(const JsonValue* user, member(*process, "user"));
  OciProcess out;
  ATE_ASSIGN(out.env, texts(*env));
  out.cwd = cwd->as_text() == nullptr ? "/" : *cwd->as_text();
  out.user.uid = number(user->find("uid"));
  out.user.gid = number(user->find("gid"));
  if (const JsonValue* groups = user->find("additionalGids")) {
    for (const JsonValue& group : groups->items) {
      out.user.additional_gids.push_back(number(&group));
    }
  }
  return out;
}

Result<std::string> with_runtime_paths(std::string_view spec, const OciPaths& paths) {
  ATE_ASSIGN(const JsonValue root, parse_spec(spec));
  Edits edits;
  ATE_ASSIGN(const JsonValue* root_fs, member(root, "root"));
  ATE_ASSIGN(const JsonValue* path, member(*root_fs, "path"));
  edits.replace(*path, json_quote(paths.rootfs));
  ATE_TRY(replace_binds(root, paths, edits));
  ATE_ASSIGN(const JsonValue* linux_part, member(root, "linux"));
  ATE_ASSIGN(const JsonValue* cgroups_path, member(*linux_part, "cgroupsPath"));
  edits.replace(*cgroups_path, json_quote(paths.cgroups_path));
  ATE_ASSIGN(const JsonValue* resources, member(*linux_part, "resources"));
  edits.replace(*resources, resources_json(paths.limits));
  ATE_TRY(replace_network(*linux_part, paths, edits));
  return edits.apply(spec);
}

Result<std::vector<std::string>> bind_destinations(std::string_view spec) {
  ATE_ASSIGN(const JsonValue root, parse_spec(spec));
  ATE_ASSIGN(const std::vector<Bind> found, binds(root));
  std::vector<std::string> destinations;
  destinations.reserve(found.size());
  for (const Bind& bind : found) {
    destinations.push_back(bind.destination);
  }
  return destinations;
}

}  // namespace ate::core
