#include "objects/problem_type.hpp"

#include <array>
#include <string_view>
#include <utility>

namespace ate::objects {

std::string problem_type(Errc code) {
  constexpr std::array<std::pair<Errc, std::string_view>, 11> kSlugs{{
      {Errc::Malformed, "malformed"},
      {Errc::UnknownField, "unknown-field"},
      {Errc::InvalidType, "invalid-type"},
      {Errc::InvalidValue, "invalid-value"},
      {Errc::NotYetSupported, "not-yet-supported"},
      {Errc::AlreadyExists, "already-exists"},
      {Errc::FileOwned, "file-owned"},
      {Errc::ImageInvalid, "image-invalid"},
      {Errc::AssetInvalid, "asset-invalid"},
      {Errc::DiskFull, "disk-full"},
      {Errc::NotFound, "not-found"},
  }};
  for (const auto& [known, slug] : kSlugs) {
    if (known == code) {
      return "/v1/problems/" + std::string(slug);
    }
  }
  return "/v1/problems/internal";
}

std::string problem_text(const Problem& problem) {
  std::string out = problem.file;
  if (problem.line > 0) {
    out += ":" + std::to_string(problem.line) + ":" + std::to_string(problem.column);
  }
  if (!out.empty()) {
    out += ": ";
  }
  return out + (problem.field.empty() ? "" : problem.field + ": ") + problem.detail;
}

}  // namespace ate::objects
