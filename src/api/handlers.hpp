#pragma once

#include "api/call.hpp"

/// Handlers of the route table, by file.
namespace ate::api {

// node_routes.cpp
[[nodiscard]] async::Task<Status> get_healthz(Call& call);
[[nodiscard]] async::Task<Status> get_readyz(Call& call);
[[nodiscard]] async::Task<Status> get_version(Call& call);
[[nodiscard]] async::Task<Status> get_openapi(Call& call);
[[nodiscard]] async::Task<Status> list_problems(Call& call);
[[nodiscard]] async::Task<Status> get_problem(Call& call);
[[nodiscard]] async::Task<Status> list_workers(Call& call);
[[nodiscard]] async::Task<Status> get_worker(Call& call);
[[nodiscard]] async::Task<Status> get_capacity(Call& call);
[[nodiscard]] async::Task<Status> list_files(Call& call);
/// Part of the design, not of this version.
[[nodiscard]] async::Task<Status> not_yet_supported(Call& call);

// object_routes.cpp
[[nodiscard]] async::Task<Status> list_templates(Call& call);
[[nodiscard]] async::Task<Status> get_template(Call& call);
[[nodiscard]] async::Task<Status> put_template(Call& call);
[[nodiscard]] async::Task<Status> delete_template(Call& call);
[[nodiscard]] async::Task<Status> list_pools(Call& call);
[[nodiscard]] async::Task<Status> get_pool(Call& call);
[[nodiscard]] async::Task<Status> put_pool(Call& call);
[[nodiscard]] async::Task<Status> delete_pool(Call& call);
[[nodiscard]] async::Task<Status> list_sandbox_configs(Call& call);
[[nodiscard]] async::Task<Status> get_sandbox_config(Call& call);
[[nodiscard]] async::Task<Status> put_sandbox_config(Call& call);
[[nodiscard]] async::Task<Status> delete_sandbox_config(Call& call);

// validate_route.cpp
[[nodiscard]] async::Task<Status> post_validate(Call& call);

// actor_routes.cpp
[[nodiscard]] async::Task<Status> create_actor(Call& call);
/// 201 with the actor's place and tag.
[[nodiscard]] http::Response created(const v1alpha1::Actor& actor);
[[nodiscard]] async::Task<Status> list_actors(Call& call);
[[nodiscard]] async::Task<Status> get_actor(Call& call);
[[nodiscard]] async::Task<Status> patch_actor(Call& call);
[[nodiscard]] async::Task<Status> signal_actor(Call& call);

// verb_routes.cpp
/// What a call that began `operation` is answered: 202 while it runs, then what came of it.
[[nodiscard]] http::Response outcome_of(Call& call, const v1alpha1::Operation& operation);
[[nodiscard]] async::Task<Status> delete_actor(Call& call);
[[nodiscard]] async::Task<Status> resume_actor(Call& call);
[[nodiscard]] async::Task<Status> pause_actor(Call& call);
[[nodiscard]] async::Task<Status> suspend_actor(Call& call);
[[nodiscard]] async::Task<Status> revert_actor(Call& call);
[[nodiscard]] async::Task<Status> make_snapshot(Call& call);

// exec_route.cpp
[[nodiscard]] async::Task<Status> exec_actor(Call& call);

// proxy_route.cpp
[[nodiscard]] async::Task<Status> proxy(Call& call);
[[nodiscard]] async::Task<Status> tunnel(Call& call);

// storage_routes.cpp
[[nodiscard]] async::Task<Status> get_storage(Call& call);
[[nodiscard]] async::Task<Status> collect_storage(Call& call);

// log_route.cpp
[[nodiscard]] async::Task<Status> get_logs(Call& call);

// snapshot_routes.cpp
/// As every answer about one has it.
[[nodiscard]] std::string snapshot_json(const v1alpha1::Snapshot& snapshot);
[[nodiscard]] async::Task<Status> list_actor_snapshots(Call& call);
[[nodiscard]] async::Task<Status> list_snapshots(Call& call);
[[nodiscard]] async::Task<Status> get_snapshot(Call& call);
[[nodiscard]] async::Task<Status> patch_snapshot(Call& call);
[[nodiscard]] async::Task<Status> delete_snapshot(Call& call);
[[nodiscard]] async::Task<Status> verify_snapshot(Call& call);

// journal_routes.cpp
[[nodiscard]] async::Task<Status> list_operations(Call& call);
[[nodiscard]] async::Task<Status> get_operation(Call& call);
[[nodiscard]] async::Task<Status> get_events(Call& call);

// event_stream.cpp
/// Id of the newest event; 0 when there is none.
[[nodiscard]] async::Task<Result<std::int64_t>> newest_event(Call& call);
/// `?follow=true`: server-sent events from `since` on until the client goes.
[[nodiscard]] async::Task<Status> stream_events(Call& call, std::int64_t since);

}  // namespace ate::api
