#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ate::codec {

struct Member;

inline constexpr std::size_t kMaxDepth = 32;
/// Values of one document. Bounds memory: 1 MiB of `[[],[]…]` would be 350,000 of them.
inline constexpr std::size_t kMaxNodes = 50'000;

/// What both front ends build: text with its place, not yet typed by the object model.
struct Node {
  enum class Kind : std::uint8_t { Null, Bool, Number, String, Sequence, Mapping };
  Kind kind = Kind::Null;
  bool ambiguous = false;  // a plain YAML scalar that other readers take for no string
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::string text;  // of scalars; a Number keeps its spelling
  std::vector<Node> items;
  std::vector<Member> members;
};

struct Member {
  std::string key;
  bool ambiguous = false;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  Node value;
};

}  // namespace ate::codec
