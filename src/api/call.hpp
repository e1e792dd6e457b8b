#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/url.hpp"
#include "ate/api/api.hpp"
#include "ate/api/backend.hpp"
#include "ate/http/server.hpp"

namespace ate::api {

/// Encoded actors by uid, so that polling one is not an encoding each. Small and bounded.
class ActorCache {
 public:
  [[nodiscard]] std::shared_ptr<const std::string> json(const v1alpha1::Actor& actor);

 private:
  struct Entry {
    std::string version;
    std::shared_ptr<const std::string> json;
  };

  std::unordered_map<std::string, Entry> entries_;
};

/// A request with an Idempotency-Key that is at work, for those that come with the same key.
struct Flight {
  Flight(async::Context& context, std::string print)
      : fingerprint(std::move(print)), done(context) {}

  const std::string fingerprint;
  std::optional<http::Response> answer;  // unset when it had no effect
  async::Event done;
};

/// What all handlers share; lives as long as the Api.
struct Services {
  async::Context& context;
  Backend& backend;
  const Clock& clock;
  const Log& log;
  Options options;
  ActorCache cache;
  async::Mutex object_writes;  // If-None-Match: * is check and write in one
  std::map<std::string, std::shared_ptr<Flight>> flights;  // by user and key
};

/// One request on its way through a handler. Lives in the frame of Api::handle.
struct Call {
  Services& services;
  http::Exchange& exchange;
  std::vector<std::pair<std::string_view, std::string>> params;  // of the path, decoded
  std::string rest;  // of a proxy path: raw target after /proxy/{port}, query included
  Query query;
  int status = 0;                  // of the reply, for the audit line; 0 = none yet
  http::Response* held = nullptr;  // set: reply() puts the answer there instead of sending it

  [[nodiscard]] Backend& backend() const { return services.backend; }

  [[nodiscard]] http::Request& request() const { return exchange.request(); }

  /// Path parameter; empty when the pattern has none of that name.
  [[nodiscard]] const std::string& param(std::string_view name) const;
  /// Last query parameter of that name.
  [[nodiscard]] std::optional<std::string> query_value(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> query_values(std::string_view name) const;
  /// `?name`, `?name=true|1` -> true; `false|0` or absent -> false; else Malformed.
  [[nodiscard]] Result<bool> query_flag(std::string_view name) const;
  /// Whole number within the bounds, or `fallback` when absent; else Malformed.
  [[nodiscard]] Result<std::int64_t> query_number(std::string_view name, std::int64_t low,
                                                  std::int64_t high, std::int64_t fallback) const;
  /// ?atespace=, checked; `default` when absent.
  [[nodiscard]] Result<std::string> atespace() const;
  /// Actor named by the path and ?atespace=.
  [[nodiscard]] Result<engine::ActorKey> actor_key() const;
  [[nodiscard]] engine::Caller caller() const;
  /// If-Match: nullopt when absent or `*`; Malformed for lists.
  [[nodiscard]] Result<std::optional<std::string>> if_match() const;

  /// 200 (or `status`) with a JSON body.
  [[nodiscard]] async::Task<Status> reply_json(int code, std::string body);
  /// With an ETag; 304 when If-None-Match already names it and the method is GET.
  [[nodiscard]] async::Task<Status> reply_tagged(int code, std::string version, std::string body);
  [[nodiscard]] async::Task<Status> reply(http::Response response);
};

using RouteHandler = async::Task<Status> (*)(Call& call);

}  // namespace ate::api
