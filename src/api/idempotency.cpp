// A POST with an Idempotency-Key: reserve, act, keep the answer; the same again is a replay. What
// was reserved and never answered (the daemon died) is settled by the operation of that request,
// which is in one transaction with the change itself.
#include "api/idempotency.hpp"

#include <strings.h>

#include <algorithm>

#include "api/handlers.hpp"
#include "api/operation_json.hpp"
#include "ate/api/problems.hpp"
#include "ate/util/failpoint.hpp"
#include "ate/util/scope_exit.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/kept.pb.h"

namespace ate::api {

namespace {

constexpr std::size_t kMaxKey = 255;
constexpr std::string_view kHeader = "Idempotency-Key";

Error bad_key(const std::string& detail) {
  return Error(Errc::Malformed, "Idempotency-Key " + detail).with_field(std::string(kHeader));
}

std::string fingerprint_of(const Call& call, const http::Request& request) {
  std::string text = request.method + '\n' + request.target + '\n';
  text += http::find_header(request.headers, "If-Match").value_or("");
  text += '\n';
  text += request.body;
  return call.backend().digest(text);
}

v1alpha1::KeptAnswer to_record(const std::string& fingerprint, const std::string& request_id,
                               const http::Response& response) {
  v1alpha1::KeptAnswer record;
  record.set_fingerprint(fingerprint);
  record.set_request_id(request_id);
  record.set_status(response.status);
  record.set_content_type(response.content_type);
  for (const auto& [name, value] : response.headers) {
    v1alpha1::HeaderLine& line = *record.add_headers();
    line.set_name(name);
    line.set_value(value);
  }
  record.set_body(response.body);
  return record;
}

http::Response from_record(const v1alpha1::KeptAnswer& record) {
  http::Response response;
  response.status = record.status();
  response.content_type = record.content_type();
  for (const v1alpha1::HeaderLine& line : record.headers()) {
    response.headers.emplace_back(line.name(), line.value());
  }
  response.body = record.body();
  return response;
}

/// A request that failed after its operation began has had its effect; one that was refused, or
/// found no room, has not, and is tried anew under the same key.
bool has_taken_effect(const Error& error) {
  // `operation` names another one's; what fails on its way is an instance of its own.
  return std::ranges::any_of(error.members(),
                             [](const auto& member) { return member.first == "instance"; });
}

/// Calls that reach into the guest and are in no transaction of ours.
bool leaves_no_operation(const Route& route) {
  return route.pattern.ends_with("/signal") || route.pattern.ends_with("/exec");
}

Error reused() {
  return Error(Errc::IdempotencyKeyReused,
               "this Idempotency-Key was used for another request (method, target, If-Match and "
               "body are compared); take a new key")
      .with_field(std::string(kHeader));
}

async::Task<Status> replay(Call& call, http::Response response) {
  response.headers.emplace_back("Idempotency-Replayed", "true");
  Status sent = co_await call.reply(std::move(response));
  co_return sent;
}

/// Settles a reservation of a daemon that died before it answered. nullopt: nothing came of it.
async::Task<Result<std::optional<http::Response>>> settle(Call& call, const Route& route,
                                                          std::int64_t created_ms,
                                                          v1alpha1::KeptAnswer record) {
  ATE_CO_ASSIGN(const Backend::Operation operation,
                co_await call.backend().operation_of(record.request_id(), created_ms));
  if (operation != nullptr) {
    co_return outcome_of(call, *operation);
  }
  if (leaves_no_operation(route)) {
    co_return fail(Error(Errc::IdempotencyKeyInUse,
                         "the daemon ended while this request ran, and it left no operation: "
                         "whether it had its effect is not known. Look, and take a new key")
                       .with_field(std::string(kHeader)));
  }
  co_return std::optional<http::Response>();
}

/// What is known of the key before anything runs: an answer to replay, or nothing.
async::Task<Result<std::optional<http::Response>>> look_up(Call& call, const Route& route,
                                                           std::string key,
                                                           std::string fingerprint) {
  ATE_CO_ASSIGN(const std::optional<Backend::KeptRequest> kept,
                co_await call.backend().kept_request(key));
  if (!kept) {
    co_return std::optional<http::Response>();
  }
  v1alpha1::KeptAnswer record;
  if (!record.ParseFromString(kept->record)) {
    co_return fail(Errc::Internal,
                   "state database: the record of an Idempotency-Key can't be read");
  }
  if (record.fingerprint() != fingerprint) {
    co_return fail(reused());
  }
  if (record.status() != 0) {
    co_return from_record(record);
  }
  ATE_CO_ASSIGN(std::optional<http::Response> response,
                co_await settle(call, route, kept->created_ms, record));
  if (response && response->status != 202) {  // one that still runs is asked for again
    const v1alpha1::KeptAnswer answered = to_record(fingerprint, record.request_id(), *response);
    ATE_CO_TRY(co_await call.backend().keep_request(
        {std::move(key), kept->created_ms, answered.SerializeAsString()}));
  }
  co_return response;
}

/// Runs the handler and keeps what it answers; the answer when the request took effect.
async::Task<Result<http::Response>> run_and_keep(Call& call, const Route& route, std::string key,
                                                 std::string fingerprint) {
  Backend& backend = call.backend();
  const std::string request_id = call.request().request_id;
  const std::int64_t created = call.services.clock.wall().time_since_epoch().count();
  http::Response begun;
  begun.status = 0;
  const v1alpha1::KeptAnswer reserved = to_record(fingerprint, request_id, begun);
  ATE_CO_TRY(co_await backend.keep_request({key, created, reserved.SerializeAsString()}));
  if (failpoint("idempotency-after-reserve")) {
    co_return fail(Errc::Internal, "failpoint idempotency-after-reserve");
  }
  http::Response response;
  call.held = &response;
  const Status handled = co_await route.handler(call);
  call.held = nullptr;
  if (!handled && !has_taken_effect(handled.error())) {
    const Status dropped = co_await backend.drop_request(key);
    static_cast<void>(dropped);  // IGNORED: the next try settles the reservation instead
    co_return fail(handled.error());
  }
  if (!handled) {
    response = render_error(handled.error(), &call.request());
  }
  static_cast<void>(failpoint("idempotency-before-keep"));
  const v1alpha1::KeptAnswer answered = to_record(fingerprint, request_id, response);
  const Status kept = co_await backend.keep_request({key, created, answered.SerializeAsString()});
  if (!kept) {
    // It has happened: the client is told so. The reservation stays and leads to the operation.
    call.services.log.error("the answer to an Idempotency-Key could not be kept",
                            {{"request", request_id}, {"error", kept.error().message()}});
  }
  co_return response;
}

}  // namespace

Result<std::optional<std::string>> idempotency_key(const http::Headers& headers) {
  std::optional<std::string> key;
  for (const auto& [name, value] : headers) {
    if (::strcasecmp(name.c_str(), kHeader.data()) != 0) {
      continue;
    }
    if (key) {
      return fail(bad_key("is given twice"));
    }
    key = value;
  }
  if (!key) {
    return key;
  }
  // A string of RFC 8941 in quotes, as the draft has it, or bare, as most clients send it.
  if (key->size() >= 2 && key->front() == '"' && key->back() == '"') {
    key = key->substr(1, key->size() - 2);
  }
  const bool printable = std::ranges::all_of(
      *key, [](char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != ','; });
  if (key->empty() || key->size() > kMaxKey || !printable) {
    return fail(
        bad_key("is 1 to 255 printable ASCII characters without space, comma, quote and "
                "backslash, for example a UUID"));
  }
  return key;
}

async::Task<Status> handle_once(Call& call, const Route& route) {
  ATE_CO_ASSIGN(const std::optional<std::string> given, idempotency_key(call.request().headers));
  if (!given) {
    Status handled = co_await route.handler(call);
    co_return handled;
  }
  // Keys belong to whoever sent them: two users that count 1, 2, 3 don't meet.
  const std::string key = std::to_string(call.request().peer.uid) + ':' + *given;
  const std::string fingerprint = fingerprint_of(call, call.request());
  auto& flights = call.services.flights;
  while (flights.contains(key)) {
    const std::shared_ptr<Flight> other = flights.at(key);
    if (other->fingerprint != fingerprint) {
      co_return fail(reused());
    }
    const bool ended = co_await other->done.wait_for(call.services.options.longest_wait);
    if (!ended) {
      co_return fail(Error(Errc::IdempotencyKeyInUse,
                           "the first request with this Idempotency-Key is still at work")
                         .with("retryAfterSeconds", std::int64_t{5}));
    }
    if (other->answer) {
      Status sent = co_await replay(call, *other->answer);
      co_return sent;
    }
  }
  const auto flight = std::make_shared<Flight>(call.services.context, fingerprint);
  flights[key] = flight;
  const auto land = [&flights, &key, &flight]() {
    flights.erase(key);
    flight->done.set();
  };
  ScopeExit landing(land);
  ATE_CO_ASSIGN(std::optional<http::Response> known,
                co_await look_up(call, route, key, fingerprint));
  if (known) {
    flight->answer = *known;
    landing.dismiss();
    land();
    Status sent = co_await replay(call, std::move(*known));
    co_return sent;
  }
  ATE_CO_ASSIGN(http::Response response, co_await run_and_keep(call, route, key, fingerprint));
  flight->answer = response;
  landing.dismiss();
  land();  // those who wait for it need not wait for this client to read
  Status sent = co_await call.reply(std::move(response));
  co_return sent;
}

}  // namespace ate::api
