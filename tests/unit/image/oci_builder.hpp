#pragma once

#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ate/image/digest.hpp"
#include "support/tar_writer.hpp"
#include "support/temp_dir.hpp"

namespace ate::test {

inline std::string gzip(const std::string& plain) {
  z_stream stream{};
  if (::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::string out(::deflateBound(&stream, plain.size()) + 64, '\0');
  std::string in = plain;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

inline std::string zstd(const std::string& plain) {
  std::string out(::ZSTD_compressBound(plain.size()), '\0');
  out.resize(::ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 3));
  return out;
}

/// Builds a layout in memory; fields may be set wrong on purpose before it is written.
class OciBuilder {
 public:
  static constexpr const char* kLayer = "application/vnd.oci.image.layer.v1.tar";
  static constexpr const char* kManifest = "application/vnd.oci.image.manifest.v1+json";
  static constexpr const char* kIndex = "application/vnd.oci.image.index.v1+json";
  static constexpr const char* kConfig = "application/vnd.oci.image.config.v1+json";

  struct Layer {
    std::string media_type;
    std::string digest;
    std::size_t size;
    std::string diff_id;
  };

  std::map<std::string, std::string> files{{"oci-layout", R"({"imageLayoutVersion":"1.0.0"})"}};
  std::vector<Layer> layers;
  std::string process = R"({"Entrypoint":["/bin/sh"],"Env":["A=b"],"WorkingDir":"/w"})";
  std::string architecture = "amd64";
  std::string os = "linux";

  std::string blob(const std::string& data) {
    const std::string hex = image::sha256_hex(data);
    files["blobs/sha256/" + hex] = data;
    return "sha256:" + hex;
  }

  OciBuilder& layer(const std::string& tar, const std::string& compression = "") {
    const std::string data = compression == "gzip"   ? gzip(tar)
                             : compression == "zstd" ? zstd(tar)
                                                     : tar;
    const std::string type = std::string(kLayer) + (compression.empty() ? "" : "+" + compression);
    layers.push_back({type, blob(data), data.size(), "sha256:" + image::sha256_hex(tar)});
    return *this;
  }

  static std::string descriptor(const std::string& type, const std::string& digest,
                                std::size_t size, const std::string& more = "") {
    return R"({"mediaType":")" + type + R"(","digest":")" + digest + R"(","size":)" +
           std::to_string(size) + more + "}";
  }

  static std::string tagged(const std::string& tag) {
    return R"(,"annotations":{"org.opencontainers.image.ref.name":")" + tag + R"("})";
  }

  static std::string index_of(const std::string& entries) {
    return R"({"schemaVersion":2,"manifests":[)" + entries + "]}";
  }

  std::string config_text() const {
    std::string ids;
    for (const Layer& layer : layers) {
      ids += (ids.empty() ? "\"" : ",\"") + layer.diff_id + "\"";
    }
    return R"({"architecture":")" + architecture + R"(","os":")" + os + R"(","config":)" + process +
           R"(,"rootfs":{"type":"layers","diff_ids":[)" + ids + "]}}";
  }

  /// Adds config and manifest; the manifest's digest and descriptor.
  std::pair<std::string, std::string> manifest(const std::string& more = "") {
    const std::string config = config_text();
    std::string list;
    for (const Layer& layer : layers) {
      list += (list.empty() ? "" : ",") + descriptor(layer.media_type, layer.digest, layer.size);
    }
    const std::string text = std::string(R"({"schemaVersion":2,"mediaType":")") + kManifest +
                             R"(","config":)" + descriptor(kConfig, blob(config), config.size()) +
                             R"(,"layers":[)" + list + "]}";
    const std::string digest = blob(text);
    return {digest, descriptor(kManifest, digest, text.size(), more)};
  }

  /// The usual case: one manifest, tagged. Its digest.
  std::string seal(const std::string& tag = "latest") {
    const auto [digest, entry] = manifest(tagged(tag));
    files["index.json"] = index_of(entry);
    return digest;
  }

  void write_directory(const std::string& path) const {
    for (const auto& [name, data] : files) {
      std::filesystem::create_directories(std::filesystem::path(path + "/" + name).parent_path());
      write_file(path + "/" + name, data);
    }
  }

  [[nodiscard]] std::string archive() const {
    TarWriter tar;
    tar.dir("blobs").dir("blobs/sha256");
    for (const auto& [name, data] : files) {
      tar.file(name, data);
    }
    return tar.finish();
  }
};

}  // namespace ate::test
