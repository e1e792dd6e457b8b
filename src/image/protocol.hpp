#pragma once

#include <cstdint>
#include <string>

#include "ate/core/json.hpp"
#include "ate/image/image.hpp"
#include "image/unpack.hpp"

namespace ate::image {

// Daemon and helper: the request is a JSON document on stdin, the answer one at the start of
// stdout, which is a memfd of fixed size: nothing has to be read while the helper runs, and a
// helper that was taken over can neither fill memory nor block the daemon.

inline constexpr int kSourceFd = 3;
inline constexpr int kDestinationFd = 4;  // only when unpacking

struct HelperRequest {
  bool unpack = false;  // else: resolve
  Reference::Transport transport = Reference::Transport::OciArchive;
  std::string tag;     // resolve
  std::string digest;  // unpack
  std::uint64_t cpu_seconds = 600;
};

struct HelperReply {
  std::string digest;   // resolve
  UnpackReport report;  // unpack
};

/// What was unpacked, as members of a reply and of an image's config.json in the store.
void write_unpacked(core::JsonObject& out, const HelperReply& reply);

[[nodiscard]] std::string write_request(const HelperRequest& request);
[[nodiscard]] Result<HelperRequest> parse_request(std::string_view text);

[[nodiscard]] std::string write_reply(const Result<HelperReply>& reply);
/// What the helper said, or its error; Internal when it said nothing that makes sense.
[[nodiscard]] Result<HelperReply> parse_reply(std::string_view text);

}  // namespace ate::image
