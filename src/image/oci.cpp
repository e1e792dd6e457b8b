#include "image/oci.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "ate/image/digest.hpp"
#include "ate/util/log.hpp"
#include "image/limits.hpp"

namespace ate::image {

namespace {

constexpr std::string_view kOciIndex = "application/vnd.oci.image.index.v1+json";
constexpr std::string_view kDockerList =
    "application/vnd.docker.distribution.manifest.list.v2+json";
constexpr std::string_view kOciManifest = "application/vnd.oci.image.manifest.v1+json";
constexpr std::string_view kDockerManifest = "application/vnd.docker.distribution.manifest.v2+json";
constexpr std::string_view kOciConfig = "application/vnd.oci.image.config.v1+json";
constexpr std::string_view kDockerConfig = "application/vnd.docker.container.image.v1+json";

struct LayerType {
  std::string_view media_type;
  Compression compression;
};

constexpr std::array kLayerTypes = {
    LayerType{"application/vnd.oci.image.layer.v1.tar", Compression::None},
    LayerType{"application/vnd.oci.image.layer.v1.tar+gzip", Compression::Gzip},
    LayerType{"application/vnd.oci.image.layer.v1.tar+zstd", Compression::Zstd},
    LayerType{"application/vnd.oci.image.layer.nondistributable.v1.tar", Compression::None},
    LayerType{"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", Compression::Gzip},
    LayerType{"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd", Compression::Zstd},
    LayerType{"application/vnd.docker.image.rootfs.diff.tar", Compression::None},
    LayerType{"application/vnd.docker.image.rootfs.diff.tar.gzip", Compression::Gzip},
    LayerType{"application/vnd.docker.image.rootfs.diff.tar.zstd", Compression::Zstd},
    LayerType{"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", Compression::Gzip},
};

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Errc::ImageInvalid, what);
}

std::string show(std::string_view text) {
  return "'" + escape_text(text, 200) + "'";
}

// Optional text member; absent and null are "", another type is an error.
Result<std::string> optional_text(const core::JsonValue& object, std::string_view key) {
  const core::JsonValue* value = object.find(key);
  if (value == nullptr) {
    return std::string();
  }
  const std::string* text = value->as_text();
  if (text == nullptr) {
    return invalid("'" + std::string(key) + "' is not a string");
  }
  return *text;
}

Status check_schema_version(const core::JsonValue& document) {
  const core::JsonValue* version = document.find("schemaVersion");
  if (version == nullptr || version->as_integer() != 2) {
    return invalid("schemaVersion is not 2");
  }
  return {};
}

Status read_platform(const core::JsonValue& object, Descriptor& descriptor) {
  const core::JsonValue* platform = object.find("platform");
  if (platform == nullptr) {
    return {};
  }
  ATE_ASSIGN(descriptor.os, optional_text(*platform, "os"));
  ATE_ASSIGN(descriptor.architecture, optional_text(*platform, "architecture"));
  return {};
}

Status read_annotations(const core::JsonValue& object, Descriptor& descriptor) {
  const core::JsonValue* annotations = object.find("annotations");
  if (annotations == nullptr) {
    return {};
  }
  ATE_ASSIGN(descriptor.tag, optional_text(*annotations, "org.opencontainers.image.ref.name"));
  ATE_ASSIGN(descriptor.full_name, optional_text(*annotations, "io.containerd.image.name"));
  ATE_ASSIGN(const std::string type, optional_text(*annotations, "vnd.docker.reference.type"));
  descriptor.attestation = type == "attestation-manifest";
  return {};
}

Result<Descriptor> parse_descriptor(const core::JsonValue& object) {
  if (!object.is_object()) {
    return invalid("a descriptor is not an object");
  }
  Descriptor descriptor;
  ATE_ASSIGN(descriptor.media_type, optional_text(object, "mediaType"));
  ATE_ASSIGN(descriptor.digest, optional_text(object, "digest"));
  if (!is_sha256_digest(descriptor.digest)) {
    return invalid("digest " + show(descriptor.digest) +
                   " is not sha256: and 64 lower-case hexadecimal digits");
  }
  const core::JsonValue* size = object.find("size");
  if (size == nullptr || size->as_integer().value_or(-1) < 0) {
    return invalid(descriptor.digest + " has no valid size");
  }
  descriptor.size = static_cast<std::uint64_t>(*size->as_integer());
  ATE_TRY(read_platform(object, descriptor));
  ATE_TRY(read_annotations(object, descriptor));
  return descriptor;
}

Result<core::JsonValue> parse_document(std::string_view text, std::string_view oci_type,
                                       std::string_view docker_type) {
  ATE_ASSIGN(core::JsonValue document, parse_json(text));
  if (!document.is_object()) {
    return invalid("the document is not an object");
  }
  ATE_TRY(check_schema_version(document));
  ATE_ASSIGN(const std::string type, optional_text(document, "mediaType"));
  if (!type.empty() && type != oci_type && type != docker_type) {
    return invalid("the document calls itself " + show(type) + ", expected " +
                   std::string(oci_type));
  }
  return document;
}

// linux/amd64, or silent about it.
bool suits(const Descriptor& entry) {
  if (entry.attestation || entry.kind() == DocumentKind::Other) {
    return false;
  }
  return (entry.os.empty() || entry.os == "linux") &&
         (entry.architecture.empty() || entry.architecture == "amd64");
}

