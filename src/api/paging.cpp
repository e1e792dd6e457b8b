#include "api/paging.hpp"
#include "ate/core/json.hpp"

namespace ate::api {

Result<PageRequest> page_request(const Call& call) {
  PageRequest out;
  ATE_ASSIGN(const std::int64_t limit, call.query_number("limit", 1, kMaxLimit, kDefaultLimit));
  out.limit = static_cast<std::size_t>(limit);
  if (const std::optional<std::string> token = call.query_value("pageToken")) {
    ATE_ASSIGN(out.after, read_page_token(*token));
  }
  return out;
}

std::string list_json(std::string_view kind, const std::vector<std::string>& items,
                      const std::string& next) {
  core::JsonObject object;
  object.text("kind", kind).raw("items", core::json_array(items));
  object.text("nextPageToken", next.empty() ? std::string() : make_page_token(next));
  return std::move(object).finish();
}

}  // namespace ate::api
