#include "image/oci.hpp"

#include <fcntl.h>

#include <string>

#include "image/unpack.hpp"
#include "oci_builder.hpp"
#include "support/catch.hpp"
#include "tree_support.hpp"

using namespace ate;
using namespace ate::image;
using ate::test::OciBuilder;
using ate::test::TarWriter;
using ate::test::TempDir;

namespace {

std::string small_tar() {
  return TarWriter().dir("bin").file("bin/sh", "#!", 0755).finish();
}

/// Runs `use` on the builder's layout, as a directory and as an archive: both must say the same.
template <class F>
auto with_layout(const OciBuilder& builder, F use) {
  const TempDir dir;
  std::filesystem::create_directory(dir.file("layout"));
  builder.write_directory(dir.file("layout"));
  test::write_file(dir.file("a.tar"), builder.archive());
  const UniqueFd directory(::open(dir.file("layout").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd file(::open(dir.file("a.tar").c_str(), O_RDONLY | O_CLOEXEC));
  auto from_directory = open_directory_layout(directory.get());
  auto from_archive = open_archive_layout(file.get());
  using R = decltype(use(**from_directory));
  const R first = from_directory ? use(**from_directory) : R(fail(from_directory.error()));
  const R second = from_archive ? use(**from_archive) : R(fail(from_archive.error()));
  REQUIRE(first.has_value() == second.has_value());
  if (!first) {
    CHECK(first.error().message() == second.error().message());
  }
  return second;
}

Result<std::string> resolve(const OciBuilder& builder, const std::string& tag = "") {
  return with_layout(builder, [&](Layout& layout) { return resolve_digest(layout, tag); });
}

/// Empty = it worked.
std::string unpack_error(const OciBuilder& builder, const std::string& digest) {
  const Result<UnpackReport> report =
      with_layout(builder, [&](Layout& layout) -> Result<UnpackReport> {
        const TempDir root;
        return unpack_image(
            layout, digest,
            UniqueFd(::open(root.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
      });
  if (report) {
    return "";
  }
  CHECK(report.error().code() == Errc::ImageInvalid);
  return report.error().message();
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string on(const char* os, const char* architecture) {
  return std::string(R"(,"platform":{"os":")") + os + R"(","architecture":")" + architecture +
         "\"}";
}

}  // namespace

TEST_CASE("resolve: by tag, by being the only one, through a nested index") {
  OciBuilder one;
  const std::string digest = one.layer(small_tar()).seal("v1");
  CHECK(resolve(one) == digest);
  CHECK(resolve(one, "v1") == digest);
  const Result<std::string> missing = resolve(one, "v2");
  REQUIRE_FALSE(missing);
  CHECK(says(missing.error().message(), "'v2'; there are: 'v1'"));

  OciBuilder arm = one;
  arm.architecture = "arm64";
  const auto [arm_digest, arm_entry] = arm.manifest(on("linux", "arm64"));
  const auto [own_digest, own_entry] = arm.manifest("");
  static_cast<void>(own_digest);
  static_cast<void>(own_entry);
  OciBuilder many = arm;
  many.architecture = "amd64";
  const auto [amd_digest, amd_entry] = many.manifest(on("linux", "amd64"));
  const std::string attestation = OciBuilder::descriptor(
      OciBuilder::kManifest, arm_digest, 10,
      R"(,"annotations":{"vnd.docker.reference.type":"attestation-manifest"},"platform":{"os":"unknown","architecture":"unknown"})");
  const std::string nested = OciBuilder::index_of(arm_entry + "," + attestation + "," + amd_entry);
  const std::string nested_digest = many.blob(nested);
  many.files["index.json"] = OciBuilder::index_of(OciBuilder::descriptor(
      OciBuilder::kIndex, nested_digest, nested.size(), OciBuilder::tagged("multi")));
  CHECK(resolve(many) == amd_digest);
  CHECK(resolve(many, "multi") == amd_digest);

  const std::string only_arm = OciBuilder::index_of(arm_entry);
  const std::string only_digest = many.blob(only_arm);
  many.files["index.json"] = OciBuilder::index_of(
      OciBuilder::descriptor(OciBuilder::kIndex, only_digest, only_arm.size()));
  const Result<std::string> wrong = resolve(many);
  REQUIRE_FALSE(wrong);
  CHECK(says(wrong.error().message(), "no image for linux/amd64; there are: linux/arm64"));
}

TEST_CASE("resolve: several images without a tag list the tags") {
  OciBuilder builder;
  const auto [first, first_entry] = builder.layer(small_tar()).manifest(OciBuilder::tagged("a"));
  builder.process = "{}";
  const auto [second, second_entry] = builder.manifest(OciBuilder::tagged("b"));
  builder.files["index.json"] = OciBuilder::index_of(first_entry + "," + second_entry);
  const Result<std::string> none = resolve(builder);
  REQUIRE_FALSE(none);
  CHECK(says(none.error().message(), "choose one of: 'a', 'b'"));
  CHECK(resolve(builder, "a") == first);
  CHECK(resolve(builder, "b") == second);
  // Two names of one image are one image.
  std::string same = first_entry;
  same.replace(same.find("\"a\""), 3, "\"c\"");
  builder.files["index.json"] = OciBuilder::index_of(first_entry + "," + same);
  CHECK(resolve(builder) == first);
}

TEST_CASE("resolve: what is no image layout says so") {
  struct Row {
    const char* says;
    std::function<void(OciBuilder&)> spoil;
  };

  const Row rows[] = {
      {"no file 'oci-layout'", [](OciBuilder& b) { b.files.erase("oci-layout"); }},
      {"docker archive",
       [](OciBuilder& b) {
         b.files.erase("oci-layout");
         b.files["manifest.json"] = "[]";
       }},
      {"imageLayoutVersion",
       [](OciBuilder& b) { b.files["oci-layout"] = R"({"imageLayoutVersion":"9"})"; }},
      {"no index.json", [](OciBuilder& b) { b.files.erase("index.json"); }},
      {"index.json: JSON", [](OciBuilder& b) { b.files["index.json"] = "{"; }},
      {"larger than 4 MiB",
       [](OciBuilder& b) { b.files["index.json"] = std::string(5 << 20, ' '); }},
      {"appears twice",
       [](OciBuilder& b) {
         b.files["index.json"] = R"({"schemaVersion":2,"manifests":[],"manifests":[]})";
       }},
      {"schemaVersion", [](OciBuilder& b) { b.files["index.json"] = R"({"manifests":[]})"; }},
      {"no list 'manifests'",
       [](OciBuilder& b) { b.files["index.json"] = R"({"schemaVersion":2})"; }},
      {"also holds",
       [](OciBuilder& b) {
         b.files["index.json"] = R"({"schemaVersion":2,"manifests":[],"layers":[]})";
       }},
      {"calls itself",
       [](OciBuilder& b) {
         b.files["index.json"] = R"({"schemaVersion":2,"mediaType":"x/y","manifests":[]})";
       }},
      {"no image for linux/amd64",
       [](OciBuilder& b) { b.files["index.json"] = OciBuilder::index_of(""); }},
      {"not sha256:",
       [](OciBuilder& b) {
         b.files["index.json"] = OciBuilder::index_of(
             OciBuilder::descriptor(OciBuilder::kManifest, "sha256:../../etc/passwd", 1));
       }},
      {"no valid size",
       [](OciBuilder& b) {
         b.files["index.json"] = OciBuilder::index_of(
             R"({"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:)" +
             std::string(64, '0') + R"(","size":-1})");
       }},
      {"is missing: the image is incomplete",
       [](OciBuilder& b) {
         b.files["index.json"] = OciBuilder::index_of(
             OciBuilder::descriptor(OciBuilder::kManifest, "sha256:" + std::string(64, '0'), 1));
       }},
      {"nested deeper than 4",
       [](OciBuilder& b) {
         std::string index = OciBuilder::index_of("");
         for (int i = 0; i < 8; ++i) {
           index = OciBuilder::index_of(
               OciBuilder::descriptor(OciBuilder::kIndex, b.blob(index), index.size()));
         }
         b.files["index.json"] = index;
       }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.says);
    OciBuilder builder;
    builder.layer(small_tar()).seal();
    row.spoil(builder);
    const Result<std::string> digest = resolve(builder);
    REQUIRE_FALSE(digest);
    CAPTURE(digest.error().message());
    CHECK(digest.error().code() == Errc::ImageInvalid);
    CHECK(says(digest.error().message(), row.says));
  }
}

TEST_CASE("archive: compressed, cut off, doubled, with junk") {
  OciBuilder builder;
  builder.layer(small_tar()).seal();
  const std::string good = builder.archive();
  const auto open_error = [](const std::string& bytes) -> std::string {
    const TempDir dir;
    test::write_file(dir.file("a"), bytes);
    const UniqueFd file(::open(dir.file("a").c_str(), O_RDONLY | O_CLOEXEC));
    const auto layout = open_archive_layout(file.get());
    return layout ? "" : layout.error().message();
  };
  CHECK(open_error(good).empty());
  CHECK(says(open_error(""), "empty"));
  CHECK(says(open_error(test::gzip(good)), "the archive itself is compressed"));
  CHECK(says(open_error(test::zstd(good)), "the archive itself is compressed"));
  CHECK(says(open_error(good.substr(0, 2000)), "early"));
  CHECK(says(open_error(good + "x"), "follows the end"));
  TarWriter twice;
  twice.file("index.json", "{}").file("./index.json", "{}");
  CHECK(says(open_error(twice.finish()), "twice"));
  TarWriter linked;
  for (const auto& [name, data] : builder.files) {
    linked.file("./" + name, data);
  }
  CHECK(open_error(linked.hardlink("blobs/sha256/again", "index.json").finish()).empty());
  CHECK(says(open_error(std::string(4096, 'x')), "checksum"));
}

TEST_CASE("unpack: plain, gzip and zstd layers give the same tree") {
  const std::string lower = TarWriter().dir("d").file("d/a", "1").file("d/b", "2").finish();
  const std::string upper = TarWriter().whiteout("d", "a").file("d/c", "3").finish();
  for (const char* compression : {"", "gzip", "zstd"}) {
    CAPTURE(compression);
    OciBuilder builder;
    const std::string digest = builder.layer(lower, compression).layer(upper, compression).seal();
    const Result<std::string> tree =
        with_layout(builder, [&](Layout& layout) -> Result<std::string> {
          const TempDir root;
          ATE_ASSIGN(const UnpackReport report,
                     unpack_image(layout, digest,
                                  UniqueFd(::open(root.path().c_str(),
                                                  O_RDONLY | O_DIRECTORY | O_CLOEXEC))));
          CHECK(report.config.entrypoint == std::vector<std::string>{"/bin/sh"});
          CHECK(report.config.working_dir == "/w");
          CHECK(report.entries == 5);
          return test::Sandbox::describe(root.path());
        });
    REQUIRE(tree);
    CHECK(*tree == "d/ d755\nd/b -644 2\nd/c -644 3\n");
  }
}

TEST_CASE("unpack: anything that does not match its digest or size is refused") {
  // spec H15, H16
  const auto replace_blob = [](OciBuilder& b, const std::string& digest, const std::string& data) {
    b.files["blobs/sha256/" + digest.substr(7)] = data;
  };
  {
    OciBuilder builder;
    const std::string digest = builder.layer(small_tar()).seal();
    std::string other = small_tar();
    other[other.size() - 1024 - 512] ^= 1;  // one bit of the file's data
    replace_blob(builder, builder.layers[0].digest, other);
    CHECK(says(unpack_error(builder, digest), "damaged or was replaced"));
    replace_blob(builder, builder.layers[0].digest, small_tar() + std::string(512, '\0'));
    CHECK(says(unpack_error(builder, digest), "bytes, expected"));
    std::string zeros(small_tar().size(), 'z');
    replace_blob(builder, builder.layers[0].digest, zeros);
    CHECK(says(unpack_error(builder, digest), "has digest"));
    builder.files.erase("blobs/sha256/" + builder.layers[0].digest.substr(7));
    CHECK(says(unpack_error(builder, digest), "is missing"));
  }
  {
    OciBuilder builder;
    builder.layer(small_tar(), "gzip");
    builder.layers[0].diff_id = "sha256:" + std::string(64, '0');
    CHECK(says(unpack_error(builder, builder.seal()), "the content of blob"));
  }
  {
    OciBuilder builder;
    builder.layer(small_tar(), "gzip");
    builder.layers[0].media_type = OciBuilder::kLayer;
    CHECK(says(unpack_error(builder, builder.seal()), "the data is compressed"));
  }
  {
    OciBuilder builder;
    builder.layer(small_tar());
    builder.layers[0].media_type = "application/vnd.oci.image.layer.v1.tar+xz";
    CHECK(says(unpack_error(builder, builder.seal()), "which cannot be read"));
  }
  {
    OciBuilder builder;
    CHECK(says(unpack_error(builder, builder.seal()), "no files"));  // case T54
  }
  {
    OciBuilder builder;
    builder.layer(TarWriter().finish());
    CHECK(says(unpack_error(builder, builder.seal()), "no files"));
  }
  {
    OciBuilder builder;
    builder.layer(small_tar());
    builder.architecture = "arm64";
    CHECK(says(unpack_error(builder, builder.seal()), "linux/arm64, this host runs linux/amd64"));
  }
  {
    OciBuilder builder;
    for (int i = 0; i < 129; ++i) {
      builder.layer(small_tar());
    }
    CHECK(says(unpack_error(builder, builder.seal()), "more than 128 layers"));
  }
  {
    OciBuilder builder;
    builder.layer(small_tar()).seal();
    CHECK(says(unpack_error(builder, "sha256:" + std::string(64, '0')), "was replaced"));
  }
}

TEST_CASE("config: what an image says about its process is checked") {
  // spec H17
  struct Row {
    const char* process;
    const char* says;
  };

  const Row rows[] = {
      {R"({"Env":["NOEQUALS"]})", "NAME=VALUE"},
      {R"({"Env":["=x"]})", "NAME=VALUE"},
      {R"({"Env":["A\nB=x"]})", "NAME=VALUE"},
      {R"({"Env":["A=\u0000"]})", "NUL"},
      {R"({"Cmd":["a\u0000b"]})", "NUL"},
      {R"({"Entrypoint":"sh"})", "not a list"},
      {R"({"Entrypoint":[1]})", "not a string"},
      {R"({"User":7})", "not a string"},
      {R"({"User":"a\nb"})", "User"},
      {R"({"WorkingDir":"/proc/self/fd/7"})", "below /proc"},
      {R"({"WorkingDir":"/a/../proc/self/fd/7"})", "below /proc"},
      {R"({"WorkingDir":"/x\n"})", "control"},
      {R"({"StopSignal":"SIG TERM"})", "no signal"},
      {R"([])", "not an object"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.process);
    OciBuilder builder;
    builder.process = row.process;
    const Result<ImageConfig> config = parse_image_config(builder.config_text());
    REQUIRE_FALSE(config);
    CHECK(config.error().code() == Errc::ImageInvalid);
    CHECK(says(config.error().message(), row.says));
  }
  OciBuilder builder;
  builder.process =
      R"({"Entrypoint":null,"Cmd":["a",""],"Env":["A=b=c","D=x\ny"],"User":"u:g","WorkingDir":"a/./b/..//c","StopSignal":"SIGRTMIN+3","Labels":{"x":"y"}})";
  const Result<ImageConfig> config = parse_image_config(builder.config_text());
  REQUIRE(config);
  CHECK(config->process.entrypoint.empty());
  CHECK(config->process.cmd == std::vector<std::string>{"a", ""});
  CHECK(config->process.env == std::vector<std::string>{"A=b=c", "D=x\ny"});
  CHECK(config->process.working_dir == "/a/c");
  const Result<core::JsonValue> written = parse_json(config_to_json(config->process));
  REQUIRE(written);
  const Result<Config> again = config_from_json(*written);
  REQUIRE(again);
  CHECK(config_to_json(*again) == config_to_json(config->process));
}
