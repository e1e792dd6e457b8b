#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "artifacts/digest.hpp"
#include "ate/os/tree.hpp"

namespace ate::artifacts {

/// A checksum over what a tree looks like, whatever the order its directories are read in: the sum
/// of the checksums of its entries, each bound to its place.
class Listing final : public os::TreeVisitor {
 public:
  [[nodiscard]] Status enter(int self, const std::string& name, const struct stat& info) override;
  [[nodiscard]] Status entry(int dir, const std::string& name, const struct stat& info) override;
  [[nodiscard]] Status leave(int self) override;

  [[nodiscard]] std::int64_t entries() const noexcept { return entries_; }

  /// 32 hexadecimal digits.
  [[nodiscard]] std::string finish() const;

 private:
  void add(const std::string& text);

  std::vector<std::string> places_;  // of the directories that were entered
  std::uint64_t high_ = 0;
  std::uint64_t low_ = 0;
  std::int64_t entries_ = 0;
};

}  // namespace ate::artifacts
