#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ate::test {

/// One entry as a test wants it in the archive: nothing is checked, so that wrong ones can be made.
struct TarEntry {
  std::string name;
  char type = '0';
  std::string data;
  std::string link;
  std::uint64_t mode = 0644;
  std::uint64_t uid = ::geteuid();  // so that a plain user can unpack it
  std::uint64_t gid = ::getegid();
  std::int64_t mtime = 1'700'000'000;
  unsigned device_major = 0;
  unsigned device_minor = 0;
  std::int64_t size = -1;  // in the header; -1 = of the data
  std::vector<std::pair<std::string, std::string>> pax;
};

/// A tiny tar writer: ustar headers, pax records where asked for, base-256 where octal is too
/// short.
class TarWriter {
 public:
  TarWriter& add(const TarEntry& entry) {
    if (!entry.pax.empty()) {
      TarEntry header;
      header.name = "PaxHeaders/x";
      header.type = 'x';
      for (const auto& [key, value] : entry.pax) {
        header.data += pax_record(key, value);
      }
      add_plain(header);
    }
    add_plain(entry);
    return *this;
  }

  TarWriter& file(const std::string& name, const std::string& data, std::uint64_t mode = 0644) {
    TarEntry entry;
    entry.name = name;
    entry.data = data;
    entry.mode = mode;
    return add(entry);
  }

  TarWriter& dir(const std::string& name, std::uint64_t mode = 0755) {
    TarEntry entry;
    entry.name = name + "/";
    entry.type = '5';
    entry.mode = mode;
    return add(entry);
  }

  TarWriter& symlink(const std::string& name, const std::string& target) {
    return link_entry('2', name, target);
  }

  TarWriter& hardlink(const std::string& name, const std::string& target) {
    return link_entry('1', name, target);
  }

  TarWriter& whiteout(const std::string& directory, const std::string& name) {
    return file((directory.empty() ? "" : directory + "/") + ".wh." + name, "");
  }

  /// Bytes as they are.
  TarWriter& raw(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }

  /// Everything so far, without the end mark.
  [[nodiscard]] const std::string& bytes() const { return out_; }

  /// The archive: with two zero blocks.
  [[nodiscard]] std::string finish() const { return out_ + std::string(1024, '\0'); }

  static std::string pax_record(const std::string& key, const std::string& value) {
    const std::string body = " " + key + "=" + value + "\n";
    std::size_t length = body.size() + 1;
    while (std::to_string(length).size() + body.size() != length) {
      ++length;
    }
    return std::to_string(length) + body;
  }

  /// One header block with a right checksum.
  static std::string header(const TarEntry& entry) {
    std::array<char, 512> block{};
    const auto text = [&](std::size_t at, std::size_t length, std::string_view value) {
      std::memcpy(block.data() + at, value.data(), std::min(length, value.size()));
    };
    text(0, 100, entry.name);
    number(block.data() + 100, 8, entry.mode);
    number(block.data() + 108, 8, entry.uid);
    number(block.data() + 116, 8, entry.gid);
    const std::uint64_t size = entry.size >= 0 ? static_cast<std::uint64_t>(entry.size)
                                               : static_cast<std::uint64_t>(entry.data.size());
    number(block.data() + 124, 12, size);
    if (entry.mtime >= 0) {
      number(block.data() + 136, 12, static_cast<std::uint64_t>(entry.mtime));
    } else {
      std::memset(block.data() + 136, 0xff, 12);
      binary(block.data() + 136, 12, static_cast<std::uint64_t>(entry.mtime), '\xff');
    }
    block[156] = entry.type;
    text(157, 100, entry.link);
    text(257, 8, std::string_view("ustar\00000", 8));
    number(block.data() + 329, 8, entry.device_major);
    number(block.data() + 337, 8, entry.device_minor);
    return checksum(block);
  }

  /// `block` with its checksum field filled in.
  static std::string checksum(std::array<char, 512> block) {
    std::memset(block.data() + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : block) {
      sum += static_cast<unsigned char>(c);
    }
    std::snprintf(block.data() + 148, 8, "%06o", sum);
    block[155] = ' ';
    return std::string(block.data(), block.size());
  }

 private:
  static void binary(char* field, std::size_t length, std::uint64_t value, char first) {
    for (std::size_t i = 0; i < 8; ++i) {
      field[length - 1 - i] = static_cast<char>(value >> (8 * i));
    }
    field[0] = first;
  }

  static void number(char* field, std::size_t length, std::uint64_t value) {
    const std::uint64_t limit = std::uint64_t{1} << (3 * (length - 1));
    if (value < limit) {
      std::snprintf(field, length, "%0*llo", static_cast<int>(length - 1),
                    static_cast<unsigned long long>(value));
      return;
    }
    if (length == 8) {  // seven bytes are enough for the tests' numbers
      for (std::size_t i = 0; i < 7; ++i) {
        field[7 - i] = static_cast<char>(value >> (8 * i));
      }
      field[0] = '\x80';
      return;
    }
    binary(field, length, value, '\x80');
  }

  TarWriter& link_entry(char type, const std::string& name, const std::string& target) {
    TarEntry entry;
    entry.name = name;
    entry.type = type;
    entry.link = target;
    entry.mode = type == '2' ? 0777 : 0644;
    return add(entry);
  }

  void add_plain(const TarEntry& entry) {
    out_ += header(entry);
    out_ += entry.data;
    out_.resize((out_.size() + 511) / 512 * 512);
  }

  std::string out_;
};

}  // namespace ate::test
