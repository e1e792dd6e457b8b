#include <fmt/format.h>

#include "api/handlers.hpp"
#include "api/paging.hpp"
#include "api/router.hpp"
#include "ate/api/problems.hpp"
#include "ate/codec/codec.hpp"
#include "ate/core/json.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::api {

namespace {

std::string html_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string problem_page(const ProblemKind& kind, bool html) {
  if (!html) {
    return fmt::format("{} ({})\n/v1/problems/{}\n\n{}\n", kind.title, kind.status, kind.slug,
                       kind.explanation);
  }
  return fmt::format(
      "<!doctype html><html lang=\"en\"><title>{0}</title><h1>{0}</h1><p><code>{1}</code>, HTTP "
      "status {2}</p><p>{3}</p></html>\n",
      html_escape(kind.title), kind.slug, kind.status, html_escape(kind.explanation));
}

std::string check_json(const Check& check) {
  core::JsonObject object;
  object.text("name", check.name).boolean("ok", check.ok).text("detail", check.detail);
  return std::move(object).finish();
}

std::string file_json(const objects::Catalog::FileStatus& file) {
  core::JsonObject object;
  object.text("path", file.path).text("digest", file.digest);
  object.boolean("ok", file.problems.empty());
  object.strings("objects", file.objects).raw("problems", problem_list(file.problems));
  return std::move(object).finish();
}

/// An enumerator is its JSON name.
bool is_class(const v1alpha1::Worker& worker, const std::string& name) {
  return v1alpha1::SandboxClass_Name(worker.sandbox_class()) == name;
}

}  // namespace

async::Task<Status> get_healthz(Call& call) {
  Status sent = co_await call.reply_json(200, R"({"ok":true})");
  co_return sent;
}

async::Task<Status> get_readyz(Call& call) {
  std::vector<std::string> items;
  bool ready = true;
  for (const Check& check : call.backend().checks()) {
    ready = ready && check.ok;
    items.push_back(check_json(check));
  }
  core::JsonObject object;
  object.boolean("ready", ready).text("enforcement", call.backend().enforcement());
  object.raw("checks", core::json_array(items));
  http::Response response;
  response.status = ready ? 200 : 503;
  response.body = std::move(object).finish();
  if (!ready) {
    response.headers.emplace_back("Retry-After", "1");
  }
  Status sent = co_await call.reply(std::move(response));
  co_return sent;
}

async::Task<Status> get_version(Call& call) {
  core::JsonObject object;
  object.text("version", call.services.options.version);
  object.text("commit", call.services.options.commit);
  object.text("api", "v1").text("apiVersion", "ate.dev/v1alpha1");
  std::string body = std::move(object).finish();
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> get_openapi(Call& call) {
  std::string body = openapi_json();
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> list_problems(Call& call) {
  std::vector<std::string> items;
  for (const ProblemKind& kind : problem_kinds()) {
    core::JsonObject object;
    object.text("type", "/v1/problems/" + std::string(kind.slug)).text("title", kind.title);
    object.number("status", kind.status).text("explanation", kind.explanation);
    items.push_back(std::move(object).finish());
  }
  std::string body = list_json("ProblemList", items, {});
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> get_problem(Call& call) {
  const ProblemKind* kind = find_problem_kind(call.param("slug"));
  if (kind == nullptr) {
    co_return fail(Errc::NotFound, "no kind of problem of that name; /v1/problems lists them");
  }
  const auto accept = http::find_header(call.request().headers, "Accept");
  const bool html = accept && accept->find("text/html") != std::string_view::npos;
  http::Response response;
  response.content_type = html ? "text/html; charset=utf-8" : "text/plain; charset=utf-8";
  response.body = problem_page(*kind, html);
  Status sent = co_await call.reply(std::move(response));
  co_return sent;
}

async::Task<Status> list_workers(Call& call) {
  ATE_CO_ASSIGN(const PageRequest page, page_request(call));
  const auto sandbox_class = call.query_value("class");
  const auto pool = call.query_value("pool");
  if (sandbox_class && *sandbox_class != "gvisor" && *sandbox_class != "microvm") {
    co_return fail(
        Error(Errc::Malformed, "query parameter class is gvisor or microvm").with_field("class"));
  }
  std::vector<Backend::Worker> workers = call.backend().workers();
  std::erase_if(workers, [&](const Backend::Worker& worker) {
    return (pool && worker->pool() != *pool) ||
           (sandbox_class && !is_class(*worker, *sandbox_class));
  });
  std::string body = page_json(
      "WorkerList", std::move(workers), page,
      [](const v1alpha1::Worker& worker) { return worker.name(); },
      [](const v1alpha1::Worker& worker) { return codec::to_json(worker, "Worker"); });
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> get_worker(Call& call) {
  ATE_CO_ASSIGN(const Backend::Worker worker, call.backend().worker(call.param("name")));
  std::string body = codec::to_json(*worker, "Worker");
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> list_files(Call& call) {
  std::vector<std::string> items;
  for (const objects::Catalog::FileStatus& file : call.backend().files()) {
    items.push_back(file_json(file));
  }
  std::string body = list_json("FileList", items, {});
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

async::Task<Status> not_yet_supported(Call& call) {
  co_return fail(Errc::NotYetSupported, call.request().method + " " + call.request().path +
                                            " is not part of this version");
}

}  // namespace ate::api
