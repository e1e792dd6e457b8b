// spec 5.1, H12-H14 without libFuzzer: a fixed seed, so that a failure is found again.
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "ate/os/fs.hpp"
#include "image/oci.hpp"
#include "oci_builder.hpp"
#include "support/catch.hpp"
#include "support/skipped.hpp"
#include "tree_support.hpp"

using namespace ate;
using ate::test::Sandbox;
using ate::test::TarEntry;
using ate::test::TarWriter;

namespace {

constexpr unsigned kSeed = 20261130;
constexpr std::chrono::seconds kTimeLimit(10);

/// A layer with every kind of entry, built to look outside as soon as a byte of it changes.
std::vector<std::string> seeds(const std::string& outside) {
  TarEntry pax;
  pax.name = "p";
  pax.data = "pax";
  pax.pax = {
      {"path", "d/../" + std::string(120, 'p')}, {"mtime", "1.5"}, {"SCHILY.xattr.user.a", "b"}};
  TarEntry sparse;
  sparse.name = "sparse";
  sparse.data = "abcxyz";
  sparse.pax = {{"GNU.sparse.size", "1048576"}, {"GNU.sparse.map", "0,3,524288,3"}};
  TarEntry long_name;
  long_name.name = "././@LongLink";
  long_name.type = 'L';
  long_name.data = "d/" + std::string(150, 'l') + '\0';
  TarEntry fifo;
  fifo.name = "d/fifo";
  fifo.type = '6';
  const std::string tree = TarWriter()
                               .dir("d")
                               .file("d/f", std::string(700, 'f'))
                               .symlink("l", outside)
                               .symlink("u", "../../../../../../..")
                               .file("l/canary", "dead")
                               .hardlink("h", "d/f")
                               .add(fifo)
                               .add(pax)
                               .add(sparse)
                               .add(long_name)
                               .file("cut", "x")
                               .finish();
  const std::string removal = TarWriter()
                                  .hardlink("h2", "l/canary")
                                  .whiteout("d", "f")
                                  .whiteout("l", "canary")
                                  .whiteout("l", ".wh..opq")
                                  .whiteout("u", "x")
                                  .file("u/outside/canary", "dead")
                                  .finish();
  return {tree, removal};
}

class Mutator {
 public:
  std::string operator()(std::string bytes) {
    const std::size_t changes = 1 + pick(6);
    for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
      change(bytes);
    }
    if (pick(4) != 0) {
      repair(bytes);
    }
    return bytes;
  }

  std::size_t pick(std::size_t below) { return random_() % below; }

 private:
  void change(std::string& bytes) {
    static const std::vector<std::string> words = {"../",
                                                   "/",
                                                   "..",
                                                   ".wh.",
                                                   ".wh..wh..opq",
                                                   "0",
                                                   "7777777",
                                                   "\xff\xff\xff\xff",
                                                   "18446744073709551615",
                                                   "l/",
                                                   "u/",
                                                   std::string(4, '\0'),
                                                   "1",
                                                   "2",
                                                   "5",
                                                   "L",
                                                   "x",
                                                   "S",
                                                   "path=",
                                                   "linkpath="};
    const std::size_t at = pick(bytes.size());
    switch (pick(6)) {
      case 0:
        bytes[at] = static_cast<char>(random_());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << pick(8)));
        break;
      case 2: {
        const std::string& word = words[pick(words.size())];
        bytes.replace(at, std::min(word.size(), bytes.size() - at), word);
        break;
      }
      case 3:  // the type or a name of some header
        bytes[at / 512 * 512 + (pick(2) == 0 ? 156 : pick(100))] = "012356LKxgS./\0"[pick(14)];
        break;
      case 4:  // blocks swapped, doubled or dropped
        if (const std::size_t block = at / 512 * 512; block + 512 <= bytes.size()) {
          const std::string copy = bytes.substr(block, 512);
          if (pick(2) == 0) {
            bytes.erase(block, 512);
          }
          bytes.insert(pick(bytes.size() / 512 + 1) * 512, copy);
        }
        break;
      default:
        bytes.resize(pick(8) == 0 ? at : bytes.size());
    }
  }

  // Right checksums, or nearly every mutation would stop at the first header.
  static void repair(std::string& bytes) {
    for (std::size_t at = 0; at + 512 <= bytes.size(); at += 512) {
      if (bytes.compare(at + 257, 5, "ustar") == 0) {
        std::array<char, 512> block{};
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), 512, block.begin());
        bytes.replace(at, 512, TarWriter::checksum(block));
      }
    }
  }

  std::mt19937 random_{kSeed};
};

}  // namespace

