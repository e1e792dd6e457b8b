#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ate/util/result.hpp"
#include "image/stream.hpp"

namespace ate::image {

// A tar reader of our own, not libarchive's: names are bytes here (libarchive converts them by the
// locale, which a static binary may not have), two readings of one archive are refused instead of
// guessed at (size in pax and ustar, trailing junk), and libarchive would bring libxml2 and ICU
// into the static link.

enum class EntryType : std::uint8_t {
  Regular,
  HardLink,
  Symlink,
  Character,
  Block,
  Directory,
  Fifo
};

/// Part of a sparse file that has data.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

struct Entry {
  std::string name;  // bytes as in the archive, no NUL
  std::string link;  // target of a symlink or hardlink
  EntryType type = EntryType::Regular;
  std::uint32_t mode = 0;  // 07777
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int64_t mtime_seconds = 0;
  std::uint32_t mtime_nanoseconds = 0;
  std::uint64_t size = 0;    // of the file
  std::uint64_t stored = 0;  // bytes of data in the archive
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  bool sparse = false;
  std::vector<Extent> extents;  // only when sparse: in order, `stored` bytes in all
  std::vector<std::pair<std::string, std::string>> xattrs;
};

namespace tar {

inline constexpr std::size_t kBlock = 512;
using Block = std::array<char, kBlock>;

/// Fields of one 512-byte header, before any extended header is applied.
struct Header {
  char type = '0';
  std::string name;
  std::string link;
  std::uint64_t mode = 0;
  std::uint64_t uid = 0;
  std::uint64_t gid = 0;
  std::uint64_t size = 0;
  std::int64_t mtime = 0;
  std::uint64_t device_major = 0;
  std::uint64_t device_minor = 0;
};

/// Checks the checksum and reads the fields.
[[nodiscard]] Result<Header> parse_header(const Block& block);
/// Octal (space or NUL padded) or GNU base-256; negative values are refused.
[[nodiscard]] Result<std::uint64_t> parse_number(std::string_view field, const char* what);
/// The same for times, which may be negative.
[[nodiscard]] Result<std::int64_t> parse_time(std::string_view field);

/// Records of a pax header in order of appearance, lengths checked.
using Records = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] Result<Records> parse_pax(std::string_view data);
/// `[-]seconds[.fraction]`
[[nodiscard]] Result<std::pair<std::int64_t, std::uint32_t>> parse_pax_time(
    const std::string& text);
[[nodiscard]] Result<std::uint64_t> parse_decimal(std::string_view text, const std::string& what);

/// What the extended headers before an entry said.
struct Extended {
  std::optional<std::string> gnu_name;  // type L
  std::optional<std::string> gnu_link;  // type K
  std::optional<Records> pax;           // type x
};

/// Sparse description gathered from pax records.
struct SparseRecords {
  bool present = false;
  bool map_in_data = false;  // format 1.0
  std::string name;          // GNU.sparse.name, "" = none
  std::optional<std::uint64_t> size;
  std::vector<std::uint64_t> numbers;  // offset, length, offset, length, ...
};

/// Applies `extended` to `entry`; `sparse` gets what describes a sparse file.
[[nodiscard]] Status apply_extended(const Extended& extended, Entry& entry, SparseRecords& sparse);
/// Makes the extents of `entry` from number pairs and checks them against size and stored bytes.
[[nodiscard]] Status set_extents(Entry& entry, const std::vector<std::uint64_t>& numbers);

}  // namespace tar

/// Reads one archive from front to back. `source` is borrowed.
class TarReader {
 public:
  explicit TarReader(ByteSource& source) : source_(source) {}

  /// The next entry; false after the last one, when the rest was checked to be zeros. Data of the
  /// entry before that was not read is passed over. ImageInvalid names what is wrong.
  [[nodiscard]] Result<bool> next(Entry& entry);
  /// Stored data of the current entry; 0 at its end.
  [[nodiscard]] Result<std::size_t> read(std::span<std::byte> out);

  /// Where the data of the current entry starts in the archive.
  [[nodiscard]] std::uint64_t data_offset() const noexcept { return position_; }

 private:
  [[nodiscard]] Result<bool> read_block(tar::Block& block);
  [[nodiscard]] Status read_exactly(std::span<char> out);
  [[nodiscard]] Result<std::string> read_extension(const tar::Header& header);
  [[nodiscard]] Status check_rest();
  [[nodiscard]] Status skip_rest_of_entry();
  [[nodiscard]] Status collect(const tar::Header& header, tar::Extended& extended);
  [[nodiscard]] Status make_entry(const tar::Header& header, const tar::Block& block,
                                  const tar::Extended& extended, Entry& entry);
  [[nodiscard]] Status read_old_sparse(const tar::Block& block, Entry& entry);
  [[nodiscard]] Status read_sparse_map(Entry& entry);

  ByteSource& source_;
  std::uint64_t position_ = 0;
  std::uint64_t data_left_ = 0;
  std::uint64_t padding_ = 0;
  bool ended_ = false;
};

}  // namespace ate::image
