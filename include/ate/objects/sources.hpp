#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ate/async/task.hpp"
#include "ate/image/image.hpp"

namespace ate::artifacts {
class AssetStore;
}  // namespace ate::artifacts

namespace ate::objects {

/// Where the images of templates and the assets of sandbox configs come from; tests have a fake.
class Sources {
 public:
  Sources() = default;
  virtual ~Sources() = default;
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;
  Sources(Sources&&) = delete;
  Sources& operator=(Sources&&) = delete;

  /// Reference -> manifest digest.
  [[nodiscard]] virtual async::Task<Result<std::string>> resolve(std::string reference) = 0;
  /// Unpacks when it is not there yet; joins a running unpack.
  [[nodiscard]] virtual async::Task<Result<image::Unpacked>> ensure(std::string reference,
                                                                    std::string digest) = 0;
  [[nodiscard]] virtual bool has_image(const std::string& digest) = 0;
  /// Copies an asset in and returns its digest; `expected` as AssetStore::import.
  [[nodiscard]] virtual async::Task<Result<std::string>> import_asset(std::string path,
                                                                      std::string expected) = 0;
  [[nodiscard]] virtual bool has_asset(const std::string& digest) const = 0;
};

/// The real ones; both outlive what is returned.
[[nodiscard]] std::unique_ptr<Sources> make_sources(image::Store& images,
                                                    artifacts::AssetStore& assets);

}  // namespace ate::objects
