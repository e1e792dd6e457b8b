#include "image/unpack.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ate/os/fs.hpp"
#include "ate/util/failpoint.hpp"
#include "image/layers.hpp"
#include "image/limits.hpp"
#include "image/oci.hpp"
#include "image/tar.hpp"
#include "image/tree.hpp"

namespace ate::image {

namespace {

/// Counts uncompressed bytes and stops a bomb of zeros, which costs time and no disk.
class BoundedSource final : public ByteSource {
 public:
  BoundedSource(ByteSource& inner, std::uint64_t& left) : inner_(inner), left_(left) {}

  Result<std::size_t> read(std::span<std::byte> out) override {
    ATE_ASSIGN(const std::size_t count, inner_.read(out));
    if (count > left_) {
      return fail(Errc::ImageInvalid, "the layers hold more than 256 GiB uncompressed");
    }
    left_ -= count;
    return count;
  }

 private:
  ByteSource& inner_;
  std::uint64_t& left_;
};

Status apply_entries(TarReader& reader, Tree& tree) {
  tree.begin_layer();
  Entry entry;
  while (true) {
    ATE_ASSIGN(const bool more, reader.next(entry));
    if (!more) {
      return tree.end_layer();
    }
    ATE_TRY(tree.apply(entry, reader));
  }
}

Result<LayerStream> open_layer(Layout& layout, const Layer& layer, const std::string& diff_id) {
  const std::string& digest = layer.blob.digest;
  Result<FileSpan> span = layout.open(blob_path(digest));
  if (!span && span.error().code() == Errc::NotFound) {
    return fail(Errc::ImageInvalid,
                "blob " + digest + " is missing: the image is incomplete or was replaced");
  }
  if (!span) {
    return fail(std::move(span).error());
  }
  if (span->size != layer.blob.size) {
    return fail(Errc::ImageInvalid, "blob " + digest + " has " + std::to_string(span->size) +
                                        " bytes, expected " + std::to_string(layer.blob.size) +
                                        ": the image is damaged or was replaced");
  }
  return LayerStream{std::move(*span), layer.compression, digest, digest, diff_id};
}

// A wrong digest explains every other error of a layer, so it is what the caller is told: when the
// tar or the compression looks damaged, the rest of the blob is still hashed.
Status apply_layer(const LayerStream& layer, Tree& tree, std::uint64_t& stream_left) {
  FileRange range(layer.span.fd, layer.span.offset, layer.span.size);
  HashingSource compressed(range);
  const std::unique_ptr<ByteSource> plain = make_decompressor(compressed, layer.compression);
  BoundedSource bounded(*plain, stream_left);
  HashingSource uncompressed(bounded);
  TarReader reader(uncompressed);
  Status applied = apply_entries(reader, tree);
  if (applied) {
    applied =
        uncompressed.verify(layer.diff_id, std::string("the content of ") +
                                               (layer.digest.empty() ? "" : "blob ") + layer.label);
  }
  if (!layer.digest.empty() && (applied || applied.error().code() == Errc::ImageInvalid)) {
    ATE_TRY(compressed.verify(layer.digest, "blob " + layer.digest));
  }
  if (!applied) {
    return fail(std::move(applied).error().context("layer " + layer.label));
  }
  return {};
}

std::uint64_t stored_limit(const std::vector<LayerStream>& layers) {
  std::uint64_t limit = kStoredSlack;
  for (const LayerStream& layer : layers) {
    if (layer.span.size > kMaxStoredBytes) {
      return kMaxStoredBytes;
    }
    limit = std::min(kMaxStoredBytes, limit + layer.span.size * kStoredRatio);
  }
  return limit;
}

}  // namespace

Result<std::string> resolve_digest(Layout& layout, const std::string& tag) {
  Result<std::string> text = layout.read_text("index.json");
  if (!text && text.error().code() == Errc::NotFound) {
    return fail(Errc::ImageInvalid, "this is not an OCI image layout: it has no index.json");
  }
  if (!text) {
    return fail(std::move(text).error());
  }
  Result<std::vector<Descriptor>> entries = parse_index(*text);
  if (!entries) {
    return fail(std::move(entries).error().context("index.json"));
  }
  ATE_ASSIGN(Descriptor chosen, select_tag(*entries, tag));
  for (int depth = 0; chosen.kind() == DocumentKind::Index; ++depth) {
    if (depth >= kMaxIndexDepth) {
      return fail(Errc::ImageInvalid, "indexes are nested deeper than 4");
    }
    ATE_ASSIGN(const std::string nested, layout.read_blob(chosen.digest, chosen.size));
    Result<std::vector<Descriptor>> inner = parse_index(nested);
    if (!inner) {
      return fail(std::move(inner).error().context("index " + chosen.digest));
    }
    ATE_ASSIGN(chosen, select_platform(*inner));
  }
  ATE_ASSIGN(const std::string manifest, layout.read_blob(chosen.digest, chosen.size));
  Result<Manifest> parsed = parse_manifest(manifest);
  if (!parsed) {
    return fail(std::move(parsed).error().context("manifest " + chosen.digest));
  }
  ATE_ASSIGN(const std::string config,
             layout.read_blob(parsed->config.digest, parsed->config.size));
  // Says at load, not at the first resume, that the image is for another machine.
  ATE_TRY(parse_image_config(config));
  return chosen.digest;
}

Result<UnpackReport> unpack_image(Layout& layout, const std::string& digest, UniqueFd root) {
  const Result<FileSpan> manifest_span = layout.open(blob_path(digest));
  if (!manifest_span && manifest_span.error().code() == Errc::NotFound) {
    return fail(Errc::ImageInvalid, "manifest " + digest +
                                        " is not there any more: the image was replaced since its "
                                        "reference was resolved");
  }
  ATE_ASSIGN(const std::string manifest_text, layout.read_blob(digest));
  Result<Manifest> manifest = parse_manifest(manifest_text);
  if (!manifest) {
    return fail(std::move(manifest).error().context("manifest " + digest));
  }
  ATE_ASSIGN(const std::string config_text,
             layout.read_blob(manifest->config.digest, manifest->config.size));
  ATE_ASSIGN(ImageConfig config, parse_image_config(config_text));
  if (config.diff_ids.size() != manifest->layers.size()) {
    return fail(Errc::ImageInvalid, "the manifest has " + std::to_string(manifest->layers.size()) +
                                        " layers, the config names " +
                                        std::to_string(config.diff_ids.size()));
  }
  std::vector<LayerStream> layers;
  for (std::size_t i = 0; i < manifest->layers.size(); ++i) {
    ATE_ASSIGN(LayerStream layer, open_layer(layout, manifest->layers[i], config.diff_ids[i]));
    layers.push_back(std::move(layer));
  }
  return unpack_layers(layers, std::move(config.process), std::move(root));
}

Result<UnpackReport> unpack_layers(const std::vector<LayerStream>& layers, Config process,
                                   UniqueFd root) {
  Tree tree(std::move(root), TreeLimits{kMaxEntries, stored_limit(layers)});
  std::uint64_t stream_left = kMaxStreamBytes;
  for (const LayerStream& layer : layers) {
    ATE_TRY(apply_layer(layer, tree, stream_left));
    static_cast<void>(failpoint("image-helper-layer"));
  }
  ATE_ASSIGN(const std::vector<std::string> names, os::list_dir_at(tree.root(), "the root"));
  if (names.empty()) {
    return fail(Errc::ImageInvalid, "the layers hold no files");
  }
  ATE_ASSIGN(const UniqueFd sync, open_beneath(tree.root(), ".", O_RDONLY | O_DIRECTORY, 0));
  if (::syncfs(sync.get()) != 0) {
    return fail(Error::from_errno("writing the image to disk", errno));
  }
  UnpackReport report;
  report.config = std::move(process);
  report.entries = tree.entries();
  report.stored_bytes = tree.stored_bytes();
  report.skipped_devices = tree.skipped_devices();
  return report;
}

}  // namespace ate::image
