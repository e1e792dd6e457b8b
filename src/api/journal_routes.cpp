#include <charconv>
#include <limits>

#include "api/handlers.hpp"
#include "api/operation_json.hpp"
#include "api/paging.hpp"
#include "ate/codec/codec.hpp"
#include "ate/core/json.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::api {

std::string operation_json(const v1alpha1::Operation& operation) {
  v1alpha1::Operation plain = operation;
  plain.clear_error_json();
  std::string out = codec::to_json(plain, {});
  out.pop_back();  // the closing brace
  out.insert(1, out.size() > 1 ? R"("kind":"Operation",)" : R"("kind":"Operation")");
  out += R"(,"error":)";
  out += operation.error_json().empty() ? "null" : operation.error_json();
  out += '}';
  return out;
}

namespace {

Result<std::optional<std::string>> actor_filter(const Call& call) {
  const std::optional<std::string> name = call.query_value("actor");
  ATE_ASSIGN(std::string space, call.atespace());
  if (!name && call.query_value("atespace")) {
    return fail(Error(Errc::Malformed,
                      "operations are of the whole node: atespace only says whose actor= is meant")
                    .with_field("atespace"));
  }
  if (!name) {
    return std::optional<std::string>();
  }
  ATE_ASSIGN(const Backend::Actor actor,
             call.backend().actor(engine::ActorKey{std::move(space), *name}));
  return std::optional<std::string>(actor->metadata().uid());
}

Result<std::optional<std::string>> operation_state(const Call& call) {
  std::optional<std::string> name = call.query_value("state");
  v1alpha1::Operation::State state = v1alpha1::Operation::RUNNING;
  if (name && !v1alpha1::Operation::State_Parse(*name, &state)) {
    return fail(
        Error(Errc::Malformed, "query parameter state is RUNNING, DONE, FAILED or CANCELLED")
            .with_field("state"));
  }
  return name;
}

}  // namespace

async::Task<Status> list_operations(Call& call) {
  ATE_CO_ASSIGN(PageRequest page, page_request(call));
  ATE_CO_ASSIGN(std::optional<std::string> uid, actor_filter(call));
  ATE_CO_ASSIGN(std::optional<std::string> state, operation_state(call));
  // One more than asked for tells whether there is another page.
  auto found = co_await call.backend().operations(std::move(page.after), page.limit + 1,
                                                  std::move(uid), std::move(state));
  if (!found) {
    co_return fail(std::move(found).error());
  }
  const bool more = found->size() > page.limit;
  if (more) {
    found->resize(page.limit);
  }
  std::vector<std::string> items;
  for (const Backend::Operation& operation : *found) {
    items.push_back(operation_json(*operation));
  }
  std::string body = list_json("OperationList", items, more ? found->back()->id() : std::string());
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> get_operation(Call& call) {
  const auto longest =
      std::chrono::duration_cast<std::chrono::seconds>(call.services.options.longest_wait);
  ATE_CO_ASSIGN(const std::int64_t wait, call.query_number("wait", 0, longest.count(), 0));
  auto operation = co_await call.backend().operation(call.param("id"), std::chrono::seconds(wait));
  if (!operation) {
    co_return fail(std::move(operation).error());
  }
  std::string body = operation_json(**operation);
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

namespace {

/// ?since=, else the header an event stream sends when it reconnects, else `fallback`.
Result<std::int64_t> since_of(const Call& call, std::int64_t fallback) {
  const auto header = http::find_header(call.request().headers, "Last-Event-ID");
  if (header && !call.query_value("since")) {
    std::int64_t id = 0;
    const char* end = header->data() + header->size();
    const auto [stop, error] = std::from_chars(header->data(), end, id);
    if (error != std::errc{} || stop != end || id < 0) {
      return fail(Error(Errc::Malformed, "Last-Event-ID is the id of an event")
                      .with_field("Last-Event-ID"));
    }
    return id;
  }
  return call.query_number("since", 0, std::numeric_limits<std::int64_t>::max(), fallback);
}

}  // namespace

async::Task<Status> get_events(Call& call) {
  ATE_CO_ASSIGN(const bool follow, call.query_flag("follow"));
  auto newest = co_await newest_event(call);
  if (!newest) {
    co_return fail(std::move(newest).error());
  }
  if (follow) {
    ATE_CO_ASSIGN(const std::int64_t from, since_of(call, *newest));
    Status streamed = co_await stream_events(call, from);
    co_return streamed;
  }
  ATE_CO_ASSIGN(const std::int64_t since, since_of(call, 0));
  ATE_CO_ASSIGN(const std::int64_t limit, call.query_number("limit", 1, kMaxLimit, kDefaultLimit));
  auto events = co_await call.backend().events(since, static_cast<std::size_t>(limit));
  if (!events) {
    co_return fail(std::move(events).error());
  }
  auto first = co_await call.backend().first_event_id();
  if (!first) {
    co_return fail(std::move(first).error());
  }
  std::vector<std::string> items;
  for (const Backend::Event& event : *events) {
    items.push_back(codec::to_json(*event, {}));
  }
  core::JsonObject object;
  object.text("kind", "EventList").raw("items", core::json_array(items));
  object.number("next", events->empty() ? since : events->back()->id());
  object.number("first", *first).number("last", *newest);
  std::string body = std::move(object).finish();
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

}  // namespace ate::api
