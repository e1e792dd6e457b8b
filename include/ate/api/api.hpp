#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/http/server.hpp"
#include "ate/util/clock.hpp"
#include "ate/util/log.hpp"

namespace ate::api {

class Backend;

struct Options {
  std::string version;
  std::string commit;                               // "" = unknown
  std::chrono::milliseconds heartbeat{15'000};      // of event streams
  std::chrono::milliseconds follow_period{200};     // how often a follower looks for new output
  std::chrono::milliseconds longest_wait{300'000};  // cap of Prefer: wait=N and ?wait=
};

/// The REST interface: one literal route table, strict about what it takes. `handle` is an
/// http::Handler; an error that it returns before it replied is to be rendered with
/// api::render_error.
class Api {
 public:
  Api(async::Context& context, Backend& backend, const Clock& clock, const Log& log,
      Options options);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;
  Api(Api&&) = delete;
  Api& operator=(Api&&) = delete;

  [[nodiscard]] async::Task<Status> handle(http::Exchange& exchange);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A row of the route table as docs/openapi.yaml must have it.
struct RouteInfo {
  std::string_view method;
  std::string pattern;  // OpenAPI path template
  std::vector<std::string_view> query;
  bool body = false;
  bool planned = false;  // answers not-yet-supported
};

[[nodiscard]] std::vector<RouteInfo> route_table();

/// docs/openapi.yaml as JSON.
[[nodiscard]] std::string openapi_json();

}  // namespace ate::api
