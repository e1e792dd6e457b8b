#include <charconv>

#include "api/handlers.hpp"
#include "api/operation_json.hpp"
#include "api/prefer.hpp"
#include "ate/api/problems.hpp"
#include "ate/codec/codec.hpp"
#include "ate/core/start.hpp"
#include "ate/core/units.hpp"
#include "ate/core/validate.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/requests.pb.h"

namespace ate::api {

namespace {

Status read_scope(const std::string& scope, engine::VerbOptions& options) {
  ATE_TRY(core::check_scope(scope));
  options.scope = scope;
  return {};
}

Status read_grace(const std::string& grace, engine::VerbOptions& options) {
  if (grace.empty()) {
    return {};
  }
  auto duration = core::parse_duration(grace);
  if (!duration) {
    return fail(std::move(duration).error().with_field("grace"));
  }
  options.grace = *duration;
  return {};
}

template <class T>
Result<T> parse_body(const std::string& body) {
  T request;
  if (!body.empty()) {
    ATE_TRY(codec::from_json(body, {}, request));
  }
  return request;
}

template <class T>
Result<engine::VerbOptions> save_options(const std::string& body) {
  engine::VerbOptions options;
  ATE_ASSIGN(const T request, parse_body<T>(body));
  ATE_TRY(read_scope(request.scope(), options));
  ATE_TRY(read_grace(request.grace(), options));
  return options;
}

/// A failed operation is answered with the very document that is stored with it.
http::Response stored_problem(const v1alpha1::Operation& operation) {
  constexpr std::string_view kType = R"("type":"/v1/problems/)";
  http::Response response;
  response.status = 500;
  response.content_type = "application/problem+json";
  response.body = operation.error_json();
  const std::size_t begin = response.body.find(kType);
  if (begin != std::string::npos) {
    const std::string_view rest = std::string_view(response.body).substr(begin + kType.size());
    if (const ProblemKind* kind = find_problem_kind(rest.substr(0, rest.find('"')))) {
      response.status = kind->status;
    }
  }
  response.headers.emplace_back("Location", "/v1/operations/" + operation.id());
  return response;
}

void add_applied(const Prefer& prefer, http::Response& response) {
  if (prefer.respond_async) {
    response.headers.emplace_back("Preference-Applied", "respond-async");
  } else if (prefer.wait) {
    response.headers.emplace_back("Preference-Applied",
                                  "wait=" + std::to_string(prefer.wait->count() / 1000));
  }
}

http::Response accepted(const v1alpha1::Operation& operation) {
  http::Response response;
  response.status = 202;
  response.headers.emplace_back("Location", "/v1/operations/" + operation.id());
  response.body = operation_json(operation);
  return response;
}

http::Response done(Call& call, const Backend::Actor& actor, const std::string& snapshot) {
  http::Response response;
  const Result<Backend::Snapshot> made =
      snapshot.empty() ? fail(Errc::NotFound, "") : call.backend().snapshot(snapshot);
  if (made) {
    response.status = 201;
    response.headers.emplace_back("Location", "/v1/snapshots/" + snapshot);
    response.body = snapshot_json(**made);
    return response;
  }
  if (actor == nullptr) {
    response.status = 204;  // deleted
    return response;
  }
  response.headers.emplace_back("ETag", '"' + actor->metadata().resource_version() + '"');
  response.body = *call.services.cache.json(*actor);
  return response;
}

/// 202 while it runs; the actor, the new snapshot, 204 or the stored problem once it ended within
/// `wait`.
async::Task<Status> reply_operation(Call& call, std::string id, Prefer prefer) {
  const std::chrono::milliseconds wait = prefer.wait.value_or(std::chrono::milliseconds(0));
  auto operation = co_await call.backend().operation(std::move(id), wait);
  if (!operation) {
    co_return fail(std::move(operation).error());
  }
  http::Response response =
      prefer.respond_async ? accepted(**operation) : outcome_of(call, **operation);
  add_applied(prefer, response);
  Status sent = co_await call.reply(std::move(response));
  co_return sent;
}

async::Task<Status> run_verb(Call& call, Verb verb, engine::VerbOptions options) {
  ATE_CO_ASSIGN(engine::ActorKey key, call.actor_key());
  ATE_CO_ASSIGN(options.if_match, call.if_match());
  ATE_CO_ASSIGN(const Prefer prefer,
                parse_prefer(call.request().headers, call.services.options.longest_wait));
  options.wait = !prefer.respond_async && !prefer.wait;
  engine::Caller caller = call.caller();
  auto ran = co_await call.backend().run(verb, key, std::move(options), std::move(caller));
  if (!ran) {
    co_return fail(std::move(ran).error());
  }
  if (!ran->finished && !ran->operation.empty()) {
    Status replied = co_await reply_operation(call, ran->operation, prefer);
    co_return replied;
  }
  http::Response response = done(call, ran->actor, ran->snapshot);
  add_applied(prefer, response);
  Status sent = co_await call.reply(std::move(response));
  co_return sent;
}

/// What the verb leaves behind; null once it is gone.
Backend::Actor actor_of(const Call& call, const v1alpha1::Operation& operation) {
  const v1alpha1::ActorRef& ref = operation.actor();
  Result<Backend::Actor> actor = call.backend().actor(engine::ActorKey{ref.atespace(), ref.uid()});
  return actor ? std::move(*actor) : nullptr;
}

}  // namespace

