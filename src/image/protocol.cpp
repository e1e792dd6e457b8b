#include "image/protocol.hpp"

#include <array>
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

std::uint64_t number(const json::Value& value, std::string_view key) {
  const json::Value* member = value.find(key);
  const std::int64_t* integer = member == nullptr ? nullptr : member->integer();
  return integer == nullptr || *integer < 0 ? 0 : static_cast<std::uint64_t>(*integer);
}

std::string text(const json::Value& value, std::string_view key) {
  const json::Value* member = value.find(key);
  const std::string* found = member == nullptr ? nullptr : member->text();
  return found == nullptr ? std::string() : *found;
}

std::string error_to_json(const Error& error) {
  std::string_view word = "internal";
  for (const Code& code : kCodes) {
    if (code.errc == error.code()) {
      word = code.word;
    }
  }
  const std::string& message = error.message();
  return "{\"error\":" + json::quote(word) + ",\"message\":" +
         json::quote(json::is_utf8(message) ? message : escape_text(message, 2000)) + "}";
}

}  // namespace

std::string write_request(const HelperRequest& request) {
  const bool archive = request.transport == Reference::Transport::OciArchive;
  return std::string("{\"unpack\":") + (request.unpack ? "true" : "false") +
         ",\"archive\":" + (archive ? "true" : "false") + ",\"tag\":" + json::quote(request.tag) +
         ",\"digest\":" + json::quote(request.digest) +
         ",\"cpuSeconds\":" + std::to_string(request.cpu_seconds) + "}";
}

Result<HelperRequest> parse_request(std::string_view document) {
  ATE_ASSIGN(const json::Value value, json::parse(document));
  HelperRequest request;
  const auto flag = [&](std::string_view key) {
    const json::Value* member = value.find(key);
    const bool* found = member == nullptr ? nullptr : std::get_if<bool>(&member->data);
    return found != nullptr && *found;
  };
  request.unpack = flag("unpack");
  request.transport =
      flag("archive") ? Reference::Transport::OciArchive : Reference::Transport::OciDirectory;
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
  const UnpackReport& report = reply->report;
  return "{\"digest\":" + json::quote(reply->digest) +
         ",\"config\":" + config_to_json(report.config) +
         ",\"entries\":" + std::to_string(report.entries) +
         ",\"storedBytes\":" + std::to_string(report.stored_bytes) +
         ",\"skippedDevices\":" + std::to_string(report.skipped_devices) + "}";
}

Result<HelperReply> parse_reply(std::string_view document) {
  const Result<json::Value> value = json::parse(document);
  if (!value || value->object() == nullptr) {
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
  const json::Value* config = value->find("config");
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
