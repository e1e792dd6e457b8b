#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ate::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// Case-insensitive look-up of the first value.
[[nodiscard]] std::optional<std::string_view> find_header(const Headers& headers,
                                                          std::string_view name);

/// True when one of the `name` headers, read as comma-separated lists, holds `token`.
[[nodiscard]] bool has_token(const Headers& headers, std::string_view name, std::string_view token);

/// Who is on the other end of the unix socket (SO_PEERCRED): for the audit record, not for access.
struct Peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
};

/// A request whose head passed all limits. `target` is the raw origin-form target; `path` its part
/// before '?', still encoded; `query` what follows.
struct Request {
  std::string method;
  std::string target;
  std::string path;
  std::string query;
  Headers headers;
  std::string body;  // read only for buffered routes
  Peer peer;
  std::string request_id;  // ours, 16 hex; echoed as Request-Id
  bool head_only = false;  // HEAD: the reply's body is counted but not sent
};

struct Response {
  int status = 200;
  Headers headers;
  std::string content_type = "application/json";
  std::string body;
};

}  // namespace ate::http
