#include "image/tar.hpp"

#include <optional>
#include <string>
#include <vector>

#include "oci_builder.hpp"
#include "support/catch.hpp"
#include "tree_support.hpp"

using namespace ate;
using namespace ate::image;
using ate::test::as_bytes;
using ate::test::TarEntry;
using ate::test::TarWriter;

namespace {

struct Read {
  std::vector<Entry> entries;
  std::vector<std::string> data;
  std::string error;
};

Read read_all(const std::string& archive) {
  Read out;
  MemorySource source(as_bytes(archive));
  TarReader reader(source);
  Entry entry;
  while (true) {
    const Result<bool> more = reader.next(entry);
    if (!more) {
      out.error = more.error().message();
      return out;
    }
    if (!*more) {
      return out;
    }
    std::string data(static_cast<std::size_t>(std::min<std::uint64_t>(entry.stored, 1 << 20)), 0);
    std::size_t filled = 0;
    while (filled < data.size()) {
      const Result<std::size_t> got =
          reader.read(std::as_writable_bytes(std::span(data)).subspan(filled));
      if (!got) {
        out.error = got.error().message();
        return out;
      }
      filled += *got;
    }
    out.entries.push_back(entry);
    out.data.push_back(data);
  }
}

TarEntry named(const std::string& name) {
  TarEntry entry;
  entry.name = name;
  return entry;
}

void refuses(const std::string& archive, const char* says) {
  const Read read = read_all(archive);
  CAPTURE(says, read.error);
  CHECK(read.error.find(says) != std::string::npos);
}

}  // namespace

