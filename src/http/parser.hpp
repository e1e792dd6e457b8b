#pragma once

#include <string>
#include <string_view>

#include "ate/http/message.hpp"
#include "ate/util/result.hpp"

namespace ate::http {

/// Head of a request or a reply. `version` is 10 or 11.
struct Head {
  int version = 11;
  std::string method;  // requests
  std::string target;  // requests
  int status = 0;      // replies
  std::string reason;  // replies
  Headers headers;
};

/// Parses a complete head (HeadScan found its end) with Beast. Malformed says what is wrong.
/// Values keep their bytes without the blanks around them.
[[nodiscard]] Status parse_request_head(std::string_view bytes, Head& head);
[[nodiscard]] Status parse_reply_head(std::string_view bytes, Head& head);

}  // namespace ate::http
