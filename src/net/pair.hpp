#pragma once

#include <string>

#include "ate/net/netns.hpp"
#include "ate/util/result.hpp"

namespace ate::net {

/// Makes a pair named `id` under `directory`. AlreadyExists when one of its names is taken.
/// Nothing stays behind on failure. Blocks for some ms: for the pool.
[[nodiscard]] Result<NetnsPair> make_pair(const std::string& directory, const std::string& id);

/// Removes whatever of a pair is there. For the pool.
[[nodiscard]] Status remove_pair(const std::string& directory, const std::string& id);

/// Of the router namespace: its end of the link to the sandbox.
inline constexpr const char* kRouterLinkName = "r0";

/// A non-blocking IPv4 socket (SOCK_STREAM, SOCK_DGRAM) of the namespace `netns_fd`. The calling
/// thread is there and back in some 10 microseconds, less than it takes to hand the work to another
/// thread: for the loop.
[[nodiscard]] Result<UniqueFd> make_socket_in(int netns_fd, int type);

/// 8 lower-case hexadecimal digits.
[[nodiscard]] bool is_pair_id(const std::string& text);

[[nodiscard]] std::string sandbox_name(const std::string& directory, const std::string& id);
[[nodiscard]] std::string router_name(const std::string& directory, const std::string& id);

}  // namespace ate::net
