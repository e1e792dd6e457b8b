#include <chrono>

#include "ate/codec/codec.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "cpu_time.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::codec;

namespace {

const std::string kHead = "apiVersion: ate.dev/v1alpha1\nkind: WorkerPool\n";

Problem only_problem(const std::string& text) {
  INFO(text.substr(0, 300));
  const std::vector<Document> documents = parse_yaml(text, "f.yaml");
  REQUIRE(documents.size() == 1);
  REQUIRE(documents[0].problems.size() == 1);
  REQUIRE(documents[0].problems[0].file == "f.yaml");
  return documents[0].problems[0];
}

std::unique_ptr<google::protobuf::Message> good(const std::string& text) {
  std::vector<Document> documents = parse_yaml(text, "f.yaml");
  REQUIRE(documents.size() == 1);
  if (!documents[0].problems.empty()) {
    const Problem& problem = documents[0].problems[0];
    FAIL(problem.field << ": " << problem.detail << " at " << problem.line << ":"
                       << problem.column);
  }
  return std::move(documents[0].message);
}

const v1alpha1::WorkerPool& as_pool(const std::unique_ptr<google::protobuf::Message>& message) {
  return dynamic_cast<const v1alpha1::WorkerPool&>(*message);
}

}  // namespace

TEST_CASE("yaml: the examples are read, and equal their JSON") {
  std::size_t count = 0;
  for (const std::string& text : {test::kNodeYaml, test::kGvisorYaml, test::kKataYaml}) {
    for (const Document& document : parse_yaml(text, "f.yaml")) {
      for (const Problem& problem : document.problems) {
        FAIL(problem.field << ": " << problem.detail << " at " << problem.line << ":"
                           << problem.column);
      }
      ++count;
      const std::string json = to_json(*document.message, document.kind);
      const std::unique_ptr<google::protobuf::Message> again(document.message->New());
      REQUIRE(from_json(json, document.kind, *again));
      REQUIRE(canonical_bytes(*again) == canonical_bytes(*document.message));
      // JSON is the flow subset of YAML.
      const std::vector<Document> from_yaml = parse_yaml(json, "f.json");
      REQUIRE(from_yaml.size() == 1);
      REQUIRE(from_yaml[0].problems.empty());
      REQUIRE(canonical_bytes(*from_yaml[0].message) == canonical_bytes(*document.message));
    }
  }
  REQUIRE(count == 5);
}

TEST_CASE("yaml: values of the example arrive as written") {
  const std::vector<Document> documents = parse_yaml(test::kGvisorYaml, "gvisor.yaml");
  REQUIRE(documents.size() == 3);
  REQUIRE(documents[0].line == 2);
  REQUIRE(documents[1].line == 12);
  REQUIRE(documents[2].line == 21);
  const auto& pool = dynamic_cast<const v1alpha1::WorkerPool&>(*documents[1].message);
  REQUIRE(pool.spec().replicas() == 4);
  REQUIRE(pool.spec().resources().limits().pids() == "4096");
  REQUIRE(pool.spec().resources().limits().cpu() == "1");
  const auto& source = dynamic_cast<const v1alpha1::ActorTemplate&>(*documents[2].message);
  const auto& container = source.spec().containers(0);
  REQUIRE(container.image() == "oci-archive:/srv/images/counter.tar");
  REQUIRE(container.env(0).value() == "8080");
  REQUIRE(container.volume_mounts(1).read_only());
  REQUIRE(source.spec().volumes(1).has_system_info());
}

TEST_CASE("yaml: an unknown field has its path, line and column") {
  const Problem problem = only_problem(kHead + "metadata: {name: x}\nspec:\n  replica: 3\n");
  REQUIRE(problem.code == Errc::UnknownField);
  REQUIRE(problem.field == "spec.replica");
  REQUIRE(problem.line == 5);
  REQUIRE(problem.column == 3);
  REQUIRE(problem.detail.find("replicas") != std::string::npos);
}

