#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "api/handlers.hpp"
#include "api/paging.hpp"
#include "ate/codec/codec.hpp"
#include "ate/core/lifecycle.hpp"
#include "ate/util/ids.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/requests.pb.h"

namespace ate::api {

namespace {

struct SignalName {
  std::string_view name;
  int number;
};

constexpr std::array kSignals{
    SignalName{"HUP", 1},   SignalName{"INT", 2},   SignalName{"QUIT", 3},  SignalName{"ABRT", 6},
    SignalName{"KILL", 9},  SignalName{"USR1", 10}, SignalName{"USR2", 12}, SignalName{"PIPE", 13},
    SignalName{"ALRM", 14}, SignalName{"TERM", 15}, SignalName{"CONT", 18}, SignalName{"STOP", 19},
    SignalName{"TSTP", 20}, SignalName{"TTIN", 21}, SignalName{"TTOU", 22}, SignalName{"WINCH", 28},
};

Result<int> parse_signal(std::string_view text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (!text.empty() && error == std::errc{} && stop == end && number >= 1 && number <= 64) {
    return number;
  }
  const std::string_view bare = text.starts_with("SIG") ? text.substr(3) : text;
  for (const SignalName& known : kSignals) {
    if (known.name == bare) {
      return known.number;
    }
  }
  return fail(Error(Errc::InvalidValue, "signal is a name such as SIGTERM or a number from 1 to 64")
                  .with_field("signal"));
}

Result<std::vector<std::string>> parse_states(const Call& call) {
  std::vector<std::string> out;
  for (const std::string& value : call.query_values("state")) {
    if (!core::parse_state(value)) {
      return fail(
          Error(Errc::Malformed, "query parameter state: no such state; for example RUNNING")
              .with_field("state"));
    }
    out.push_back(value);
  }
  return out;
}

Result<engine::ActorQuery> parse_actor_query(const Call& call) {
  engine::ActorQuery out;
  if (call.query_value("atespace") != std::optional<std::string>("*")) {
    ATE_ASSIGN(out.atespace, call.atespace());
  }
  ATE_ASSIGN(out.states, parse_states(call));
  out.template_name = call.query_value("template").value_or("");
  for (const std::string& label : call.query_values("label")) {
    const std::size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(Error(Errc::Malformed, "query parameter label is key=value").with_field("label"));
    }
    out.labels.emplace_back(label.substr(0, equals), label.substr(equals + 1));
  }
  ATE_ASSIGN(PageRequest page, page_request(call));
  out.limit = page.limit;
  out.after = std::move(page.after);
  return out;
}

std::string actor_path(const v1alpha1::Actor& actor) {
  std::string path = "/v1/actors/" + actor.metadata().name();
  if (actor.metadata().atespace() != "default") {
    path += "?atespace=" + actor.metadata().atespace();
  }
  return path;
}

async::Task<Status> reply_actor(Call& call, Backend::Actor actor) {
  std::string body = *call.services.cache.json(*actor);
  Status sent =
      co_await call.reply_tagged(200, actor->metadata().resource_version(), std::move(body));
  co_return sent;
}

}  // namespace

http::Response created(const v1alpha1::Actor& actor) {
  http::Response response;
  response.status = 201;
  response.headers.emplace_back("Location", actor_path(actor));
  response.headers.emplace_back("ETag", '"' + actor.metadata().resource_version() + '"');
  response.body = codec::to_json(actor, "Actor");
  return response;
}

async::Task<Status> create_actor(Call& call) {
  ATE_CO_ASSIGN(std::string space, call.atespace());
  std::string json = std::move(call.request().body);
  engine::Caller caller = call.caller();
  auto created =
      co_await call.backend().create(std::move(space), std::move(json), std::move(caller));
  if (!created) {
    co_return fail(std::move(created).error());
  }
  Status sent = co_await call.reply(api::created(**created));
  co_return sent;
}

async::Task<Status> list_actors(Call& call) {
  ATE_CO_ASSIGN(const engine::ActorQuery query, parse_actor_query(call));
  ATE_CO_ASSIGN(const engine::ActorPage page, call.backend().actors(query));
  std::vector<std::string> items;
  items.reserve(page.items.size());
  for (const Backend::Actor& actor : page.items) {
    items.push_back(codec::to_json(*actor, "Actor"));
  }
  std::string body = list_json("ActorList", items, page.next);
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> get_actor(Call& call) {
  ATE_CO_ASSIGN(const engine::ActorKey key, call.actor_key());
  ATE_CO_ASSIGN(Backend::Actor actor, call.backend().actor(key));
  Status sent = co_await reply_actor(call, std::move(actor));
  co_return sent;
}

async::Task<Status> patch_actor(Call& call) {
  ATE_CO_ASSIGN(engine::ActorKey key, call.actor_key());
  ATE_CO_ASSIGN(std::optional<std::string> version, call.if_match());
  std::string patch = std::move(call.request().body);
  engine::Caller caller = call.caller();
  auto patched = co_await call.backend().patch(std::move(key), std::move(patch), std::move(version),
                                               std::move(caller));
  if (!patched) {
    co_return fail(std::move(patched).error());
  }
  Status sent = co_await reply_actor(call, std::move(*patched));
  co_return sent;
}

async::Task<Status> signal_actor(Call& call) {
  ATE_CO_ASSIGN(const engine::ActorKey key, call.actor_key());
  v1alpha1::SignalRequest request;
  ATE_CO_TRY(codec::from_json(call.request().body, {}, request));
  ATE_CO_ASSIGN(const int number, parse_signal(request.signal()));
  engine::Caller caller = call.caller();
  Status signalled =
      co_await call.backend().signal(key, number, request.container(), std::move(caller));
  ATE_CO_TRY(std::move(signalled));
  ATE_CO_ASSIGN(Backend::Actor actor, call.backend().actor(key));
  Status sent = co_await reply_actor(call, std::move(actor));
  co_return sent;
}

}  // namespace ate::api
