#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ate/objects/catalog.hpp"
#include "ate/objects/sources.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "support/catch.hpp"
#include "support/fake_clock.hpp"
#include "support/fake_store.hpp"
#include "support/run_coro.hpp"
#include "support/temp_dir.hpp"

namespace ate::test {

/// Images and assets by name; what is not listed fails.
class FakeSources final : public objects::Sources {
 public:
  std::map<std::string, std::string> images;  // reference -> digest
  std::map<std::string, std::string> assets;  // path -> digest
  std::set<std::string> unpacked;             // digests
  std::optional<Error> unpack_error;
  std::function<async::Task<void>()> unpack_gate;
  std::function<async::Task<void>()> import_gate;
  int resolved = 0;
  int ensured = 0;
  int imported = 0;

  [[nodiscard]] async::Task<Result<std::string>> resolve(std::string reference) override {
    ++resolved;
    const auto it = images.find(reference);
    if (it == images.end()) {
      co_return fail(Errc::Internal, "no image at " + reference);
    }
    co_return it->second;
  }

  [[nodiscard]] async::Task<Result<image::Unpacked>> ensure(std::string reference,
                                                            std::string digest) override {
    ++ensured;
    if (unpack_gate) {
      co_await unpack_gate();
    }
    if (unpack_error) {
      co_return fail(Error(*unpack_error));
    }
    unpacked.insert(digest);
    image::Unpacked out;
    out.digest = digest;
    out.rootfs = "/images/" + reference;
    co_return out;
  }

  [[nodiscard]] bool has_image(const std::string& digest) override {
    return unpacked.contains(digest);
  }

  [[nodiscard]] async::Task<Result<std::string>> import_asset(std::string path,
                                                              std::string expected) override {
    ++imported;
    if (import_gate) {
      co_await import_gate();
    }
    const auto it = assets.find(path);
    if (it == assets.end() || (!expected.empty() && expected != it->second)) {
      co_return fail(Errc::AssetInvalid, "no asset at " + path);
    }
    co_return it->second;
  }

  [[nodiscard]] bool has_asset(const std::string& digest) const override {
    for (const auto& [path, known] : assets) {
      if (known == digest) {
        return true;
      }
    }
    return false;
  }
};

class FakeReferences final : public objects::References {
 public:
  std::set<std::int64_t> generations;

  [[nodiscard]] bool template_in_use(const std::string& /*atespace*/, const std::string& /*name*/,
                                     std::int64_t generation) const override {
    return generations.contains(generation);
  }
};

inline std::string digest(char c) {
  return "sha256:" + std::string(64, c);
}

inline std::string template_yaml(const std::string& name, const std::string& extra) {
  return "apiVersion: ate.dev/v1alpha1\nkind: ActorTemplate\nmetadata: {name: " + name +
         "}\nspec:\n  sandboxClass: gvisor\n  containers: [{name: app, image: 'oci:/i'}]\n" + extra;
}

inline std::string pool_yaml(const std::string& name, const std::string& memory) {
  return "apiVersion: ate.dev/v1alpha1\nkind: WorkerPool\nmetadata: {name: " + name +
         "}\nspec: {sandboxClass: gvisor, resources: {limits: {cpu: 1, memory: " + memory + "}}}\n";
}

inline std::string config_yaml(const std::string& name, const std::string& extra) {
  return "apiVersion: ate.dev/v1alpha1\nkind: SandboxConfig\nmetadata: {name: " + name +
         "}\nspec:\n  sandboxClass: gvisor\n  assets: {runsc: {path: /usr/bin/runsc}}\n" + extra;
}

inline std::string template_json(const std::string& name) {
  return R"({"metadata":{"name":")" + name +
         R"("},"spec":{"sandboxClass":"gvisor","containers":[{"name":"app","image":"oci:/i"}]}})";
}

/// A catalog on a temporary directory, with everything around it faked.
struct Rig {
  TempDir dir;
  FakeStore store;
  FakeClock clock;
  FakeReferences references;
  FakeSources* sources = nullptr;
  std::map<std::string, std::string> images{{"oci:/i", digest('1')}, {"oci:/j", digest('2')}};
  std::map<std::string, std::string> assets{{"/usr/bin/runsc", digest('a')}};
  std::int64_t version = 0;
  std::vector<std::string> changes;
  std::vector<std::string> errors;

  /// A fresh catalog with what the store holds, as after a restart.
  std::unique_ptr<objects::Catalog> start(async::Context& context, const Clock& with) {
    auto made = std::make_unique<FakeSources>();
    made->images = images;
    made->assets = assets;
    sources = made.get();
    objects::Catalog::Options options;
    options.directory = dir.path() + "/etc";
    options.debounce = std::chrono::milliseconds(5);
    auto catalog = std::make_unique<objects::Catalog>(
        context, store, std::move(made), with, options,
        [this](objects::Kind, const std::string&, const std::string& name) {
          changes.push_back(name);
        },
        [this](bool is_error, const std::string& text) {
          if (is_error) {
            errors.push_back(text);
          }
        });
    catalog->set_references(&references);
    catalog->set_next_version([this] { return ++version; });
    const auto loaded = store.load();
    if (!loaded || !catalog->load(*loaded)) {
      throw std::runtime_error("load");
    }
    return catalog;
  }

  std::unique_ptr<objects::Catalog> start(async::Context& context) { return start(context, clock); }

  Rig() { std::filesystem::create_directory(dir.path() + "/etc"); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return dir.path() + "/etc/" + name;
  }

  void write(const std::string& name, const std::string& text) const {
    write_file(path(name), text);
    std::filesystem::permissions(path(name), std::filesystem::perms(0644));
  }

  void remove(const std::string& name) const { std::filesystem::remove(path(name)); }
};

inline const objects::Catalog::FileStatus* find_file(
    const std::vector<objects::Catalog::FileStatus>& files, const std::string& path) {
  for (const auto& file : files) {
    if (file.path == path) {
      return &file;
    }
  }
  return nullptr;
}

}  // namespace ate::test
