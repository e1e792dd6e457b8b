#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "codec/yaml_scan.hpp"

namespace ate::codec {

/// Where the structure scan stands, and the parts of YAML that do not depend on indentation: quoted
/// scalars and flow collections.
class Cursor {
 public:
  using Found = std::optional<ScanProblem>;

 protected:
  explicit Cursor(std::string_view text) : text_(text) {}

  [[nodiscard]] Found error(std::string detail) const;
  [[nodiscard]] Found error_at(std::size_t at, std::string detail) const;
  /// The character `ahead`; a line feed behind the end.
  [[nodiscard]] char peek(std::size_t ahead) const;
  [[nodiscard]] bool at_break() const;
  [[nodiscard]] bool is_break(std::size_t ahead) const;
  [[nodiscard]] bool is_blank(std::size_t ahead) const;
  [[nodiscard]] std::size_t column() const;

  /// Refuses what a plain scalar cannot start with, by what it would be.
  [[nodiscard]] Found plain_start(bool in_flow) const;
  /// A quoted scalar, over lines if need be; at_ ends behind the closing quote.
  [[nodiscard]] Found quoted();
  /// A flow collection; at_ ends behind its bracket. `depth` is its own, from 1.
  [[nodiscard]] Found flow(std::size_t depth);

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;

 private:
  [[nodiscard]] Found flow_space();
  [[nodiscard]] Found flow_pair(std::size_t depth);
  [[nodiscard]] Found flow_value(std::size_t depth);
  [[nodiscard]] Found flow_plain();
};

}  // namespace ate::codec
