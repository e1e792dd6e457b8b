#include "ate/api/api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "api/call.hpp"
#include "api/idempotency.hpp"
#include "api/router.hpp"
#include "ate/api/problems.hpp"

namespace ate::api {

namespace {

std::string media_type(std::string_view header) {
  std::string out(header.substr(0, header.find(';')));
  while (!out.empty() && out.back() == ' ') {
    out.pop_back();
  }
  for (char& c : out) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

bool is_document_type(std::string_view type) {
  return type == "application/yaml" || type == "application/x-yaml" || type == "text/yaml" ||
         type == "text/plain";
}

Status check_content_type(const Route& route, const http::Request& request) {
  const auto header = http::find_header(request.headers, "Content-Type");
  if (!header || request.body.empty()) {
    return {};
  }
  const std::string type = media_type(*header);
  // `curl -d` sends the form type unless told otherwise; every example of ours is written that way.
  const bool json = type == "application/json" || type == "application/x-www-form-urlencoded" ||
                    (type == "application/merge-patch+json" && route.method == "PATCH");
  if (json || (route.body == Body::Document && is_document_type(type))) {
    return {};
  }
  return fail(Errc::UnsupportedMediaType, "content type " + escape_text(type, 100) +
                                              " is not taken here; send application/json");
}

bool announces_body(const http::Request& request) {
  const auto length = http::find_header(request.headers, "Content-Length");
  return (length && *length != "0") ||
         http::find_header(request.headers, "Transfer-Encoding").has_value();
}

bool is_mutating(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH" || method == "DELETE";
}

}  // namespace

struct Api::State {
  State(async::Context& context, Backend& backend, const Clock& clock, const Log& log,
        Options options)
      : services{context, backend, clock, log, std::move(options), {}, async::Mutex(context), {}} {}

  /// Everything before the handler; fills `call`.
  async::Task<Status> dispatch(Call& call);
  void audit(const Call& call, const Status& outcome, SteadyTime begin) const;

  Services services;
};

Api::Api(async::Context& context, Backend& backend, const Clock& clock, const Log& log,
         Options options)
    : state_(std::make_unique<State>(context, backend, clock, log, std::move(options))) {}

Api::~Api() = default;

async::Task<Status> Api::State::dispatch(Call& call) {
  http::Request& request = call.request();
  Result<Match> match = match_route(request.method, request.path);
  if (!match) {
    co_return fail(std::move(match).error());
  }
  const Route& route = *match->route;
  call.params = std::move(match->params);
  if (route.body == Body::Streamed) {
    // The raw target: what the actor gets must be what the client sent.
    const std::size_t prefix = static_cast<std::size_t>(match->rest.data() - request.path.data());
    call.rest = request.target.substr(std::min(prefix, request.target.size()));
    if (!call.rest.starts_with('/')) {
      call.rest.insert(0, 1, '/');
    }
    Status streamed = co_await route.handler(call);
    co_return streamed;
  }
  ATE_CO_ASSIGN(call.query, parse_query(request.query));
  ATE_CO_TRY(check_query(route, call.query));
  if (route.body == Body::None) {
    if (announces_body(request)) {
      co_return fail(Errc::Malformed, "this call takes no body");
    }
  } else {
    Status read = co_await call.exchange.read_body();
    ATE_CO_TRY(std::move(read));
    ATE_CO_TRY(check_content_type(route, request));
  }
  Status handled =
      co_await (route.method == "POST" ? handle_once(call, route) : route.handler(call));
  co_return handled;
}

void Api::State::audit(const Call& call, const Status& outcome, SteadyTime begin) const {
  const http::Request& request = call.exchange.request();
  const int status = call.status != 0 ? call.status
                     : outcome        ? 0
                                      : problem_kind(outcome.error().code()).status;
  const auto elapsed = std::chrono::duration<double, std::milli>(services.clock.steady() - begin);
  const std::string uid = std::to_string(request.peer.uid);
  const std::string pid = std::to_string(request.peer.pid);
  const std::string code = std::to_string(status);
  const std::string took = fmt::format("{:.1f}", elapsed.count());
  services.log.info("request", {{"method", request.method},
                                {"path", request.path},
                                {"status", code},
                                {"uid", uid},
                                {"pid", pid},
                                {"request", request.request_id},
                                {"ms", took}});
  if (status == 500 && !outcome) {
    services.log.error(outcome.error().message(), {{"request", request.request_id}});
  }
}

async::Task<Status> Api::handle(http::Exchange& exchange) {
  const SteadyTime begin = state_->services.clock.steady();
  Call call{state_->services, exchange, {}, {}, {}};
  Status outcome = co_await state_->dispatch(call);
  if (is_mutating(exchange.request().method) && call.rest.empty()) {
    state_->audit(call, outcome, begin);
  }
  co_return outcome;
}

}  // namespace ate::api
