#include "api/handlers.hpp"
#include "ate/codec/codec.hpp"
#include "ate/core/json.hpp"
#include "ate/core/validate.hpp"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::api {

namespace {

struct Checked {
  std::string name;
  std::vector<Problem> problems;
};

template <class T>
bool check_as(const google::protobuf::Message& message, Checked& out) {
  const T* typed = dynamic_cast<const T*>(&message);
  if (typed == nullptr) {
    return false;
  }
  out.name = typed->metadata().name();
  out.problems = core::validate(*typed);
  return true;
}

Checked check_message(const google::protobuf::Message& message) {
  Checked out;
  const bool known = check_as<v1alpha1::ActorTemplate>(message, out) ||
                     check_as<v1alpha1::WorkerPool>(message, out) ||
                     check_as<v1alpha1::SandboxConfig>(message, out) ||
                     check_as<v1alpha1::NodeConfig>(message, out);
  if (!known) {
    out.problems.push_back(
        Problem{Errc::InvalidValue, "kind", "not a kind of file object", 0, 0, {}});
  }
  return out;
}

}  // namespace

/// Syntax and values of one or more documents; whether images, assets and other objects exist is
/// not looked at, so the answer is the same on every host.
async::Task<Status> post_validate(Call& call) {
  std::vector<Problem> problems;
  std::vector<std::string> items;
  const std::vector<codec::Document> documents = codec::parse_yaml(call.request().body, {});
  for (const codec::Document& document : documents) {
    problems.insert(problems.end(), document.problems.begin(), document.problems.end());
    if (document.message == nullptr) {
      continue;
    }
    Checked checked = check_message(*document.message);
    codec::place_problems(document, checked.problems);
    problems.insert(problems.end(), checked.problems.begin(), checked.problems.end());
    core::JsonObject item;
    item.text("kind", document.kind).text("name", checked.name).number("line", document.line);
    items.push_back(std::move(item).finish());
  }
  if (documents.empty()) {
    co_return fail(Errc::Malformed, "the body holds no document");
  }
  if (!problems.empty()) {
    co_return fail(codec::problems_error(std::move(problems)));
  }
  core::JsonObject object;
  object.text("kind", "Validation")
      .boolean("valid", true)
      .raw("documents", core::json_array(items));
  std::string body = std::move(object).finish();
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

}  // namespace ate::api
