#include "api/handlers.hpp"
#include "ate/codec/codec.hpp"
#include "ate/core/json.hpp"
#include "ate/v1alpha1/requests.pb.h"

namespace ate::api {

namespace {

std::string part_json(const Backend::StoragePart& part) {
  core::JsonObject object;
  object.text("name", part.name).number("count", part.count);
  object.number("logicalBytes", part.logical_bytes);
  object.number("allocatedBytes", part.allocated_bytes);
  return std::move(object).finish();
}

std::string items_json(const std::vector<Backend::StorageItem>& items) {
  std::vector<std::string> out;
  out.reserve(items.size());
  for (const Backend::StorageItem& item : items) {
    core::JsonObject object;
    object.text("kind", item.kind).text("id", item.id).number("bytes", item.bytes);
    object.text("reason", item.reason);
    out.push_back(std::move(object).finish());
  }
  return core::json_array(out);
}

}  // namespace

async::Task<Status> get_storage(Call& call) {
  auto report = co_await call.backend().storage();
  if (!report) {
    co_return fail(std::move(report).error());
  }
  std::vector<std::string> parts;
  for (const Backend::StoragePart& part : report->parts) {
    parts.push_back(part_json(part));
  }
  core::JsonObject object;
  object.text("kind", "Storage").raw("parts", core::json_array(parts));
  object.number("freeBytes", report->free_bytes).number("reserveBytes", report->reserve_bytes);
  object.number("usedBytes", report->used_bytes).number("budgetBytes", report->budget_bytes);
  object.boolean("overBudget",
                 report->budget_bytes > 0 && report->used_bytes > report->budget_bytes);
  object.raw("collectable", items_json(report->collectable)).text("blocked", report->blocked);
  std::string body = std::move(object).finish();
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> collect_storage(Call& call) {
  v1alpha1::CollectRequest request;
  if (!call.request().body.empty()) {
    ATE_CO_TRY(codec::from_json(call.request().body, {}, request));
  }
  auto collected = co_await call.backend().collect(request.dry_run());
  if (!collected) {
    co_return fail(std::move(collected).error());
  }
  core::JsonObject object;
  object.text("kind", "Collection").boolean("dryRun", request.dry_run());
  object.raw("items", items_json(collected->items)).number("bytes", collected->bytes);
  object.text("blocked", collected->blocked);
  std::string body = std::move(object).finish();
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

}  // namespace ate::api
