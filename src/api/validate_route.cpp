#include "api/handlers.hpp"
#include "ate/codec/codec.hpp"
#include "ate/core/json.hpp"
#include "ate/objects/check.hpp"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::api {

namespace {

struct Checked {
  std::vector<Problem> problems;
  std::vector<std::string> items;  // JSON of each document
  bool any = false;
};

template <class T>
bool name_as(const google::protobuf::Message& message, std::string& name) {
  const T* typed = dynamic_cast<const T*>(&message);
  if (typed != nullptr) {
    name = typed->metadata().name();
  }
  return typed != nullptr;
}

std::string name_of(const google::protobuf::Message& message) {
  std::string name;
  // IGNORED: a kind without a name stays without.
  static_cast<void>(name_as<v1alpha1::ActorTemplate>(message, name) ||
                    name_as<v1alpha1::WorkerPool>(message, name) ||
                    name_as<v1alpha1::SandboxConfig>(message, name) ||
                    name_as<v1alpha1::NodeConfig>(message, name));
  return name;
}

Checked check(const std::string& text) {
  Checked out;
  for (const codec::Document& document : codec::parse_yaml(text, {})) {
    out.any = true;
    std::vector<Problem> problems = objects::check_document(document);
    out.problems.insert(out.problems.end(), std::make_move_iterator(problems.begin()),
                        std::make_move_iterator(problems.end()));
    if (document.message != nullptr) {
      core::JsonObject item;
      item.text("kind", document.kind).text("name", name_of(*document.message));
      item.number("line", document.line);
      out.items.push_back(std::move(item).finish());
    }
  }
  return out;
}

}  // namespace

/// Syntax and values of one or more documents; whether images, assets and other objects exist is
/// not looked at, so the answer is the same on every host.
async::Task<Status> post_validate(Call& call) {
  // A body of the full size takes 100 ms: nobody else waits for it.
  auto job = [text = std::move(call.request().body)] { return check(text); };
  Checked checked = co_await async::run_blocking(call.services.context, std::move(job));
  if (!checked.any) {
    co_return fail(Errc::Malformed, "the body holds no document");
  }
  if (!checked.problems.empty()) {
    co_return fail(codec::problems_error(std::move(checked.problems)));
  }
  core::JsonObject object;
  object.text("kind", "Validation")
      .boolean("valid", true)
      .raw("documents", core::json_array(checked.items));
  std::string body = std::move(object).finish();
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

}  // namespace ate::api