TEST_CASE("yaml: plain scalars that other readers take for no string need quotes") {
  for (const char* value : {"true", "False", "null", "~", "12", "-3", "1.5", "1e3", "0x1F", "0o17",
                            "007", "1_000", ".inf", "-.INF", ".nan", "+1", ".5", "TRUE", "1."}) {
    INFO(value);
    const Problem problem = only_problem(kHead + "metadata: {name: " + value + "}\n");
    REQUIRE(problem.code == Errc::InvalidType);
    REQUIRE(problem.field == "metadata.name");
  }
  for (const char* value : {"no", "off", "yes", "1.2.3", "2026-11-30", "12ab", "1Gi", "0.5x", "e1",
                            "a:b", "\"12\"", "'true'", "-x", "10m"}) {
    INFO(value);
    REQUIRE(good(kHead + "metadata: {name: " + value + "}\n"));
  }
  REQUIRE(only_problem(kHead + "metadata: {labels: {12: a}}\n").field == "metadata.labels.12");
  REQUIRE(good(kHead + "metadata: {labels: {\"12\": a}}\n"));
}

TEST_CASE("yaml: a line that stands too far left or right is told as such") {
  const Problem left = only_problem(kHead + "spec:\n  list:\n  - a: b\n   c: d\n");
  REQUIRE(left.code == Errc::Malformed);
  REQUIRE(left.line == 6);
  REQUIRE(left.detail.find("indentation") != std::string::npos);
}

TEST_CASE("yaml: numbers are plain decimals, booleans true and false") {
  for (const char* value : {"0x10", "0o7", "010", "1_0", "1e1", "\"4\"", "4.0", "+4", "four", "[4]",
                            "{}", "~", "true"}) {
    INFO(value);
    REQUIRE(only_problem(kHead + "spec: {replicas: " + value + "}\n").code == Errc::InvalidType);
  }
  REQUIRE(only_problem(kHead + "spec: {replicas: 4294967296}\n").code == Errc::InvalidValue);
  const std::string config = "apiVersion: ate.dev/v1alpha1\nkind: SandboxConfig\n";
  for (const char* value : {"yes", "on", "True", "1", "\"true\""}) {
    REQUIRE(only_problem(config + "spec: {default: " + value + "}\n").code == Errc::InvalidType);
  }
  REQUIRE(good(config + "spec: {default: true}\n"));
}

TEST_CASE("yaml: quantities may be plain, `off` is a word") {
  const auto message = good(
      "apiVersion: ate.dev/v1alpha1\nkind: NodeConfig\nspec: {enforcement: off, overhead: "
      "{gvisor: {fixed: 0, percent: 0.5}}}\n");
  const auto& config = dynamic_cast<const v1alpha1::NodeConfig&>(*message);
  REQUIRE(config.spec().enforcement() == "off");
  REQUIRE(config.spec().overhead().gvisor().fixed() == "0");
  const auto pool = good(kHead + "spec: {resources: {limits: {cpu: 0.5, memory: 0x10}}}\n");
  REQUIRE(as_pool(pool).spec().resources().limits().memory() == "0x10");  // validate refuses it
}

TEST_CASE("yaml: duplicate keys are refused with both lines") {
  const Problem problem =
      only_problem(kHead + "metadata:\n  name: a\n  labels: {x: y}\n  name: b\n");
  REQUIRE(problem.code == Errc::Malformed);
  REQUIRE(problem.field == "metadata.name");
  REQUIRE(problem.detail.find("lines 4 and 6") != std::string::npos);
  REQUIRE(problem.line == 6);
}

TEST_CASE("yaml: texts over several lines") {
  const auto message =
      good(kHead +
           "metadata:\n  annotations:\n    a: |\n      one\n\n      two: x\n    b: "
           ">-\n      folded\n      text\n    c: \"x\n      y\"\n    d: 'it''s'\n"
           "    e: \"\\\"q\\\" # no comment\"  # comment\n  name: z\n");
  const auto& annotations = as_pool(message).metadata().annotations();
  REQUIRE(annotations.at("a") == "one\n\ntwo: x\n");
  REQUIRE(annotations.at("b") == "folded text");
  REQUIRE(annotations.at("c") == "x y");
  REQUIRE(annotations.at("d") == "it's");
  REQUIRE(annotations.at("e") == "\"q\" # no comment");
  REQUIRE(as_pool(message).metadata().name() == "z");
}

