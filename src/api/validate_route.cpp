#include <algorithm>

#include "api/handlers.hpp"
#include "api/json.hpp"
#include "ate/codec/codec.hpp"
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

bool is_syntax(const Problem& problem) {
  return problem.code == Errc::Malformed || problem.code == Errc::UnknownField ||
         problem.code == Errc::InvalidType;
}

Error report(std::vector<Problem> problems) {
  const auto syntax = std::find_if(problems.begin(), problems.end(), is_syntax);
  const Errc code = syntax == problems.end() ? problems.front().code : syntax->code;
  std::string detail =
      problems.size() == 1
          ? problems.front().detail
          : std::to_string(problems.size()) + " problems; the first: " + problems.front().detail;
  return Error(code, std::move(detail)).with_problems(std::move(problems));
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
    for (Problem& problem : checked.problems) {
      if (problem.line == 0) {
        problem.line = document.line;
        problem.column = 1;
      }
      problems.push_back(std::move(problem));
    }
    JsonObject item;
    item.text("kind", document.kind).text("name", checked.name).number("line", document.line);
    items.push_back(std::move(item).finish());
  }
  if (documents.empty()) {
    co_return fail(Errc::Malformed, "the body holds no document");
  }
  if (!problems.empty()) {
    co_return fail(report(std::move(problems)));
  }
  JsonObject object;
  object.text("kind", "Validation").boolean("valid", true).raw("documents", json_array(items));
  std::string body = std::move(object).finish();
  Status sent = co_await call.reply_json(200, std::move(body));
  co_return sent;
}

}  // namespace ate::api
