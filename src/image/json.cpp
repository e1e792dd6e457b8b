#include "image/json.hpp"

#include <string>
#include <utility>

#include "image/limits.hpp"

namespace ate::image {

Result<core::JsonValue> parse_json(std::string_view text) {
  constexpr core::JsonLimits kLimits{
      .bytes = kMaxJsonBytes, .depth = kMaxJsonDepth, .values = kMaxJsonValues};
  std::expected<core::JsonValue, core::JsonFault> value = core::parse_json(text, kLimits);
  if (!value) {
    const core::JsonFault& fault = value.error();
    return fail(Errc::ImageInvalid, "JSON: " + fault.what + " at byte " + std::to_string(fault.at));
  }
  return std::move(*value);
}

}  // namespace ate::image