TEST_CASE("yaml: values on the line after their key, lists at the key's column") {
  const auto message = good(
      "apiVersion: ate.dev/v1alpha1\nkind:\n  ActorTemplate\nspec:\n  containers:\n  - name: a\n   "
      " "
      "command:\n      [x,\n       y]\n    args:\n    - one\n    - \"two\"\n    -\n      three\n  "
      "- "
      "name: b\n");
  const auto& source = dynamic_cast<const v1alpha1::ActorTemplate&>(*message);
  REQUIRE(source.spec().containers_size() == 2);
  REQUIRE(source.spec().containers(0).command_size() == 2);
  REQUIRE(source.spec().containers(0).args(2) == "three");
}

TEST_CASE("yaml: CRLF files are read like others") {
  std::string text =
      kHead + "metadata:\n  name: a  # c\nspec: {replicas: 2,\n  sandboxConfig: x}\n";
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\r\n");
  }
  const auto message = good(text);
  REQUIRE(as_pool(message).metadata().name() == "a");
  REQUIRE(as_pool(message).spec().replicas() == 2);
}

// Finding 6 and faults I1 to I7 of the reliability study.
TEST_CASE("yaml: what yaml-cpp hangs on or guesses at is refused at once") {
  std::string deep_flow;
  std::string deep_block;
  std::string deep_dashes;
  for (int i = 0; i < 40; ++i) {
    deep_flow += "[";
    deep_block += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
    deep_dashes += "- ";
  }
  const test::CpuTime all;
  for (const std::string& text : {
           std::string(","),
           std::string("[:"),
           std::string("{:"),
           std::string("[,"),
           std::string("{,"),
           std::string("[a: b]"),
           std::string("{a}"),
           std::string("{a:}"),
           std::string("{a: }"),
           std::string("{a: b"),
           std::string("[a"),
           std::string("]"),
           std::string("}"),
           std::string("a: b: c"),
           std::string("a: - b"),
           std::string("? a"),
           std::string(": a"),
           std::string("a: &x b"),
           std::string("&a [*a, *a]"),
           std::string("a: *x"),
           std::string("a: !!str b"),
           std::string("!x {}"),
           std::string("a: ! b"),
           std::string("%YAML 1.2"),
           std::string("a: @b"),
           std::string("a: `b"),
           std::string("\ta: b"),
           std::string("a:\tb"),
           std::string("a: b\n  c"),
           std::string("a: b\n  c: d"),
           std::string("a\nb"),
           std::string("a: \"b"),
           std::string("a: 'b"),
           std::string("a: \"b\" c"),
           std::string("a: [b] c"),
           std::string("a: |2\n  b"),
           std::string("a: |x\n  b"),
           std::string("|\n  a"),
           std::string("a: b\n---x\n..."),
           std::string("a: b\n...\nc: d"),
           std::string("a: |\n    b\n   c"),
           std::string("{[a]: b}"),
           std::string("[a]: b"),
           std::string("\"a\n b\": c"),
           std::string("--- a: b"),
           std::string("--- x"),
           std::string("a: \xff"),
           std::string("a: \x01"),
           std::string("\xef\xbb\xbf"
                       "a: b"),
           std::string("a: b\rc: d"),
           std::string("a: \xc2\x85"),
           std::string("a: \xed\xa0\x80"),
           std::string("a\0b", 3),
           deep_flow,
           deep_block,
           deep_dashes + "a",
           std::string(1'000'000, '['),
           std::string(1'000'000, '{'),
           std::string(1'000'000, ','),
           std::string(1'000'000, '\''),
           std::string(1'000'000, '-'),
           std::string(1'000'000, 'a'),
           std::string(1'000'000, '\n') + "[",
           std::string((1U << 20U) + 1, ' '),
       }) {
    INFO(text.substr(0, 60));
    const test::CpuTime timer;
    const std::vector<Document> documents = parse_yaml(text, "f.yaml");
    REQUIRE(timer.spent() < std::chrono::seconds(1));
    REQUIRE_FALSE(documents.empty());
    bool refused = false;
    for (const Document& document : documents) {
      for (const Problem& problem : document.problems) {
        refused = true;
        REQUIRE(problem.line > 0);
        REQUIRE(problem.column > 0);
      }
    }
    REQUIRE(refused);
  }
  REQUIRE(all.spent() < std::chrono::seconds(10));
}

