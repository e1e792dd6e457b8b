#include <limits>

#include "api/handlers.hpp"
#include "ate/logs/logs.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::api {

namespace {

constexpr std::size_t kChunkBytes = 64UL * 1024;
constexpr std::string_view kDropped = "--- ate-noded: older output was dropped ---\n";

struct LogQuery {
  logs::ReadOptions read;
  bool follow = false;
};

Result<LogQuery> parse_log_query(const Call& call) {
  for (const std::string_view name : {"since", "source"}) {
    if (call.query_value(name)) {
      return fail(Error(Errc::NotYetSupported,
                        "query parameter " + std::string(name) + " is not part of this version")
                      .with_field(std::string(name)));
    }
  }
  LogQuery out;
  ATE_ASSIGN(out.follow, call.query_flag("follow"));
  out.read.unfinished = !out.follow;  // a prompt is output too; a follower waits for its newline
  ATE_ASSIGN(out.read.tail_lines,
             call.query_number("tail", 0, std::numeric_limits<std::int32_t>::max(), -1));
  out.read.stream = call.query_value("stream").value_or("");
  if (!out.read.stream.empty() && out.read.stream != "stdout" && out.read.stream != "stderr") {
    return fail(
        Error(Errc::Malformed, "query parameter stream is stdout or stderr").with_field("stream"));
  }
  out.read.container = call.query_value("container").value_or("");
  if (out.read.container.find_first_of("/.") != std::string::npos) {
    return fail(Error(Errc::Malformed, "query parameter container is a container's name")
                    .with_field("container"));
  }
  return out;
}

/// Everything there is beyond the cursor; true when something was written.
async::Task<Result<bool>> send_new(Call& call, std::string directory, logs::ReadOptions options,
                                   std::shared_ptr<logs::Cursor> cursor) {
  bool any = false;
  while (true) {
    auto chunk =
        co_await logs::read(call.services.context, directory, options, cursor, kChunkBytes);
    if (!chunk) {
      co_return fail(std::move(chunk).error());
    }
    if (chunk->bytes.empty()) {
      co_return any;
    }
    any = true;
    std::string text = chunk->dropped ? std::string(kDropped) : std::string();
    text += chunk->bytes;
    Status written = co_await call.exchange.write(std::move(text));
    ATE_CO_TRY(std::move(written));
  }
}

/// Goes on across suspends; ends when the actor is deleted or the client goes.
async::Task<Status> follow(Call& call, engine::ActorKey key, std::string directory,
                           logs::ReadOptions options, std::shared_ptr<logs::Cursor> cursor) {
  while (true) {
    // Looked at before reading, so that the last lines of a deleted actor are still sent.
    const bool exists = call.backend().actor(key).has_value();
    auto sent = co_await send_new(call, directory, options, cursor);
    if (!sent && sent.error().code() != Errc::NotFound) {
      co_return fail(std::move(sent).error());
    }
    if (!exists) {
      co_return Status{};
    }
    const bool gone = co_await async::finish_within(call.services.options.follow_period,
                                                    call.exchange.peer_gone());
    if (gone) {
      co_return fail(Errc::Cancelled, "the client is gone");
    }
  }
}

async::Task<Result<logs::Range>> find_range(Call& call, std::string directory,
                                            logs::ReadOptions options) {
  auto range =
      co_await logs::start(call.services.context, std::move(directory), std::move(options));
  if (!range && range.error().code() == Errc::NotFound) {
    co_return logs::Range{};  // it never ran
  }
  co_return range;
}

}  // namespace

async::Task<Status> get_logs(Call& call) {
  ATE_CO_ASSIGN(LogQuery query, parse_log_query(call));
  ATE_CO_ASSIGN(engine::ActorKey key, call.actor_key());
  ATE_CO_ASSIGN(const Backend::Actor actor, call.backend().actor(key));
  key.name = actor->metadata().uid();  // a later actor of the same name is another one
  const std::string directory = call.backend().log_directory(key.name);
  auto range = co_await find_range(call, directory, query.read);
  if (!range) {
    co_return fail(std::move(range).error());
  }
  auto cursor = std::make_shared<logs::Cursor>(range->begin);
  http::Response head;
  head.content_type = "text/plain; charset=utf-8";
  call.status = head.status;
  if (call.request().head_only) {
    Status replied = co_await call.reply(std::move(head));
    co_return replied;
  }
  Status opened = co_await call.exchange.start_stream(std::move(head));
  ATE_CO_TRY(std::move(opened));
  if (query.follow) {
    Status followed = co_await follow(call, std::move(key), directory, query.read, cursor);
    ATE_CO_TRY(std::move(followed));
  } else {
    query.read.until = range->end;
    auto sent = co_await send_new(call, directory, query.read, cursor);
    if (!sent && sent.error().code() != Errc::NotFound) {
      co_return fail(std::move(sent).error());
    }
  }
  Status finished = co_await call.exchange.finish();
  co_return finished;
}

}  // namespace ate::api
