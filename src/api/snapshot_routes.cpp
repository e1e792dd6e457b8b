#include <algorithm>

#include "api/handlers.hpp"
#include "api/paging.hpp"
#include "ate/codec/codec.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::api {

namespace {

async::Task<Status> reply_list(Call& call, std::vector<Backend::Snapshot> snapshots) {
  ATE_CO_ASSIGN(const PageRequest page, page_request(call));
  const std::vector<std::string> tags = call.query_values("tag");
  std::erase_if(snapshots, [&tags](const Backend::Snapshot& snapshot) {
    const auto& own = snapshot->metadata().tags();
    return std::ranges::any_of(
        tags, [&own](const std::string& tag) { return std::ranges::find(own, tag) == own.end(); });
  });
  std::string body = page_json(
      "SnapshotList", std::move(snapshots), page,
      [](const v1alpha1::Snapshot& snapshot) { return snapshot.id(); }, snapshot_json);
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

}  // namespace

std::string snapshot_json(const v1alpha1::Snapshot& snapshot) {
  return codec::to_json(snapshot, {});  // its own `kind` stands where an object has its type
}

async::Task<Status> list_actor_snapshots(Call& call) {
  ATE_CO_ASSIGN(engine::ActorKey key, call.actor_key());
  const Result<Backend::Actor> actor = call.backend().actor(key);
  if (!actor) {
    co_return fail(actor.error());
  }
  auto snapshots = call.backend().snapshots(std::move(key));
  Status sent = co_await reply_list(call, std::move(snapshots));
  co_return sent;
}

async::Task<Status> list_snapshots(Call& call) {
  auto snapshots = call.backend().snapshots(std::nullopt);
  Status sent = co_await reply_list(call, std::move(snapshots));
  co_return sent;
}

async::Task<Status> get_snapshot(Call& call) {
  ATE_CO_ASSIGN(const Backend::Snapshot snapshot, call.backend().snapshot(call.param("id")));
  std::string body = snapshot_json(*snapshot);
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> patch_snapshot(Call& call) {
  std::string id = call.param("id");
  std::string patch = std::move(call.request().body);
  engine::Caller caller = call.caller();
  auto patched =
      co_await call.backend().patch_snapshot(std::move(id), std::move(patch), std::move(caller));
  if (!patched) {
    co_return fail(std::move(patched).error());
  }
  std::string body = snapshot_json(**patched);
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> delete_snapshot(Call& call) {
  std::string id = call.param("id");
  engine::Caller caller = call.caller();
  Status removed = co_await call.backend().remove_snapshot(std::move(id), std::move(caller));
  ATE_CO_TRY(std::move(removed));
  Status sent = co_await call.reply_json(204, {});
  co_return sent;
}

async::Task<Status> verify_snapshot(Call& call) {
  std::string id = call.param("id");
  Status verified = co_await call.backend().verify_snapshot(id);
  ATE_CO_TRY(std::move(verified));
  ATE_CO_ASSIGN(const Backend::Snapshot snapshot, call.backend().snapshot(id));
  std::string body = snapshot_json(*snapshot);
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

}  // namespace ate::api