http::Response outcome_of(Call& call, const v1alpha1::Operation& operation) {
  switch (operation.state()) {
    case v1alpha1::Operation::FAILED:
    case v1alpha1::Operation::CANCELLED:
      return operation.error_json().empty() ? accepted(operation) : stored_problem(operation);
    case v1alpha1::Operation::DONE: {
      const Backend::Actor actor = actor_of(call, operation);
      return actor != nullptr && operation.verb() == "create"
                 ? created(*actor)
                 : done(call, actor, operation.snapshot());
    }
    default:  // protobuf enumerations are open
      return accepted(operation);
  }
}

async::Task<Status> delete_actor(Call& call) {
  ATE_CO_ASSIGN(const bool force, call.query_flag("force"));
  engine::VerbOptions options;
  Status replied =
      co_await run_verb(call, force ? Verb::DeleteForce : Verb::Delete, std::move(options));
  co_return replied;
}

async::Task<Status> resume_actor(Call& call) {
  ATE_CO_ASSIGN(const auto request, parse_body<v1alpha1::ResumeRequest>(call.request().body));
  engine::VerbOptions options;
  options.boot = request.boot();
  Status replied = co_await run_verb(call, Verb::Resume, std::move(options));
  co_return replied;
}

async::Task<Status> pause_actor(Call& call) {
  ATE_CO_ASSIGN(engine::VerbOptions options,
                save_options<v1alpha1::PauseRequest>(call.request().body));
  Status replied = co_await run_verb(call, Verb::Pause, std::move(options));
  co_return replied;
}

async::Task<Status> suspend_actor(Call& call) {
  ATE_CO_ASSIGN(engine::VerbOptions options,
                save_options<v1alpha1::SuspendRequest>(call.request().body));
  Status replied = co_await run_verb(call, Verb::Suspend, std::move(options));
  co_return replied;
}

async::Task<Status> revert_actor(Call& call) {
  ATE_CO_ASSIGN(const auto request, parse_body<v1alpha1::RevertRequest>(call.request().body));
  engine::VerbOptions options;
  options.keep_volumes = request.keep_volumes();
  Status replied = co_await run_verb(call, Verb::Revert, std::move(options));
  co_return replied;
}

async::Task<Status> make_snapshot(Call& call) {
  ATE_CO_ASSIGN(const auto request, parse_body<v1alpha1::SnapshotRequest>(call.request().body));
  std::vector<Problem> problems = core::validate(request.metadata());
  if (!problems.empty()) {
    co_return fail(core::to_error(std::move(problems)));
  }
  engine::VerbOptions options;
  options.metadata = std::make_shared<v1alpha1::SnapshotMetadata>(request.metadata());
  Status replied = co_await run_verb(call, Verb::Snapshot, std::move(options));
  co_return replied;
}

}  // namespace ate::api
