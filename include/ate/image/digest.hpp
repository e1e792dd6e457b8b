#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ate::image {

/// Streaming SHA-256. Move-only; `finish` may be called once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// 64 lower-case hexadecimal digits of everything given so far.
  [[nodiscard]] std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Hexadecimal SHA-256 of `text`.
[[nodiscard]] std::string sha256_hex(std::string_view text);

/// True for `sha256:` and 64 lower-case hexadecimal digits: the only digests that are read.
[[nodiscard]] bool is_sha256_digest(std::string_view digest);

}  // namespace ate::image