TEST_CASE("tar: every field of a plain entry") {
  TarEntry entry = named("dir/file");
  entry.data = std::string(1000, 'x');
  entry.mode = 04755;
  entry.uid = 1000;
  entry.gid = 2'000'000'000;  // base-256
  entry.mtime = -5;
  const Read read = read_all(TarWriter().add(entry).symlink("s", "t").dir("d").finish());
  REQUIRE(read.error.empty());
  REQUIRE(read.entries.size() == 3);
  const Entry& first = read.entries[0];
  CHECK(first.name == "dir/file");
  CHECK(first.mode == 04755);
  CHECK(first.uid == 1000);
  CHECK(first.gid == 2'000'000'000);
  CHECK(first.mtime_seconds == -5);
  CHECK(first.size == 1000);
  CHECK(read.data[0] == entry.data);
  CHECK(read.entries[1].type == EntryType::Symlink);
  CHECK(read.entries[1].link == "t");
  CHECK(read.entries[2].type == EntryType::Directory);
}

TEST_CASE("tar: pax records replace the header's fields") {
  TarEntry entry = named("short");
  entry.data = "abc";
  const std::string long_name = "p/" + std::string(200, 'n') + "/\xc3\xa4\xff\x01";
  const std::string capability("\x01\0\0\x02\0\n=\0", 8);
  entry.pax = {{"path", long_name},
               {"uid", "70000"},
               {"gid", "70001"},
               {"mtime", "1700000000.25"},
               {"atime", "1"},
               {"hdrcharset", "BINARY"},
               {"SCHILY.xattr.user.a", "1"},
               {"SCHILY.xattr.security.capability", capability}};
  const Read read = read_all(TarWriter().add(entry).file("next", "z").finish());
  REQUIRE(read.error.empty());
  const Entry& first = read.entries[0];
  CHECK(first.name == long_name);
  CHECK(first.uid == 70000);
  CHECK(first.gid == 70001);
  CHECK(first.mtime_nanoseconds == 250'000'000);
  REQUIRE(first.xattrs.size() == 2);
  CHECK(first.xattrs[1].second == capability);
  CHECK(read.entries[1].name == "next");
  CHECK(read.entries[1].xattrs.empty());
}

TEST_CASE("tar: negative and fractional pax times") {
  const auto time = tar::parse_pax_time("-1.25");
  REQUIRE(time);
  CHECK(time->first == -2);
  CHECK(time->second == 750'000'000);
  CHECK(tar::parse_pax_time("12.0000000001234")->second == 0);
  for (const char* bad : {"", "-", "a", "1.x", "1e3", ".5", "99999999999999999999"}) {
    CHECK_FALSE(tar::parse_pax_time(bad));
  }
}

TEST_CASE("tar: GNU long names and a ustar prefix") {
  const std::string name = "g/" + std::string(300, 'l');
  TarEntry long_name = named("././@LongLink");
  long_name.type = 'L';
  long_name.data = name + '\0';
  TarEntry long_link = long_name;
  long_link.type = 'K';
  long_link.data = std::string(150, 't') + '\0';
  TarEntry link = named("cut");
  link.type = '2';
  std::string prefixed = TarWriter::header(named("base"));
  std::array<char, 512> block{};
  std::copy_n(prefixed.begin(), 512, block.begin());
  const std::string prefix = "some/prefix";
  std::copy(prefix.begin(), prefix.end(), block.begin() + 345);
  const Read read = read_all(
      TarWriter().add(long_name).add(long_link).add(link).raw(TarWriter::checksum(block)).finish());
  REQUIRE(read.error.empty());
  CHECK(read.entries[0].name == name);
  CHECK(read.entries[0].link == std::string(150, 't'));
  CHECK(read.entries[1].name == "some/prefix/base");
}

TEST_CASE("tar: sparse files in all four formats read the same") {
  // 1 MiB file with "abc" at 0 and "xyz" at 524288.
  const std::vector<std::pair<std::string, std::string>> zero = {
      {"GNU.sparse.size", "1048576"},  {"GNU.sparse.numblocks", "2"},
      {"GNU.sparse.offset", "0"},      {"GNU.sparse.numbytes", "3"},
      {"GNU.sparse.offset", "524288"}, {"GNU.sparse.numbytes", "3"}};
  const std::vector<std::pair<std::string, std::string>> one = {{"GNU.sparse.size", "1048576"},
                                                                {"GNU.sparse.map", "0,3,524288,3"}};
  const std::vector<std::pair<std::string, std::string>> inside = {
      {"GNU.sparse.major", "1"},
      {"GNU.sparse.minor", "0"},
      {"GNU.sparse.name", "sparse"},
      {"GNU.sparse.realsize", "1048576"}};
  std::vector<std::string> archives;
  for (const auto& pax : {zero, one}) {
    TarEntry entry = named("sparse");
    entry.data = "abcxyz";
    entry.pax = pax;
    archives.push_back(TarWriter().add(entry).file("next", "n").finish());
  }
  TarEntry entry = named("GNUSparseFile.1/sparse");
  entry.data = "2\n0\n3\n524288\n3\n";
  entry.data.resize(512);
  entry.data += "abcxyz";
  entry.pax = inside;
  archives.push_back(TarWriter().add(entry).file("next", "n").finish());

  TarEntry old = named("sparse");
  old.type = 'S';
  old.size = 6;
  std::array<char, 512> block{};
  const std::string plain = TarWriter::header(old);
  std::copy_n(plain.begin(), 512, block.begin());
  const auto octal = [&](std::size_t at, unsigned long value) {
    std::snprintf(block.data() + at, 12, "%011lo", value);
  };
  octal(386, 0);
  octal(398, 3);
  octal(410, 524288);
  octal(422, 3);
  octal(483, 1048576);
  std::string data = "abcxyz";
  data.resize(512);
  archives.push_back(
      TarWriter().raw(TarWriter::checksum(block)).raw(data).file("next", "n").finish());

  for (const std::string& archive : archives) {
    const Read read = read_all(archive);
    REQUIRE(read.error.empty());
    REQUIRE(read.entries.size() == 2);
    const Entry& sparse = read.entries[0];
    CHECK(sparse.name == "sparse");
    CHECK(sparse.size == 1048576);
    CHECK(sparse.sparse);
    REQUIRE(sparse.extents.size() == 2);
    CHECK(sparse.extents[1].offset == 524288);
    CHECK(read.data[0] == "abcxyz");
    CHECK(read.data[1] == "n");
  }
}

TEST_CASE("tar: sparse maps that lie are refused") {
  // spec H12
  const auto with_map = [](const std::string& map) {
    TarEntry entry;
    entry.name = "s";
    entry.data = "abcxyz";
    entry.pax = {{"GNU.sparse.size", "100"}, {"GNU.sparse.map", map}};
    return TarWriter().add(entry).finish();
  };
  refuses(with_map("0,3,2,3"), "overlaps");
  refuses(with_map("50,3,0,3"), "overlaps");
  refuses(with_map("0,3,99,3"), "leaves");
  refuses(with_map("0,3,18446744073709551615,3"), "leaves");
  refuses(with_map("0,3"), "disagrees");
  refuses(with_map("0,3,10"), "odd");
  refuses(with_map("0,3,,3"), "not a number");
  refuses(with_map("0,3,10,9223372036854775807"), "leaves");
  TarEntry endless = named("s");
  endless.data = "9223372036854775807\n";
  endless.data.resize(512);
  endless.pax = {{"GNU.sparse.major", "1"}, {"GNU.sparse.minor", "0"}};
  refuses(TarWriter().add(endless).finish(), "too large");
  endless.data = "60000\n";
  endless.data.resize(512);
  refuses(TarWriter().add(endless).finish(), "sparse map");
}

TEST_CASE("tar: two readings of one archive are refused") {
  // spec H13, H14
  TarEntry sizes = named("x");
  sizes.data = std::string(512, 'a');
  sizes.size = 512;
  sizes.pax = {{"size", "0"}};
  refuses(TarWriter().add(sizes).finish(), "two different sizes");
  sizes.size = 0;
  sizes.pax = {{"size", "512"}};
  CHECK(read_all(TarWriter().add(sizes).finish()).error.empty());

  for (const char type : {'1', '2', '3', '5', '6'}) {
    TarEntry entry = named("x");
    entry.type = type;
    entry.link = "y";
    entry.size = 512;
    refuses(TarWriter().add(entry).file("y", "").finish(), "has a size");
  }
  TarEntry both = named("x");
  both.pax = {{"path", "other"}};
  TarEntry long_name = named("././@LongLink");
  long_name.type = 'L';
  long_name.data = "name";
  refuses(TarWriter().add(long_name).add(both).finish(), "both a GNU and a pax");
  refuses(TarWriter().add(long_name).add(long_name).add(named("x")).finish(), "two GNU names");

  const std::string good = TarWriter().file("a", "b").finish();
  CHECK(read_all(good).error.empty());
  CHECK(read_all(good + std::string(9000, '\0')).error.empty());
  refuses(good + "junk", "follows the end");
  refuses(good + good, "follows the end");
  refuses(TarWriter().file("a", "b").bytes() + std::string(512, '\0') + good, "follows the end");
  CHECK(read_all(TarWriter().file("a", "b").bytes()).error.empty());
  for (const std::size_t cut : {std::size_t{100}, std::size_t{511}, std::size_t{600}}) {
    refuses(good.substr(0, cut), "early");
  }
  TarEntry last;
  last.type = 'x';
  last.data = TarWriter::pax_record("path", "n");
  refuses(TarWriter().add(last).finish(), "after an extended header");
  refuses(TarWriter().add(last).add(last).add(named("x")).finish(), "two pax headers");
}

TEST_CASE("tar: damaged headers and numbers out of range are refused") {
  std::string flipped = TarWriter().file("a", "b").finish();
  flipped[0] = 'b';
  refuses(flipped, "checksum");
  refuses(std::string(512, 'x'), "checksum");

  for (const std::uint64_t id : {0x80000000ULL, 0xffffffffULL}) {  // spec H9
    TarEntry owner = named("x");
    owner.uid = id;
    refuses(TarWriter().add(owner).finish(), "above 2147483647");
    TarEntry pax = named("x");
    pax.pax = {{"gid", std::to_string(id)}};
    refuses(TarWriter().add(pax).finish(), "above 2147483647");
    owner.pax = {{"uid", "7"}};
    const Read read = read_all(TarWriter().add(owner).finish());
    REQUIRE(read.error.empty());
    CHECK(read.entries[0].uid == 7);
  }
  TarEntry negative = named("x");
  negative.pax = {{"uid", "-1"}};
  refuses(TarWriter().add(negative).finish(), "not a number");
  TarEntry huge = named("x");
  huge.size = INT64_MAX;
  refuses(TarWriter().add(huge).finish(), "256 GiB");
  TarEntry nul = named("x");
  nul.pax = {{"path", std::string("a\0b", 3)}};
  refuses(TarWriter().add(nul).finish(), "NUL");
  TarEntry kind = named("x");
  kind.type = 'Z';
  refuses(TarWriter().add(kind).finish(), "unknown type");
  TarEntry global;
  global.type = 'g';
  global.data = TarWriter::pax_record("path", "evil");
  refuses(TarWriter().add(global).add(named("x")).finish(), "global pax header");
  global.data = TarWriter::pax_record("comment", "a git archive");
  CHECK(read_all(TarWriter().add(global).add(named("x")).finish()).error.empty());
  TarEntry big;
  big.type = 'x';
  big.data = TarWriter::pax_record("comment", std::string(2'000'000, 'c'));
  refuses(TarWriter().add(big).add(named("x")).finish(), "1 MiB");
}

TEST_CASE("tar: pax records with wrong lengths are refused") {
  for (const std::string& data :
       {std::string("5 a=b\n"), std::string("7 a=b\n"), std::string("99 a=b\n"),
        std::string("a=b\n"), std::string("6 ab\n\n"), std::string("0 a=b\n"),
        std::string("-6 a=b\n"), std::string("6 a=bc"), std::string("5 =b\n"),
        std::string("18446744073709551616 a=b\n"), std::string("000000006 a=b\n")}) {
    CAPTURE(data);
    CHECK_FALSE(tar::parse_pax(data));
  }
  CHECK(tar::parse_pax("6 a=b\n6 c=d\n")->size() == 2);
}

TEST_CASE("decompressor: gzip and zstd, many members, and everything that is not right") {
  const std::string plain = TarWriter().file("a", std::string(100'000, 'x')).finish();
  const auto undo = [](const std::string& data, Compression kind) -> Result<std::string> {
    MemorySource source(as_bytes(data));
    const std::unique_ptr<ByteSource> inner = make_decompressor(source, kind);
    std::string out;
    std::string buffer(1000, '\0');
    while (true) {
      ATE_ASSIGN(const std::size_t got, inner->read(std::as_writable_bytes(std::span(buffer))));
      if (got == 0) {
        return out;
      }
      out.append(buffer, 0, got);
    }
  };
  CHECK(undo(plain, Compression::None) == plain);
  for (const Compression kind : {Compression::Gzip, Compression::Zstd}) {
    const std::string packed = kind == Compression::Gzip ? test::gzip(plain) : test::zstd(plain);
    CHECK(undo(packed, kind) == plain);
    CHECK(undo(packed + packed, kind) == plain + plain);
    CHECK_FALSE(undo(packed.substr(0, packed.size() - 1), kind));
    CHECK_FALSE(undo(packed.substr(0, packed.size() / 2), kind));
    CHECK_FALSE(undo(packed + "junk", kind));
    CHECK_FALSE(undo("", kind));
    CHECK_FALSE(undo(plain, kind));
    CHECK_FALSE(undo(packed, Compression::None));
    CHECK_FALSE(undo(packed, kind == Compression::Gzip ? Compression::Zstd : Compression::Gzip));
    std::string damaged = packed;
    damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);
    if (kind == Compression::Gzip) {
      CHECK_FALSE(undo(damaged, kind));
    }
  }
  // A skippable frame is no data (zstd:chunked ends with one).
  const std::string skippable("\x50\x2a\x4d\x18\x04\0\0\0abcd", 12);
  CHECK(undo(test::zstd(plain) + skippable, Compression::Zstd) == plain);
}