TEST_CASE("fuzz: no mutation of a layer leaves the root or stops the reader for long") {
  if (::geteuid() != 0) {
    ATE_TEST_SKIPPED("not root");  // a mutation takes the user's own right to remove a directory
    return;
  }
  const Sandbox box;
  const auto start = std::chrono::steady_clock::now();
  Mutator mutate;
  unsigned accepted = 0;
  unsigned round = 0;
  const std::vector<std::string> layers = seeds(box.outside());
  // Bytes and entries are bounded, so a size that a mutation made huge costs nothing.
  const image::TreeLimits limits{200, 4 << 20};
  for (; round < 3000 && std::chrono::steady_clock::now() - start < kTimeLimit; ++round) {
    const std::string first = mutate.pick(3) == 0 ? layers[0] : mutate(layers[0]);
    const Status done = box.unpack({first, mutate(layers[1])}, limits);
    accepted += done ? 1 : 0;
    if (!done) {
      CAPTURE(round, done.error().message());
      CHECK(done.error().code() == Errc::ImageInvalid);
    }
    if (!box.untouched()) {
      FAIL("round " << round << " of seed " << kSeed << " left the root");
    }
    const UniqueFd parent(::open((box.root() + "/..").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(os::remove_tree_at(parent.get(), "root"));
    std::filesystem::create_directory(box.root());
  }
  INFO("rounds " << round << ", accepted " << accepted);
  CHECK(round > 100);
  CHECK(accepted > round / 50);
  CHECK(accepted < round);
}

TEST_CASE("fuzz: no mutation of a document or of compressed bytes is more than an error") {
  test::OciBuilder builder;
  builder.layer(TarWriter().file("f", "1").finish(), "gzip").seal();
  std::vector<std::string> texts;
  for (const auto& [name, data] : builder.files) {
    texts.push_back(data);
  }
  const std::string plain = TarWriter().file("f", std::string(3000, 'x')).finish();
  const std::string packed[] = {test::gzip(plain), test::zstd(plain)};
  Mutator mutate;
  unsigned good = 0;
  for (unsigned round = 0; round < 20'000; ++round) {
    std::string text = texts[mutate.pick(texts.size())];
    const std::size_t at = mutate.pick(text.size());
    text[at] = "{}[]\",:0\\u\xff-e."[mutate.pick(14)];
    if (mutate.pick(2) == 0) {
      text.erase(mutate.pick(text.size()), mutate.pick(20));
    }
    good += image::parse_index(text) ? 1 : 0;
    good += image::parse_manifest(text) ? 1 : 0;
    good += image::parse_image_config(text) ? 1 : 0;
  }
  CHECK(good > 0);
  for (unsigned round = 0; round < 4000; ++round) {
    const bool gzip = round % 2 == 0;
    std::string data = packed[gzip ? 0 : 1];
    for (std::size_t i = 0; i <= mutate.pick(4); ++i) {
      data[mutate.pick(data.size())] = static_cast<char>(mutate.pick(256));
    }
    image::MemorySource source(test::as_bytes(data));
    const auto stream = image::make_decompressor(
        source, gzip ? image::Compression::Gzip : image::Compression::Zstd);
    // At most 1000 times the input comes out of so little; a loop without progress would hang here.
    std::array<std::byte, 4096> buffer;
    for (int i = 0; i < 10'000; ++i) {
      const Result<std::size_t> got = stream->read(buffer);
      if (!got || *got == 0) {
        break;
      }
      CHECK(i < 9'999);
    }
  }
}
