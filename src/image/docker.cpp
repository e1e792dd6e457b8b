// What `docker save` writes: manifest.json names the config and the layers by their paths in the
// archive. The config's own SHA-256 is the image's digest, and every layer must hash to the
// config's diff_ids, so paths decide nothing that is not checked.
#include <algorithm>
#include <array>
#include <utility>

#include "ate/image/digest.hpp"
#include "ate/util/log.hpp"
#include "image/json.hpp"
#include "image/layers.hpp"
#include "image/limits.hpp"

namespace ate::image {

namespace {

struct DockerImage {
  std::string config;
  std::vector<std::string> tags;
  std::vector<std::string> layers;
};

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Errc::ImageInvalid, what);
}

std::string show(std::string_view text) {
  return "'" + escape_text(text, 200) + "'";
}

/// A member that is a list of texts, or absent.
Result<std::vector<std::string>> texts(const core::JsonValue& object, std::string_view key) {
  std::vector<std::string> out;
  const core::JsonValue* list = object.find(key);
  if (list == nullptr || list->as_array() == nullptr) {
    return out;
  }
  for (const core::JsonValue& item : *list->as_array()) {
    const std::string* text = item.as_text();
    if (text == nullptr) {
      return invalid("manifest.json: " + std::string(key) + " holds something else than texts");
    }
    out.push_back(*text);
  }
  return out;
}

Result<DockerImage> parse_image(const core::JsonValue& value) {
  const core::JsonValue* config = value.find("Config");
  if (config == nullptr || config->as_text() == nullptr) {
    return invalid("manifest.json: an image without Config");
  }
  DockerImage image;
  image.config = *config->as_text();
  ATE_ASSIGN(image.tags, texts(value, "RepoTags"));
  ATE_ASSIGN(image.layers, texts(value, "Layers"));
  if (image.layers.size() > kMaxLayers) {
    return invalid("the image has more than 128 layers");
  }
  return image;
}

Result<std::vector<DockerImage>> read_images(Layout& layout) {
  Result<std::string> text = layout.read_text("manifest.json");
  if (!text && text.error().code() == Errc::NotFound) {
    return invalid(layout.open("oci-layout")
                       ? "this is an OCI image layout: write oci-archive: instead of "
                         "docker-archive:"
                       : "this is no archive of `docker save`: it has no manifest.json");
  }
  if (!text) {
    return fail(std::move(text).error());
  }
  ATE_ASSIGN(const core::JsonValue document, parse_json(*text));
  if (document.as_array() == nullptr || document.as_array()->empty()) {
    return invalid("manifest.json lists no image");
  }
  std::vector<DockerImage> images;
  for (const core::JsonValue& item : *document.as_array()) {
    ATE_ASSIGN(DockerImage image, parse_image(item));
    images.push_back(std::move(image));
  }
  return images;
}

/// `app` means `app:latest`, as docker has it.
bool is_tagged(const DockerImage& image, const std::string& tag) {
  return std::ranges::any_of(image.tags, [&tag](const std::string& each) {
    return each == tag || each == tag + ":latest";
  });
}

std::string list_tags(const std::vector<DockerImage>& images) {
  std::string list;
  std::size_t count = 0;
  for (const DockerImage& image : images) {
    for (const std::string& tag : image.tags) {
      if (++count > 20) {
        return list + ", ...";
      }
      list += (list.empty() ? "" : ", ") + show(tag);
    }
  }
  return list.empty() ? "none" : list;
}

Result<ImageConfig> read_config(Layout& layout, const DockerImage& image, std::string& digest) {
  Result<std::string> text = layout.read_text(image.config);
  if (!text) {
    return invalid("the image's config " + show(image.config) +
                   " can't be read: " + text.error().message());
  }
  digest = "sha256:" + sha256_hex(*text);
  ATE_ASSIGN(ImageConfig config, parse_image_config(*text));
  if (config.diff_ids.size() != image.layers.size()) {
    return invalid("manifest.json has " + std::to_string(image.layers.size()) +
                   " layers, the config names " + std::to_string(config.diff_ids.size()));
  }
  return config;
}

/// By its first bytes: docker writes plain layers, or gzip and zstd since it keeps those of a
/// registry.
Result<Compression> compression_of(const FileSpan& span) {
  std::array<std::byte, 4> magic{};
  FileRange start(span.fd, span.offset, std::min<std::uint64_t>(span.size, magic.size()));
  ATE_ASSIGN(const std::size_t got, start.read(magic));
  const auto at = [&magic](std::size_t i) { return std::to_integer<unsigned>(magic[i]); };
  if (got >= 2 && at(0) == 0x1f && at(1) == 0x8b) {
    return Compression::Gzip;
  }
  if (got == 4 && at(0) == 0x28 && at(1) == 0xb5 && at(2) == 0x2f && at(3) == 0xfd) {
    return Compression::Zstd;
  }
  return Compression::None;
}

Result<LayerStream> open_layer(Layout& layout, const std::string& name,
                               const std::string& diff_id) {
  Result<FileSpan> span = layout.open(name);
  if (!span) {
    return invalid("layer " + show(name) + " is missing: the archive is incomplete");
  }
  LayerStream layer;
  layer.span = std::move(*span);
  ATE_ASSIGN(layer.compression, compression_of(layer.span));
  layer.label = show(name);
  layer.diff_id = diff_id;
  return layer;
}

}  // namespace

Result<std::string> resolve_docker(Layout& layout, const std::string& tag) {
  ATE_ASSIGN(std::vector<DockerImage> images, read_images(layout));
  const std::string tags = list_tags(images);
  if (!tag.empty()) {
    std::erase_if(images, [&tag](const DockerImage& image) { return !is_tagged(image, tag); });
    if (images.empty()) {
      return invalid("no image is tagged " + show(tag) + "; there are: " + tags);
    }
  }
  if (images.size() > 1) {
    return invalid(tag.empty() ? "several images and no tag given; choose one of: " + tags
                               : "several images are tagged " + show(tag));
  }
  std::string digest;
  // Says at load, not at the first resume, that the image is for another machine.
  ATE_TRY(read_config(layout, images.front(), digest));
  return digest;
}

Result<UnpackReport> unpack_docker(Layout& layout, const std::string& digest, UniqueFd root) {
  ATE_ASSIGN(const std::vector<DockerImage> images, read_images(layout));
  for (const DockerImage& image : images) {
    std::string found;
    Result<ImageConfig> config = read_config(layout, image, found);
    if (found != digest) {
      continue;  // one of the others, whatever is wrong with it
    }
    if (!config) {
      return fail(std::move(config).error());
    }
    std::vector<LayerStream> layers;
    for (std::size_t i = 0; i < image.layers.size(); ++i) {
      ATE_ASSIGN(LayerStream layer, open_layer(layout, image.layers[i], config->diff_ids[i]));
      layers.push_back(std::move(layer));
    }
    return unpack_layers(layers, std::move(config->process), std::move(root));
  }
  return invalid("config " + digest +
                 " is not there any more: the image was replaced since its reference was "
                 "resolved");
}

}  // namespace ate::image