TEST_CASE("yaml: a megabyte of keys ends in bounded time") {
  std::string keys;
  for (int i = 0; keys.size() < 1'000'000; ++i) {
    keys += "k" + std::to_string(i) + ": 1\n";
  }
  std::string dashes;
  while (dashes.size() < 1'000'000) {
    dashes += "- a\n";
  }
  std::string flow = "[";
  while (flow.size() < 1'000'000) {
    flow += "a,";
  }
  for (const std::string& text : {keys, dashes, flow + "a]"}) {
    const test::CpuTime timer;
    const std::vector<Document> documents = parse_yaml(text, "f.yaml");
    REQUIRE(timer.spent() < std::chrono::seconds(5));
    REQUIRE(documents.size() == 1);
    REQUIRE_FALSE(documents[0].problems.empty());
    REQUIRE(documents[0].problems.size() <= 101);
  }
}

TEST_CASE("yaml: documents keep the file's line numbers and fail alone") {
  const std::string text = "---\n# only a comment\n---\n" + kHead + "spec: {bad: 1}\n--- # c\n" +
                           kHead + "metadata: {name: b}\n---\nkind: Nothing\n---\n";
  const std::vector<Document> documents = parse_yaml(text, "f.yaml");
  REQUIRE(documents.size() == 3);
  REQUIRE(documents[0].problems.at(0).line == 6);
  REQUIRE(documents[1].problems.empty());
  REQUIRE(documents[1].line == 8);
  REQUIRE(documents[2].problems.size() == 2);
  REQUIRE(documents[2].problems[0].field == "apiVersion");
  REQUIRE(documents[2].problems[1].field == "kind");
  REQUIRE(documents[2].problems[1].line == 12);
  REQUIRE(parse_yaml("", "f.yaml").empty());
  REQUIRE(parse_yaml("# nothing\n\n", "f.yaml").empty());
}

TEST_CASE("yaml: a wrong apiVersion or kind is named") {
  REQUIRE(only_problem("apiVersion: v1\nkind: WorkerPool\n").field == "apiVersion");
  REQUIRE(only_problem("apiVersion: ate.dev/v1alpha1\nkind: Actor\n").detail.find("API") !=
          std::string::npos);
  REQUIRE(only_problem("- a\n- b\n").code == Errc::InvalidType);
}

TEST_CASE("yaml: problems found later get the place of their path or of what holds it") {
  const std::vector<Document> documents = parse_yaml(
      "---\n" + kHead + "metadata:\n  name: x\nspec:\n  resources: {limits: {cpu: 1}}\n", "f.yaml");
  REQUIRE(documents.size() == 1);
  REQUIRE(documents[0].problems.empty());
  std::vector<Problem> problems(3);
  problems[0].field = "metadata.name";
  problems[1].field = "spec.resources.limits.memory";
  problems[2].field = "status";
  place_problems(documents[0], problems);
  REQUIRE(problems[0].line == 5);
  REQUIRE(problems[0].column == 9);
  REQUIRE(problems[0].file == "f.yaml");
  REQUIRE(problems[1].line == 7);
  REQUIRE(problems[1].column == 23);
  REQUIRE(problems[2].line == 2);
}
