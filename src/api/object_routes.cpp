#include <string>

#include "api/handlers.hpp"
#include "api/paging.hpp"
#include "ate/codec/codec.hpp"
#include "ate/util/ids.hpp"
#include "ate/v1alpha1/objects.pb.h"

/// Templates, pools and sandbox configs: one implementation, told apart by a row of traits.
namespace ate::api {

namespace {

using objects::Kind;

struct KindInfo {
  Kind kind;
  std::string_view name;  // `kind` of the document
  std::string_view list;  // `kind` of the list
  std::string_view path;  // collection
  bool in_atespace;
};

constexpr KindInfo kTemplate{Kind::ActorTemplate, "ActorTemplate", "ActorTemplateList",
                             "/v1/templates/", true};
constexpr KindInfo kPool{Kind::WorkerPool, "WorkerPool", "WorkerPoolList", "/v1/pools/", false};
constexpr KindInfo kConfig{Kind::SandboxConfig, "SandboxConfig", "SandboxConfigList",
                           "/v1/sandbox-configs/", false};

/// An object as the API answers it.
struct Shown {
  std::string version;
  std::string json;
};

template <class T>
Shown show(const T& object, const KindInfo& info) {
  return Shown{object.metadata().resource_version(), codec::to_json(object, info.name)};
}

std::optional<Shown> find(const Call& call, const KindInfo& info, const std::string& atespace) {
  const std::string& name = call.param("name");
  switch (info.kind) {
    case Kind::ActorTemplate:
      if (const Backend::Template found = call.backend().find_template(atespace, name)) {
        return show(*found, info);
      }
      break;
    case Kind::WorkerPool:
      if (const Backend::Pool found = call.backend().find_pool(name)) {
        return show(*found, info);
      }
      break;
    case Kind::SandboxConfig:
      if (const Backend::Config found = call.backend().find_sandbox_config(name)) {
        return show(*found, info);
      }
      break;
  }
  return std::nullopt;
}

Shown shown_put(const objects::Catalog::Put& put, const KindInfo& info) {
  switch (info.kind) {
    case Kind::ActorTemplate:
      return show(*put.as_template, info);
    case Kind::WorkerPool:
      return show(*put.as_pool, info);
    case Kind::SandboxConfig:
      return show(*put.as_sandbox_config, info);
  }
  return {};
}

Result<std::string> space_of(const Call& call, const KindInfo& info) {
  if (!info.in_atespace) {
    return std::string();
  }
  return call.atespace();
}

template <class Items>
std::string list_of(Items items, const PageRequest& page, const KindInfo& info) {
  return page_json(
      info.list, std::move(items), page,
      [](const auto& object) { return object.metadata().name(); },
      [&](const auto& object) { return codec::to_json(object, info.name); });
}

async::Task<Status> get_object(Call& call, KindInfo info) {
  ATE_CO_ASSIGN(const std::string space, space_of(call, info));
  std::optional<Shown> found = find(call, info, space);
  if (!found) {
    co_return fail(Errc::NotFound,
                   std::string(info.name) + " " + call.param("name") + " does not exist" +
                       (info.in_atespace ? " in atespace " + space : std::string()) +
                       "; GET /v1/files tells what is wrong in the object files");
  }
  Status sent = co_await call.reply_tagged(200, std::move(found->version), std::move(found->json));
  co_return sent;
}

async::Task<Status> put_object(Call& call, KindInfo info) {
  ATE_CO_ASSIGN(const std::string space, space_of(call, info));
  ATE_CO_ASSIGN(std::optional<std::string> version, call.if_match());
  std::string name = call.param("name");
  if (!is_dns_label(name)) {
    co_return fail(Error(Errc::InvalidValue, "a name is a DNS-1123 label of at most 63 characters")
                       .with_field("metadata.name"));
  }
  const async::Mutex::Lock lock = co_await call.services.object_writes.lock();
  const auto none_match = http::find_header(call.request().headers, "If-None-Match");
  if (none_match) {
    if (*none_match != "*") {
      co_return fail(
          Error(Errc::Malformed, "If-None-Match on PUT takes only *").with_field("If-None-Match"));
    }
    if (find(call, info, space)) {
      co_return fail(Errc::PreconditionFailed,
                     std::string(info.name) + " " + name + " exists already");
    }
  }
  std::string json = std::move(call.request().body);
  auto put = co_await call.backend().put_object(info.kind, space, name, std::move(json),
                                                std::move(version));
  if (!put) {
    co_return fail(std::move(put).error());
  }
  Shown shown = shown_put(*put, info);
  Status sent = co_await call.reply_tagged(put->created ? 201 : 200, std::move(shown.version),
                                           std::move(shown.json));
  co_return sent;
}

async::Task<Status> delete_object(Call& call, KindInfo info) {
  ATE_CO_ASSIGN(const std::string space, space_of(call, info));
  ATE_CO_ASSIGN(std::optional<std::string> version, call.if_match());
  const async::Mutex::Lock lock = co_await call.services.object_writes.lock();
  Status removed = co_await call.backend().remove_object(info.kind, space, call.param("name"),
                                                         std::move(version));
  ATE_CO_TRY(std::move(removed));
  Status sent = co_await call.reply_json(204, {});
  co_return sent;
}

}  // namespace

async::Task<Status> list_templates(Call& call) {
  ATE_CO_ASSIGN(const PageRequest page, page_request(call));
  ATE_CO_ASSIGN(const std::string space, call.atespace());
  std::string body = list_of(call.backend().templates(space), page, kTemplate);
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> list_pools(Call& call) {
  ATE_CO_ASSIGN(const PageRequest page, page_request(call));
  std::string body = list_of(call.backend().pools(), page, kPool);
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> list_sandbox_configs(Call& call) {
  ATE_CO_ASSIGN(const PageRequest page, page_request(call));
  std::string body = list_of(call.backend().sandbox_configs(), page, kConfig);
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> get_template(Call& call) {
  return get_object(call, kTemplate);
}

async::Task<Status> put_template(Call& call) {
  return put_object(call, kTemplate);
}

async::Task<Status> delete_template(Call& call) {
  return delete_object(call, kTemplate);
}

async::Task<Status> get_pool(Call& call) {
  return get_object(call, kPool);
}

async::Task<Status> put_pool(Call& call) {
  return put_object(call, kPool);
}

async::Task<Status> delete_pool(Call& call) {
  return delete_object(call, kPool);
}

async::Task<Status> get_sandbox_config(Call& call) {
  return get_object(call, kConfig);
}

async::Task<Status> put_sandbox_config(Call& call) {
  return put_object(call, kConfig);
}

async::Task<Status> delete_sandbox_config(Call& call) {
  return delete_object(call, kConfig);
}

}  // namespace ate::api
