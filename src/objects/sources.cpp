#include "ate/objects/sources.hpp"

#include <utility>

#include "ate/artifacts/artifacts.hpp"
#include "ate/objects/catalog.hpp"

namespace ate::objects {
namespace {

class RealSources final : public Sources {
 public:
  RealSources(image::Store& images, artifacts::AssetStore& assets)
      : images_(images), assets_(assets) {}

  [[nodiscard]] async::Task<Result<std::string>> resolve(std::string reference) override {
    ATE_CO_ASSIGN(image::Reference parsed, image::parse_reference(reference));
    co_return co_await images_.resolve(std::move(parsed));
  }

  [[nodiscard]] async::Task<Result<image::Unpacked>> ensure(std::string reference,
                                                            std::string digest) override {
    ATE_CO_ASSIGN(image::Reference parsed, image::parse_reference(reference));
    co_return co_await images_.ensure(std::move(parsed), std::move(digest));
  }

  [[nodiscard]] bool has_image(const std::string& digest) override {
    return images_.find(digest).has_value();
  }

  [[nodiscard]] async::Task<Result<std::string>> import_asset(std::string path,
                                                              std::string expected) override {
    co_return co_await assets_.import(std::move(path), std::move(expected));
  }

  [[nodiscard]] bool has_asset(const std::string& digest) const override {
    return assets_.path_of(digest).has_value();
  }

 private:
  image::Store& images_;
  artifacts::AssetStore& assets_;
};

}  // namespace

std::unique_ptr<Sources> make_sources(image::Store& images, artifacts::AssetStore& assets) {
  return std::make_unique<RealSources>(images, assets);
}

Catalog::Catalog(async::Context& context, store::Store& store, image::Store& images,
                 artifacts::AssetStore& assets, const Clock& clock, Options options,
                 OnChange on_change, OnLog on_log)
    : Catalog(context, store, make_sources(images, assets), clock, std::move(options),
              std::move(on_change), std::move(on_log)) {}

}  // namespace ate::objects
