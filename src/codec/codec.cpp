#include "ate/codec/codec.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include <algorithm>

#include "codec/json_read.hpp"
#include "codec/mapper.hpp"

namespace ate::codec {

namespace pb = google::protobuf;

Error problems_error(std::vector<Problem> problems) {
  const auto is_request_fault = [](const Problem& problem) {
    return problem.code == Errc::Malformed || problem.code == Errc::UnknownField ||
           problem.code == Errc::InvalidType;
  };
  // What is malformed decides the answer (400), also when values are wrong too.
  auto it = std::find_if(problems.begin(), problems.end(), is_request_fault);
  if (it == problems.end()) {
    it = problems.begin();
  }
  std::string text = it->field.empty() ? it->detail : it->field + ": " + it->detail;
  if (problems.size() > 1) {
    text += " (and " + std::to_string(problems.size() - 1) + " more)";
  }
  Error error(it->code, std::move(text));
  std::string field = it->field;
  return std::move(error).with_field(std::move(field)).with_problems(std::move(problems));
}

Status from_json(std::string_view text, std::string_view kind, pb::Message& message) {
  ATE_ASSIGN(const Node root, read_json(text));
  std::vector<Problem> problems;
  Mapper mapper(problems, Mapper::Places::Hidden, {});
  message.Clear();
  mapper.object(root, kind, message);
  if (!problems.empty()) {
    return fail(problems_error(std::move(problems)));
  }
  return {};
}

std::vector<Problem> without_echoes(const std::vector<Problem>& known, std::vector<Problem> found) {
  const auto holds = [](const std::string& outer, const std::string& inner) {
    return inner.starts_with(outer) && (inner.size() == outer.size() ||
                                        inner[outer.size()] == '.' || inner[outer.size()] == '[');
  };
  const auto is_echo = [&](const Problem& problem) {
    return std::any_of(known.begin(), known.end(), [&](const Problem& other) {
      // A problem without a path is one of the whole text: nothing in it was read.
      return other.field.empty() || holds(other.field, problem.field) ||
             holds(problem.field, other.field);
    });
  };
  std::erase_if(found, is_echo);
  return found;
}

Error with_findings(Error error, std::vector<Problem> found) {
  found = without_echoes(error.problems(), std::move(found));
  if (found.empty()) {
    return error;
  }
  found.insert(found.begin(), error.problems().begin(), error.problems().end());
  return problems_error(std::move(found));
}

std::string canonical_bytes(const pb::Message& message) {
  std::string bytes;
  {
    pb::io::StringOutputStream stream(&bytes);
    pb::io::CodedOutputStream output(&stream);
    output.SetSerializationDeterministic(true);
    // IGNORED: writing to a string cannot fail, and proto3 has no required fields.
    static_cast<void>(message.SerializeToCodedStream(&output));
  }
  return bytes;
}

}  // namespace ate::codec
