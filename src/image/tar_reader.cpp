#include <algorithm>
#include <cstring>

#include "ate/util/log.hpp"
#include "image/limits.hpp"
#include "image/tar.hpp"

namespace ate::image {

namespace {

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Errc::ImageInvalid, "tar: " + what);
}

bool all_zero(std::span<const char> bytes) {
  return std::ranges::all_of(bytes, [](char c) { return c == 0; });
}

std::uint64_t padding_of(std::uint64_t size) {
  return (tar::kBlock - size % tar::kBlock) % tar::kBlock;
}

bool is_extension(char type) {
  return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

Result<EntryType> entry_type(const tar::Header& header, const std::string& name) {
  switch (header.type) {
    case '\0':
      // Before ustar a directory was a file whose name ends with a slash.
      return name.ends_with('/') ? EntryType::Directory : EntryType::Regular;
    case '0':
    case '7':
    case 'S':
      return EntryType::Regular;
    case '1':
      return EntryType::HardLink;
    case '2':
      return EntryType::Symlink;
    case '3':
      return EntryType::Character;
    case '4':
      return EntryType::Block;
    case '5':
      return EntryType::Directory;
    case '6':
      return EntryType::Fifo;
    default:
      return invalid("'" + escape_text(name, 200) + "' is of an unknown type");
  }
}

std::string shown(const Entry& entry) {
  return "'" + escape_text(entry.name, 200) + "'";
}

Result<std::uint32_t> old_id(std::uint64_t id, const tar::Extended& extended, const char* key) {
  if (id <= kMaxId) {
    return static_cast<std::uint32_t>(id);
  }
  const bool replaced = extended.pax && std::ranges::any_of(*extended.pax, [&](const auto& record) {
                          return record.first == key && !record.second.empty();
                        });
  if (!replaced) {
    return invalid(std::string(key) + " " + std::to_string(id) + " is above 2147483647");
  }
  return 0;
}

}  // namespace

Status TarReader::read_exactly(std::span<char> out) {
  while (!out.empty()) {
    ATE_ASSIGN(const std::size_t got, source_.read(std::as_writable_bytes(out)));
    if (got == 0) {
      return invalid("the archive ends early");
    }
    position_ += got;
    out = out.subspan(got);
  }
  return {};
}

// false: the archive ended exactly here.
Result<bool> TarReader::read_block(tar::Block& block) {
  ATE_ASSIGN(const std::size_t got, source_.read(std::as_writable_bytes(std::span(block))));
  if (got == 0) {
    return false;
  }
  position_ += got;
  ATE_TRY(read_exactly(std::span(block).subspan(got)));
  return true;
}

Status TarReader::skip_rest_of_entry() {
  const std::uint64_t count = data_left_ + padding_;
  if (count > 0) {
    ATE_TRY(source_.skip(count));
    position_ += count;
  }
  data_left_ = 0;
  padding_ = 0;
  return {};
}

Result<std::size_t> TarReader::read(std::span<std::byte> out) {
  if (data_left_ == 0) {
    return 0;
  }
  const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(data_left_, out.size()));
  ATE_ASSIGN(const std::size_t got, source_.read(out.first(want)));
  if (got == 0) {
    return invalid("the archive ends early");
  }
  position_ += got;
  data_left_ -= got;
  return got;
}

// After the end mark only zeros may follow (records are padded to 10 KiB): what another reader
// could take for a second archive is refused.
Status TarReader::check_rest() {
  ended_ = true;
  std::array<char, 16384> buffer{};
  while (true) {
    ATE_ASSIGN(const std::size_t got, source_.read(std::as_writable_bytes(std::span(buffer))));
    if (got == 0) {
      return {};
    }
    if (!all_zero(std::span(buffer).first(got))) {
      return invalid("something follows the end of the archive");
    }
  }
}

Result<std::string> TarReader::read_extension(const tar::Header& header) {
  if (header.size > kMaxPaxBytes) {
    return invalid("an extended header is larger than 1 MiB");
  }
  std::string data(static_cast<std::size_t>(header.size), '\0');
  ATE_TRY(read_exactly(data));
  tar::Block padding;
  ATE_TRY(
      read_exactly(std::span(padding).first(static_cast<std::size_t>(padding_of(header.size)))));
  return data;
}

Status TarReader::collect(const tar::Header& header, tar::Extended& extended) {
  ATE_ASSIGN(std::string data, read_extension(header));
  if (header.type == 'x' || header.type == 'g') {
    ATE_ASSIGN(tar::Records records, tar::parse_pax(data));
    if (header.type == 'x') {
      if (extended.pax) {
        return invalid("two pax headers before one entry");
      }
      extended.pax = std::move(records);
      return {};
    }
    // containerd ignores global headers, POSIX does not: one that would matter is refused.
    for (const auto& [key, value] : records) {
      if (key != "comment" && key != "hdrcharset" && !key.starts_with("atime") &&
          !key.starts_with("ctime")) {
        return invalid("a global pax header sets '" + escape_text(key, 60) + "'");
      }
    }
    return {};
  }
  data.resize(std::min(data.size(), data.find('\0')));
  std::optional<std::string>& slot = header.type == 'L' ? extended.gnu_name : extended.gnu_link;
  if (slot) {
    return invalid("two GNU names before one entry");
  }
  slot = std::move(data);
  return {};
}

