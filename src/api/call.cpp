#include "api/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ate/codec/codec.hpp"
#include "ate/util/ids.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::api {

namespace {

constexpr std::size_t kCacheEntries = 256;

std::string etag_of(const std::string& version) {
  return '"' + version + '"';
}

/// Strong entity tag without its quotes; nullopt for anything else.
std::optional<std::string> unquote(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') {
    return std::nullopt;
  }
  text = text.substr(1, text.size() - 2);
  if (text.find('"') != std::string_view::npos) {
    return std::nullopt;
  }
  return std::string(text);
}

bool names_tag(std::string_view header, const std::string& tag) {
  return header == "*" || header.find(tag) != std::string_view::npos;
}

}  // namespace

std::shared_ptr<const std::string> ActorCache::json(const v1alpha1::Actor& actor) {
  const std::string& uid = actor.metadata().uid();
  const std::string& version = actor.metadata().resource_version();
  const auto found = entries_.find(uid);
  if (found != entries_.end() && found->second.version == version) {
    return found->second.json;
  }
  auto text = std::make_shared<const std::string>(codec::to_json(actor, "Actor"));
  if (entries_.size() >= kCacheEntries) {
    entries_.clear();
  }
  entries_[uid] = Entry{version, text};
  return text;
}

const std::string& Call::param(std::string_view name) const {
  static const std::string kEmpty;
  for (const auto& [key, value] : params) {
    if (key == name) {
      return value;
    }
  }
  return kEmpty;
}

std::optional<std::string> Call::query_value(std::string_view name) const {
  for (auto item = query.rbegin(); item != query.rend(); ++item) {
    if (item->first == name) {
      return item->second;
    }
  }
  return std::nullopt;
}

std::vector<std::string> Call::query_values(std::string_view name) const {
  std::vector<std::string> out;
  for (const auto& [key, value] : query) {
    if (key == name) {
      out.push_back(value);
    }
  }
  return out;
}

Result<bool> Call::query_flag(std::string_view name) const {
  const std::optional<std::string> value = query_value(name);
  if (!value || *value == "false" || *value == "0") {
    return false;
  }
  if (value->empty() || *value == "true" || *value == "1") {
    return true;
  }
  return fail(Error(Errc::Malformed, fmt::format("query parameter {} is true or false", name))
                  .with_field(std::string(name)));
}

Result<std::int64_t> Call::query_number(std::string_view name, std::int64_t low, std::int64_t high,
                                        std::int64_t fallback) const {
  const std::optional<std::string> text = query_value(name);
  if (!text) {
    return fallback;
  }
  std::int64_t number = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc{} || stop != end || number < low || number > high) {
    return fail(Error(Errc::Malformed, fmt::format("query parameter {} is a whole number from {} "
                                                   "to {}",
                                                   name, low, high))
                    .with_field(std::string(name)));
  }
  return number;
}

Result<std::string> Call::atespace() const {
  std::string name = query_value("atespace").value_or("default");
  if (!is_dns_label(name)) {
    return fail(Error(Errc::Malformed, "query parameter atespace is a DNS-1123 label")
                    .with_field("atespace"));
  }
  return name;
}

Result<engine::ActorKey> Call::actor_key() const {
  ATE_ASSIGN(std::string space, atespace());
  return engine::ActorKey{std::move(space), param("name")};
}

engine::Caller Call::caller() const {
  engine::Caller out;
  out.request_id = request().request_id;
  out.uid = request().peer.uid;
  return out;
}

Result<std::optional<std::string>> Call::if_match() const {
  const std::optional<std::string_view> header = http::find_header(request().headers, "If-Match");
  if (!header || *header == "*") {
    return std::optional<std::string>();
  }
  std::optional<std::string> version = unquote(*header);
  if (!version) {
    return fail(Error(Errc::Malformed,
                      "If-Match takes one strong entity tag as ETag gave it, like \"7\", or *")
                    .with_field("If-Match"));
  }
  return version;
}

async::Task<Status> Call::reply(http::Response response) {
  if (held != nullptr) {
    *held = std::move(response);
    co_return Status();
  }
  status = response.status;
  Status sent = co_await exchange.respond(std::move(response));
  co_return sent;
}

async::Task<Status> Call::reply_json(int code, std::string body) {
  http::Response response;
  response.status = code;
  response.body = std::move(body);
  Status sent = co_await reply(std::move(response));
  co_return sent;
}

async::Task<Status> Call::reply_tagged(int code, std::string version, std::string body) {
  http::Response response;
  response.status = code;
  const std::string tag = etag_of(version);
  response.headers.emplace_back("ETag", tag);
  const auto known = http::find_header(request().headers, "If-None-Match");
  const bool reading = request().method == "GET" || request().method == "HEAD";
  if (reading && known && names_tag(*known, tag)) {
    response.status = 304;
  } else {
    response.body = std::move(body);
  }
  Status sent = co_await reply(std::move(response));
  co_return sent;
}

}  // namespace ate::api
