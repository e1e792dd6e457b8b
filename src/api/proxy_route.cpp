#include <charconv>

#include "api/handlers.hpp"
#include "ate/util/ids.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::api {

namespace {

constexpr std::string_view kAtespaceHeader = "Ate-Atespace";
constexpr std::string_view kTunnelProtocol = "tcp";

Result<std::uint16_t> parse_port(const std::string& text) {
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc{} || stop != end || port == 0) {
    return fail(Error(Errc::Malformed, "the port is a number from 1 to 65535").with_field("port"));
  }
  return port;
}

/// The query of a proxied request belongs to the actor, so the atespace is a header. `otherwise` is
/// what holds without that header.
Result<engine::ActorKey> key_of(const Call& call, std::string otherwise) {
  const auto header = http::find_header(call.request().headers, kAtespaceHeader);
  std::string space = header ? std::string(*header) : std::move(otherwise);
  if (!is_dns_label(space)) {
    return fail(Error(Errc::Malformed, "header Ate-Atespace is a DNS-1123 label")
                    .with_field(std::string(kAtespaceHeader)));
  }
  return engine::ActorKey{std::move(space), call.param("name")};
}

/// An actor that a connection is made to, and what counts it in. Lives in the frame of the handler.
struct Target {
  http::Exchange::Upstream upstream;
  std::shared_ptr<void> hold;
};

/// Wakes the actor and connects.
async::Task<Status> reach(Call& call, engine::ActorKey key, Target& target) {
  ATE_CO_ASSIGN(const std::uint16_t port, parse_port(call.param("port")));
  ATE_CO_ASSIGN(const Backend::Actor actor, call.backend().actor(key));
  // Before the actor is woken: a request that can't be carried must not wake anything.
  ATE_CO_TRY(call.exchange.admit_stream());
  const std::string uid = actor->metadata().uid();
  target.hold = call.backend().hold(uid);
  Result<engine::Connected> connected = co_await call.backend().connect(std::move(key), port);
  if (!connected) {
    co_return fail(std::move(connected).error());
  }
  target.upstream.socket = std::move(connected->socket);
  target.upstream.ended = std::move(connected->ended);
  Backend& backend = call.backend();
  target.upstream.on_activity = [&backend, uid](std::uint64_t /*bytes*/) { backend.touch(uid); };
  target.upstream.on_switch = [&backend, uid, &target]() {
    target.hold = backend.hold_tunnel(uid);
  };
  co_return Status();
}

Status asks_for_tunnel(const http::Request& request) {
  const bool asked = http::has_token(request.headers, "connection", "upgrade") &&
                     http::has_token(request.headers, "upgrade", kTunnelProtocol);
  if (!asked || request.head_only) {
    return fail(Errc::UpgradeRequired,
                "a tunnel is asked for with GET, Connection: Upgrade and Upgrade: tcp");
  }
  return {};
}

}  // namespace

async::Task<Status> proxy(Call& call) {
  ATE_CO_ASSIGN(engine::ActorKey key, key_of(call, "default"));
  Target target;
  ATE_CO_TRY(co_await reach(call, std::move(key), target));
  target.upstream.target = call.rest;
  std::vector<std::string> drop{"ate-atespace"};
  Status forwarded = co_await call.exchange.forward(std::move(target.upstream), std::move(drop));
  co_return forwarded;
}

async::Task<Status> tunnel(Call& call) {
  ATE_CO_TRY(asks_for_tunnel(call.request()));
  ATE_CO_ASSIGN(std::string space, call.atespace());
  ATE_CO_ASSIGN(engine::ActorKey key, key_of(call, std::move(space)));
  Target target;
  ATE_CO_TRY(co_await reach(call, std::move(key), target));
  std::string protocol(kTunnelProtocol);
  Status ended = co_await call.exchange.tunnel(std::move(target.upstream), std::move(protocol));
  co_return ended;
}

}  // namespace ate::api
