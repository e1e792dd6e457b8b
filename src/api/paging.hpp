#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "api/call.hpp"

namespace ate::api {

inline constexpr std::int64_t kDefaultLimit = 100;
inline constexpr std::int64_t kMaxLimit = 1000;

struct PageRequest {
  std::size_t limit = 0;
  std::string after;  // sort key of the last item seen; "" = from the start
};

/// ?limit= and ?pageToken=.
[[nodiscard]] Result<PageRequest> page_request(const Call& call);

/// `{"kind":..., "items":[...], "nextPageToken":...}`; `next` is a sort key, "" = the end.
[[nodiscard]] std::string list_json(std::string_view kind, const std::vector<std::string>& items,
                                    const std::string& next);

/// One page of objects held in memory. `key` gives a unique sort key, `encode` the JSON of an item.
template <class Items, class Key, class Encode>
[[nodiscard]] std::string page_json(std::string_view kind, Items items, const PageRequest& page,
                                    Key key, Encode encode) {
  std::sort(items.begin(), items.end(),
            [&](const auto& a, const auto& b) { return key(*a) < key(*b); });
  std::vector<std::string> out;
  std::string last;
  for (const auto& item : items) {
    const std::string here = key(*item);
    if (!page.after.empty() && here <= page.after) {
      continue;
    }
    if (out.size() == page.limit) {
      return list_json(kind, out, last);
    }
    out.push_back(encode(*item));
    last = here;
  }
  return list_json(kind, out, {});
}

}  // namespace ate::api