Status TarReader::read_old_sparse(const tar::Block& first, Entry& entry) {
  std::vector<std::uint64_t> numbers;
  const auto take = [&](const tar::Block& block, std::size_t offset, std::size_t count) -> Status {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view pair(block.data() + offset + i * 24, 24);
      if (pair[0] == '\0') {
        return {};
      }
      for (const std::size_t at : {std::size_t{0}, std::size_t{12}}) {
        ATE_ASSIGN(const std::uint64_t number,
                   tar::parse_number(pair.substr(at, 12), "the sparse map"));
        numbers.push_back(number);
      }
    }
    return {};
  };
  ATE_TRY(take(first, 386, 4));
  ATE_ASSIGN(entry.size, tar::parse_number(std::string_view(first.data() + 483, 12), "the size"));
  bool more = first[482] != 0;
  while (more) {
    if (numbers.size() / 2 > kMaxSparseRegions) {
      return invalid("the sparse map is too large");
    }
    tar::Block block;
    ATE_TRY(read_exactly(block));
    ATE_TRY(take(block, 0, 21));
    more = block[504] != 0;
  }
  return tar::set_extents(entry, numbers);
}

// Format 1.0: the data begins with decimal numbers, one a line, padded to a block.
Status TarReader::read_sparse_map(Entry& entry) {
  std::vector<std::uint64_t> numbers;
  std::optional<std::uint64_t> expected;
  std::string digits;
  std::uint64_t used = 0;
  while (!expected || numbers.size() < *expected * 2) {
    if (used + tar::kBlock > entry.stored) {
      return invalid("the sparse map does not end");
    }
    tar::Block block;
    ATE_TRY(read_exactly(block));
    used += tar::kBlock;
    for (const char c : block) {
      if (expected && numbers.size() == *expected * 2) {
        break;  // the rest of the block is padding
      }
      if (c != '\n') {
        digits += c;
        if (digits.size() > 20) {
          return invalid("the sparse map is damaged");
        }
        continue;
      }
      ATE_ASSIGN(const std::uint64_t number, tar::parse_decimal(digits, "the sparse map"));
      digits.clear();
      if (expected) {
        numbers.push_back(number);
      } else if (number > kMaxSparseRegions) {
        return invalid("the sparse map is too large");
      } else {
        expected = number;
      }
    }
  }
  entry.stored -= used;
  return tar::set_extents(entry, numbers);
}

Status TarReader::make_entry(const tar::Header& header, const tar::Block& block,
                             const tar::Extended& extended, Entry& entry) {
  entry.name = header.name;
  entry.link = header.link;
  entry.mode = static_cast<std::uint32_t>(header.mode & 07777U);
  entry.mtime_seconds = header.mtime;
  entry.stored = header.size;
  // A value that pax replaces may hold anything in the old field.
  ATE_ASSIGN(entry.uid, old_id(header.uid, extended, "uid"));
  ATE_ASSIGN(entry.gid, old_id(header.gid, extended, "gid"));
  if (header.device_major > 0xfff || header.device_minor > 0xfffff) {
    return invalid(shown(entry) + " has a device number out of range");
  }
  entry.device_major = static_cast<std::uint32_t>(header.device_major);
  entry.device_minor = static_cast<std::uint32_t>(header.device_minor);
  tar::SparseRecords sparse;
  ATE_TRY(tar::apply_extended(extended, entry, sparse));
  // Writers put 0 or the largest octal number where the size is only in the pax header; anything
  // else is an archive that two readers would cut differently (CVE-2025-62518).
  constexpr std::uint64_t kOctalMax = 077777777777;
  if (entry.stored != header.size && header.size != 0 && header.size != kOctalMax) {
    return invalid(shown(entry) + " has two different sizes");
  }
  ATE_ASSIGN(entry.type, entry_type(header, entry.name));
  if (entry.type != EntryType::Regular && entry.stored != 0) {
    return invalid(shown(entry) + " is no file but has a size");  // readers disagree on the data
  }
  if (entry.stored > kMaxFileBytes) {
    return invalid(shown(entry) + " is larger than 256 GiB");
  }
  if (sparse.present && (header.type == 'S' || entry.type != EntryType::Regular)) {
    return invalid(shown(entry) + " is described as sparse in two ways, or is no file");
  }
  const std::uint64_t data = entry.stored;
  entry.size = entry.stored;
  if (header.type == 'S') {
    ATE_TRY(read_old_sparse(block, entry));
  } else if (sparse.present) {
    entry.size = sparse.size.value_or(entry.stored);
    ATE_TRY(sparse.map_in_data ? read_sparse_map(entry) : tar::set_extents(entry, sparse.numbers));
  }
  if (entry.size > kMaxFileBytes) {
    return invalid(shown(entry) + " is larger than 256 GiB");
  }
  data_left_ = entry.stored;
  padding_ = padding_of(data);
  return {};
}

Result<bool> TarReader::next(Entry& entry) {
  if (ended_) {
    return false;
  }
  ATE_TRY(skip_rest_of_entry());
  entry = Entry();
  tar::Extended extended;
  while (true) {
    tar::Block block;
    ATE_ASSIGN(const bool more, read_block(block));
    if (!more || all_zero(block)) {
      if (extended.pax || extended.gnu_name || extended.gnu_link) {
        return invalid("the archive ends after an extended header");
      }
      ATE_TRY(check_rest());
      return false;
    }
    ATE_ASSIGN(const tar::Header header, tar::parse_header(block));
    if (is_extension(header.type)) {
      ATE_TRY(collect(header, extended));
      continue;
    }
    ATE_TRY(make_entry(header, block, extended, entry));
    return true;
  }
}

}  // namespace ate::image
