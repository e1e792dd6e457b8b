#include <fmt/format.h>

#include "api/handlers.hpp"
#include "ate/codec/codec.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::api {

namespace {

constexpr std::size_t kBatch = 200;
/// How soon a client that went away without a word gives its stream slot back.
constexpr std::chrono::milliseconds kLook{1000};
constexpr std::chrono::milliseconds kGlance{1};

std::string sse(const v1alpha1::Event& event) {
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", event.id(), event.type(),
                     codec::to_json(event, {}));
}

/// What the client missed can't be told any more: it must list again.
std::string resync(std::int64_t first) {
  return fmt::format("id: {}\nevent: resync\ndata: {{\"first\":{}}}\n\n", first - 1, first);
}

/// Sends everything after `since`; returns the id of the last one sent.
async::Task<Result<std::int64_t>> send_batch(Call& call, std::int64_t since) {
  while (true) {
    auto events = co_await call.backend().events(since, kBatch);
    if (!events) {
      co_return fail(std::move(events).error());
    }
    if (events->empty()) {
      co_return since;
    }
    std::string text;
    for (const Backend::Event& event : *events) {
      text += sse(*event);
    }
    since = events->back()->id();
    events = std::vector<Backend::Event>();  // a client that is slow to read holds its text only
    Status written = co_await call.exchange.write(std::move(text));
    ATE_CO_TRY(std::move(written));
  }
}

/// Where to begin, after telling the client when that is not where it asked to.
async::Task<Result<std::int64_t>> begin(Call& call, std::int64_t since) {
  auto first = co_await call.backend().first_event_id();
  if (!first) {
    co_return fail(std::move(first).error());
  }
  auto newest = co_await newest_event(call);
  if (!newest) {
    co_return fail(std::move(newest).error());
  }
  const std::int64_t last = *newest;
  if (since <= last && since + 1 >= *first) {
    co_return since;
  }
  const std::int64_t from = since > last ? last : *first - 1;
  Status written = co_await call.exchange.write(resync(from + 1));
  ATE_CO_TRY(std::move(written));
  co_return from;
}

async::Task<Status> run(Call& call, std::int64_t since) {
  auto from = co_await begin(call, since);
  if (!from) {
    co_return fail(std::move(from).error());
  }
  std::int64_t seen = *from;
  SteadyTime spoke = call.services.clock.steady();
  while (true) {
    auto sent = co_await send_batch(call, seen);
    if (!sent) {
      co_return fail(std::move(sent).error());
    }
    const SteadyTime now = call.services.clock.steady();
    if (*sent != seen) {
      spoke = now;
    } else if (now - spoke >= call.services.options.heartbeat) {
      Status beat = co_await call.exchange.write(": heartbeat\n\n");
      ATE_CO_TRY(std::move(beat));
      spoke = now;
    }
    seen = *sent;
    const auto limit = std::min(kLook, call.services.options.heartbeat);
    static_cast<void>(co_await call.backend().wait_event(seen, limit));
    const bool gone = co_await async::finish_within(kGlance, call.exchange.peer_gone());
    if (gone) {
      co_return fail(Errc::Cancelled, "the client is gone");
    }
  }
}

}  // namespace

async::Task<Result<std::int64_t>> newest_event(Call& call) {
  std::int64_t last = call.backend().last_event();
  while (true) {
    auto events = co_await call.backend().events(last, kBatch);
    if (!events) {
      co_return fail(std::move(events).error());
    }
    if (events->empty()) {
      co_return last;
    }
    last = events->back()->id();
  }
}

async::Task<Status> stream_events(Call& call, std::int64_t since) {
  http::Response head;
  head.content_type = "text/event-stream";
  head.headers.emplace_back("Cache-Control", "no-store");
  call.status = head.status;
  if (call.request().head_only) {
    Status replied = co_await call.reply(std::move(head));
    co_return replied;
  }
  Status opened = co_await call.exchange.start_stream(std::move(head));
  ATE_CO_TRY(std::move(opened));
  Status ran = co_await run(call, since);
  co_return ran;
}

}  // namespace ate::api
