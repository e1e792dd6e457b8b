#include "image/protocol.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ate/image/digest.hpp"
#include "ate/util/log.hpp"
#include "image/json.hpp"
#include "image/oci.hpp"

namespace ate::image {

namespace {

struct Code {
  Errc errc;
  std::string_view word;
};

/// Kinds that pass through; everything else a helper may say is Internal.
constexpr std::array kCodes = {Code{Errc::ImageInvalid, "image-invalid"},
                               Code{Errc::DiskFull, "disk-full"}, Code{Errc::Internal, "internal"}};

std::unexpected<Error> nonsense(const std::string& what) {
  return fail(Errc::Internal, "the unpack helper: " + what);
}

std::uint64_t number(const core::JsonValue& value, std::string_view key) {
  const core::JsonValue* member = value.find(key);
  const std::optional<std::int64_t> integer =
      member == nullptr ? std::nullopt : member->as_integer();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(integer.value_or(0), 0));
}

std::string text(const core::JsonValue& value, std::string_view key) {
  const core::JsonValue* member = value.find(key);
  const std::string* found = member == nullptr ? nullptr : member->as_text();
  return found == nullptr ? std::string() : *found;
}

std::string error_to_json(const Error& error) {
  std::string_view word = "internal";
  for (const Code& code : kCodes) {
    if (code.errc == error.code()) {
      word = code.word;
    }
  }
  core::JsonObject out;
  out.text("error", word).text("message", error.message());
  return std::move(out).finish();
}

}  // namespace

void write_unpacked(core::JsonObject& out, const HelperReply& reply) {
  out.text("digest", reply.digest)
      .raw("config", config_to_json(reply.report.config))
      .number("entries", reply.report.entries)
      .number("storedBytes", reply.report.stored_bytes)
      .number("skippedDevices", reply.report.skipped_devices);
}

std::string write_request(const HelperRequest& request) {
  core::JsonObject out;
  out.boolean("unpack", request.unpack)
      .number("transport", static_cast<std::int64_t>(request.transport))
      .text("tag", request.tag)
      .text("digest", request.digest)
      .number("cpuSeconds", request.cpu_seconds);
  return std::move(out).finish();
}

Result<HelperRequest> parse_request(std::string_view document) {
  ATE_ASSIGN(const core::JsonValue value, parse_json(document));
  HelperRequest request;
  const auto flag = [&](std::string_view key) {
    const core::JsonValue* member = value.find(key);
    return member != nullptr && member->as_bool().value_or(false);
  };
  request.unpack = flag("unpack");
  const std::uint64_t transport = number(value, "transport");
  if (transport > static_cast<std::uint64_t>(Reference::Transport::DockerArchive)) {
    return nonsense("no transport of that number");
  }
  request.transport = static_cast<Reference::Transport>(transport);
  request.tag = text(value, "tag");
  request.digest = text(value, "digest");
  request.cpu_seconds = number(value, "cpuSeconds");
  if (request.unpack && !is_sha256_digest(request.digest)) {
    return nonsense("no digest to unpack");
  }
  return request;
}

std::string write_reply(const Result<HelperReply>& reply) {
  if (!reply) {
    return error_to_json(reply.error());
  }
  core::JsonObject out;
  write_unpacked(out, *reply);
  return std::move(out).finish();
}

Result<HelperReply> parse_reply(std::string_view document) {
  const Result<core::JsonValue> value = parse_json(document);
  if (!value || !value->is_object()) {
    return nonsense("its answer can't be read");
  }
  if (const std::string word = text(*value, "error"); !word.empty()) {
    for (const Code& code : kCodes) {
      if (code.word == word) {
        return fail(code.errc, escape_text(text(*value, "message"), 2000));
      }
    }
    return nonsense("it answers with an unknown error");
  }
  HelperReply reply;
  reply.digest = text(*value, "digest");
  if (!is_sha256_digest(reply.digest)) {
    return nonsense("its answer has no digest");
  }
  const core::JsonValue* config = value->find("config");
  if (config == nullptr) {
    return nonsense("its answer has no config");
  }
  ATE_ASSIGN(reply.report.config, config_from_json(*config));
  reply.report.entries = number(*value, "entries");
  reply.report.stored_bytes = number(*value, "storedBytes");
  reply.report.skipped_devices = number(*value, "skippedDevices");
  return reply;
}

}  // namespace ate::image
