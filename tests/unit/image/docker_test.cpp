// Archives of `docker save`: what is chosen, what is checked, what hostile ones can't do.
#include <fcntl.h>

#include <functional>
#include <string>

#include "image/unpack.hpp"
#include "oci_builder.hpp"
#include "store_support.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::image;
using ate::test::OciBuilder;
using ate::test::TarWriter;
using ate::test::TempDir;

namespace {

std::string layer_tar(const std::string& name, const std::string& data) {
  return TarWriter().dir("bin").file(name, data, 0755).finish();
}

/// One image of an archive; fields may be set wrong on purpose.
struct Saved {
  std::string config_name;
  std::string config;
  std::string tags = R"("app:1")";
  std::vector<std::pair<std::string, std::string>> layers;  // name, bytes

  [[nodiscard]] std::string entry() const {
    std::string list;
    for (const auto& [name, data] : layers) {
      list += (list.empty() ? "\"" : ",\"") + name + "\"";
    }
    return R"({"Config":")" + config_name + R"(","RepoTags":[)" + tags + R"(],"Layers":[)" + list +
           "]}";
  }

  [[nodiscard]] std::string digest() const { return "sha256:" + sha256_hex(config); }
};

Saved saved(const std::vector<std::string>& tars) {
  OciBuilder builder;
  Saved out;
  for (const std::string& tar : tars) {
    builder.layer(tar);
    out.layers.emplace_back("l" + std::to_string(out.layers.size()) + "/layer.tar", tar);
  }
  out.config = builder.config_text();
  out.config_name = sha256_hex(out.config) + ".json";
  return out;
}

TarWriter& add(TarWriter& tar, const Saved& image) {
  tar.file(image.config_name, image.config);
  for (const auto& [name, data] : image.layers) {
    tar.file(name, data);
  }
  return tar;
}

std::string archive(const Saved& image) {
  TarWriter tar;
  return add(tar, image).file("manifest.json", "[" + image.entry() + "]").finish();
}

template <class F>
auto with_archive(const std::string& bytes, F use) {
  const TempDir dir;
  test::write_file(dir.file("a.tar"), bytes);
  const UniqueFd file(::open(dir.file("a.tar").c_str(), O_RDONLY | O_CLOEXEC));
  auto layout = open_archive(file.get());
  using R = decltype(use(**layout));
  return layout ? use(**layout) : R(fail(layout.error()));
}

Result<std::string> resolve(const std::string& bytes, const std::string& tag) {
  return with_archive(bytes, [&](Layout& layout) { return resolve_docker(layout, tag); });
}

std::string trouble(const Result<std::string>& result) {
  return result ? std::string() : result.error().message();
}

/// What went wrong, or "" and `look` at the tree.
std::string unpack(const std::string& bytes, const std::string& digest,
                   const std::function<void(const std::string&)>& look) {
  const TempDir root;
  const Result<UnpackReport> report = with_archive(bytes, [&](Layout& layout) {
    return unpack_docker(layout, digest,
                         UniqueFd(::open(root.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  });
  if (!report) {
    CHECK(report.error().code() == Errc::ImageInvalid);
    return report.error().message();
  }
  CHECK(report->config.entrypoint == std::vector<std::string>{"/bin/sh"});
  look(root.path());
  return {};
}

std::string unpack(const std::string& bytes, const std::string& digest) {
  return unpack(bytes, digest, [](const std::string&) {});
}

}  // namespace

TEST_CASE("docker: layers plain, gzip and zstd, and one that is a link, give one tree") {
  const std::string first = layer_tar("bin/sh", "one");
  const std::string second = layer_tar("bin/sh", "two");
  const std::string third = layer_tar("bin/more", "three");
  Saved image = saved({first, second, third, first, third});
  image.layers[1].second = test::gzip(second);
  image.layers[2].second = test::zstd(third);
  TarWriter tar;
  tar.file(image.config_name, image.config);
  for (std::size_t i = 0; i < 4; ++i) {
    tar.file(image.layers[i].first, image.layers[i].second);
  }
  tar.symlink("l4/layer.tar", "../l2/layer.tar").file("manifest.json", "[" + image.entry() + "]");
  const std::string bytes = tar.finish();
  CHECK(resolve(bytes, "").value() == image.digest());
  CHECK(unpack(bytes, image.digest(), [](const std::string& root) {
          CHECK(test::read_file(root + "/bin/sh") == "one");
          CHECK(test::read_file(root + "/bin/more") == "three");
        }) == "");
}

TEST_CASE("docker: the tag chooses; without one there must be one image") {
  Saved one = saved({layer_tar("bin/sh", "one")});
  Saved two = saved({layer_tar("bin/sh", "two")});
  two.tags = R"("app:latest","registry:5000/x/app:2")";
  two.layers.front().first = "other/layer.tar";
  TarWriter tar;
  add(tar, one);
  add(tar, two);
  const std::string bytes =
      tar.file("manifest.json", "[" + one.entry() + "," + two.entry() + "]").finish();
  CHECK(resolve(bytes, "app:1").value() == one.digest());
  CHECK(resolve(bytes, "app").value() == two.digest());
  CHECK(resolve(bytes, "registry:5000/x/app:2").value() == two.digest());
  CHECK(trouble(resolve(bytes, "")).find("choose one of: 'app:1', 'app:latest'") !=
        std::string::npos);
  CHECK(trouble(resolve(bytes, "none")).find("no image is tagged 'none'") != std::string::npos);
  CHECK(unpack(bytes, two.digest(), [](const std::string& root) {
          CHECK(test::read_file(root + "/bin/sh") == "two");
        }) == "");
  CHECK(unpack(bytes, "sha256:" + std::string(64, '0')).find("was replaced") != std::string::npos);
}

TEST_CASE("docker: what does not fit together is refused with what is wrong") {
  const Saved good = saved({layer_tar("bin/sh", "one")});
  const auto says = [&good](const std::string& bytes, const std::string& text) {
    CAPTURE(text);
    const Result<std::string> resolved = resolve(bytes, "");
    std::string what = trouble(resolved);
    if (resolved) {
      what = unpack(bytes, good.digest());
    }
    CAPTURE(what);
    CHECK(what.find(text) != std::string::npos);
  };
  const auto listed = [&good](const std::string& manifest) {
    TarWriter tar;
    return add(tar, good).file("manifest.json", manifest).finish();
  };
  says(TarWriter().file("x", "y").finish(), "no archive of `docker save`");
  says(TarWriter().file("oci-layout", "{}").finish(), "oci-archive:");
  says(listed("{}"), "lists no image");
  says(listed("[]"), "lists no image");
  says(listed("[{}]"), "without Config");
  says(listed("[7]"), "without Config");
  says(listed(R"([{"Config":"a.json","Layers":[1]}])"), "else than texts");
  says(listed(R"([{"Config":"../../etc/passwd","Layers":[]}])"), "can't be read");
  says(listed("[" + std::string(100'000, '[')), "");
  Saved image = good;
  image.layers.front().first = "/etc/passwd";
  says(listed("[" + image.entry() + "]"), "is missing");
  image = good;
  image.layers.emplace_back("l0/layer.tar", "");
  says(listed("[" + image.entry() + "]"), "2 layers, the config names 1");
  image = good;
  image.layers.front().second = layer_tar("bin/sh", "another");
  says(archive(image), "digest");
  image.layers.front().second = test::gzip(good.layers.front().second).substr(0, 60);
  says(archive(image), "layer 'l0/layer.tar'");
  says(test::gzip(archive(good)), "itself is compressed");
  OciBuilder foreign;
  foreign.architecture = "arm64";
  image = good;
  image.config = foreign.layer(layer_tar("bin/sh", "one")).config_text();
  says(archive(image), "arm64");
  std::string many;
  for (int i = 0; i < 129; ++i) {
    many += std::string(i == 0 ? "" : ",") + R"("l0/layer.tar")";
  }
  says(listed(R"([{"Config":"x.json","Layers":[)" + many + "]}]"), "128 layers");
}

TEST_CASE("docker: links never leave the archive, and lead nowhere twice") {
  const Saved image = saved({layer_tar("bin/sh", "one")});
  for (const char* target : {"/etc/passwd", "../../../etc/passwd", "layer.tar", "../l1/layer.tar",
                             "..", "", "../l2/layer.tar"}) {
    CAPTURE(target);
    TarWriter tar;
    tar.file(image.config_name, image.config);
    tar.symlink("l0/layer.tar", target).symlink("l2/layer.tar", "../l3/layer.tar");
    tar.file("l3/layer.tar", image.layers.front().second);
    const std::string bytes = tar.file("manifest.json", "[" + image.entry() + "]").finish();
    CHECK(unpack(bytes, image.digest()).find("is missing") != std::string::npos);
  }
}

TEST_CASE("docker: through the store and its helper; the same again comes from the store") {
  const test::StoreBench bench;
  const Saved image = saved({layer_tar("bin/sh", "one")});
  test::write_file(bench.dir.file("a.tar"), archive(image));
  const Reference source = test::reference("docker-archive:" + bench.dir.file("a.tar") + ":app:1");
  bench.run([&](Store& store, async::Reaper&, async::Context&) -> async::Task<void> {
    const Result<std::string> digest = co_await store.resolve(source);
    CHECK(digest.value() == image.digest());
    const Result<Unpacked> first = co_await store.ensure(source, *digest);
    CHECK(test::read_file(first.value().rootfs + "/bin/sh") == "one");
    std::filesystem::remove(bench.dir.file("a.tar"));
    const Result<Unpacked> again = co_await store.ensure(source, *digest);
    CHECK(again.value().rootfs == first->rootfs);
  });
}
