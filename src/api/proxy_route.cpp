#include <charconv>

#include "api/handlers.hpp"
#include "ate/util/ids.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::api {

namespace {

constexpr std::string_view kAtespaceHeader = "Ate-Atespace";

Result<std::uint16_t> parse_port(const std::string& text) {
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc{} || stop != end || port == 0) {
    return fail(Error(Errc::Malformed, "the port is a number from 1 to 65535").with_field("port"));
  }
  return port;
}

/// The query belongs to the actor, so the atespace is a header here and nothing else.
Result<engine::ActorKey> key_of(const Call& call) {
  const auto header = http::find_header(call.request().headers, kAtespaceHeader);
  std::string space = header ? std::string(*header) : "default";
  if (!is_dns_label(space)) {
    return fail(Error(Errc::Malformed, "header Ate-Atespace is a DNS-1123 label")
                    .with_field(std::string(kAtespaceHeader)));
  }
  return engine::ActorKey{std::move(space), call.param("name")};
}

}  // namespace

async::Task<Status> proxy(Call& call) {
  ATE_CO_ASSIGN(const std::uint16_t port, parse_port(call.param("port")));
  ATE_CO_ASSIGN(engine::ActorKey key, key_of(call));
  ATE_CO_ASSIGN(const Backend::Actor actor, call.backend().actor(key));
  // Before the actor is woken: a request that can't be carried must not wake anything.
  ATE_CO_TRY(call.exchange.admit_stream());
  const std::string uid = actor->metadata().uid();
  const std::shared_ptr<void> hold = call.backend().hold(uid);
  auto socket = co_await call.backend().connect(std::move(key), port);
  if (!socket) {
    co_return fail(std::move(socket).error());
  }
  http::Exchange::Upstream upstream;
  upstream.socket = std::move(*socket);
  upstream.target = call.rest;
  Backend& backend = call.backend();
  upstream.on_activity = [&backend, uid](std::uint64_t /*bytes*/) { backend.touch(uid); };
  std::vector<std::string> drop{"ate-atespace"};
  Status forwarded = co_await call.exchange.forward(std::move(upstream), std::move(drop));
  co_return forwarded;
}

}  // namespace ate::api