void add_unique(std::vector<Descriptor>& found, const Descriptor& entry) {
  const bool known = std::ranges::any_of(
      found, [&](const Descriptor& other) { return other.digest == entry.digest; });
  if (!known) {
    found.push_back(entry);
  }
}

std::string list_tags(const std::vector<Descriptor>& entries) {
  std::string list;
  std::size_t count = 0;
  for (const Descriptor& entry : entries) {
    if (entry.tag.empty()) {
      continue;
    }
    if (++count > 20) {
      return list + ", ...";
    }
    list += (list.empty() ? "" : ", ") + show(entry.tag);
  }
  return list.empty() ? "none" : list;
}

std::string list_platforms(const std::vector<Descriptor>& entries) {
  std::string list;
  for (const Descriptor& entry : entries) {
    if (!entry.os.empty() && list.size() < 400) {
      list += (list.empty() ? "" : ", ") + escape_text(entry.os + "/" + entry.architecture, 60);
    }
  }
  return list.empty() ? "none" : list;
}

}  // namespace

DocumentKind Descriptor::kind() const {
  if (media_type == kOciIndex || media_type == kDockerList) {
    return DocumentKind::Index;
  }
  if (media_type == kOciManifest || media_type == kDockerManifest) {
    return DocumentKind::Manifest;
  }
  return DocumentKind::Other;
}

Result<std::vector<Descriptor>> parse_index(std::string_view text) {
  ATE_ASSIGN(const core::JsonValue document, parse_document(text, kOciIndex, kDockerList));
  // One document that reads as both would be a different image to different tools.
  if (document.find("layers") != nullptr || document.find("config") != nullptr) {
    return invalid("the index also holds 'config' or 'layers'");
  }
  const core::JsonValue* manifests = document.find("manifests");
  if (manifests == nullptr || manifests->as_array() == nullptr) {
    return invalid("the index has no list 'manifests'");
  }
  std::vector<Descriptor> entries;
  for (const core::JsonValue& item : *manifests->as_array()) {
    ATE_ASSIGN(Descriptor entry, parse_descriptor(item));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<Manifest> parse_manifest(std::string_view text) {
  ATE_ASSIGN(const core::JsonValue document, parse_document(text, kOciManifest, kDockerManifest));
  if (document.find("manifests") != nullptr) {
    return invalid("the manifest also holds 'manifests'");
  }
  const core::JsonValue* config = document.find("config");
  const core::JsonValue* layers = document.find("layers");
  if (config == nullptr) {
    return invalid("the manifest has no config");
  }
  if (layers == nullptr || layers->as_array() == nullptr) {
    return invalid("the manifest has no list 'layers'");
  }
  if (layers->as_array()->size() > kMaxLayers) {
    return invalid("the manifest has more than 128 layers");
  }
  Manifest manifest;
  ATE_ASSIGN(manifest.config, parse_descriptor(*config));
  const std::string& type = manifest.config.media_type;
  if (type != kOciConfig && type != kDockerConfig) {
    return invalid("the config is of type " + show(type) + ": this is an artifact, not an image");
  }
  for (const core::JsonValue& item : *layers->as_array()) {
    Layer layer;
    ATE_ASSIGN(layer.blob, parse_descriptor(item));
    const auto* known =
        std::ranges::find(kLayerTypes, layer.blob.media_type, &LayerType::media_type);
    if (known == kLayerTypes.end()) {
      return invalid("layer " + layer.blob.digest + " is of type " + show(layer.blob.media_type) +
                     ", which cannot be read: tar, tar+gzip and tar+zstd can");
    }
    layer.compression = known->compression;
    manifest.layers.push_back(std::move(layer));
  }
  return manifest;
}

Result<Descriptor> select_tag(const std::vector<Descriptor>& entries, const std::string& tag) {
  std::vector<Descriptor> named;
  std::vector<Descriptor> usable;
  for (const Descriptor& entry : entries) {
    if (!tag.empty() && entry.tag != tag && entry.full_name != tag) {
      continue;
    }
    named.push_back(entry);
    if (suits(entry)) {
      add_unique(usable, entry);
    }
  }
  if (usable.size() == 1) {
    return usable.front();
  }
  if (named.empty() && !tag.empty()) {
    return invalid("no image is tagged " + show(tag) + "; there are: " + list_tags(entries));
  }
  if (usable.empty()) {
    return invalid("no image for linux/amd64; there are: " + list_platforms(named));
  }
  if (tag.empty()) {
    return invalid("several images and no tag given; choose one of: " + list_tags(usable));
  }
  return invalid("several images are tagged " + show(tag));
}

Result<Descriptor> select_platform(const std::vector<Descriptor>& entries) {
  std::vector<Descriptor> exact;
  std::vector<Descriptor> silent;
  for (const Descriptor& entry : entries) {
    if (suits(entry)) {
      const bool says_so = !entry.os.empty() && !entry.architecture.empty();
      add_unique(says_so ? exact : silent, entry);
    }
  }
  const std::vector<Descriptor>& found = exact.empty() ? silent : exact;
  if (found.empty()) {
    return invalid("no image for linux/amd64; there are: " + list_platforms(entries));
  }
  if (found.size() > 1) {
    return invalid("several images for linux/amd64 in one index");
  }
  return found.front();
}

}  // namespace ate::image
