#include <google/protobuf/util/message_differencer.h>

#include "ate/codec/codec.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::codec;

namespace {

struct Outcome {
  Errc code = Errc::Internal;
  std::vector<Problem> problems;
};

template <class Message>
Outcome refuse(const std::string& text, const std::string& kind) {
  Message message;
  const Status status = from_json(text, kind, message);
  INFO(text.substr(0, 200));
  REQUIRE_FALSE(status);
  REQUIRE_FALSE(status.error().problems().empty());
  return {status.error().code(), status.error().problems()};
}

Outcome refuse_actor(const std::string& text) {
  return refuse<v1alpha1::Actor>(text, "Actor");
}

}  // namespace

TEST_CASE("json: writes the shape of the API") {
  v1alpha1::Actor actor;
  actor.mutable_metadata()->set_name("c1");
  actor.mutable_metadata()->set_atespace("default");
  actor.mutable_metadata()->set_resource_version("7");
  actor.mutable_metadata()->set_generation(1);
  actor.mutable_spec()->mutable_template_()->set_name("counter");
  actor.mutable_spec()->mutable_template_()->set_generation(9007199254740993);
  actor.mutable_spec()->set_restart_policy(v1alpha1::Never);
  actor.mutable_status()->set_reason("new");
  REQUIRE(to_json(actor, "Actor") ==
          R"({"apiVersion":"ate.dev/v1alpha1","kind":"Actor","metadata":{"name":"c1",)"
          R"("atespace":"default","resourceVersion":"7","generation":1,"labels":{}},)"
          R"("spec":{"template":{"name":"counter","generation":9007199254740993},)"
          R"("restartPolicy":"Never"},"status":{"state":"SUSPENDED","reason":"new",)"
          R"("worker":null,"snapshot":null,"pauseSnapshot":null,"lastOperation":null,)"
          R"("restarts":0}})");
}

TEST_CASE("json: maps are sorted, strings escaped, unset enumerators left out") {
  v1alpha1::WorkerPool pool;
  auto& labels = *pool.mutable_metadata()->mutable_labels();
  for (const char* key : {"b", "a", "c/d", "z", "m"}) {
    labels[key] = "x";
  }
  pool.mutable_metadata()->set_name("a\"\\\n\x01\x7f\xc3\xa4\xff");
  pool.mutable_spec();
  REQUIRE(to_json(pool, "") ==
          "{\"metadata\":{\"name\":\"a\\\"\\\\\\n\\u0001\x7f\xc3\xa4\xef\xbf\xbd\","
          "\"labels\":{\"a\":\"x\",\"b\":\"x\",\"c/d\":\"x\",\"m\":\"x\",\"z\":\"x\"}},"
          "\"spec\":{}}");
  v1alpha1::SandboxConfigSpec config;
  (*config.mutable_assets())["runsc"].set_path("/r");
  (*config.mutable_assets())["a"].set_path("/a");
  REQUIRE(to_json(config, "") == R"({"assets":{"a":{"path":"/a"},"runsc":{"path":"/r"}}})");
  v1alpha1::Operation operation;
  operation.add_stages()->set_ms(108);
  operation.add_stages()->set_ms(1.2);
  REQUIRE(
      to_json(operation, "") ==
      R"({"state":"RUNNING","finishedAt":null,"durationMs":null,"stages":[{"ms":108},{"ms":1.2}]})");
}

TEST_CASE("json: `none_` is written and read as none") {
  v1alpha1::ActorTemplateSpec spec;
  REQUIRE(from_json(R"({"egress":"none","onHostReboot":"none"})", "", spec));
  REQUIRE(spec.egress() == v1alpha1::ActorTemplateSpec::none_);
  REQUIRE(from_json(R"({"egress":"nat"})", "", spec));
  REQUIRE(to_json(spec, "") == R"({"egress":"nat"})");
  for (const char* bad : {R"({"egress":"none_"})", R"({"restartPolicy":"Unset"})",
                          R"({"sandboxClass":"unspecified"})", R"({"idle":{"action":"unset"}})",
                          R"({"snapshots":{"onPause":"UNSET"}})", R"({"restartPolicy":"never"})"}) {
    REQUIRE(refuse<v1alpha1::ActorTemplateSpec>(bad, "").code == Errc::InvalidValue);
  }
}

TEST_CASE("json: all problems at once, each with its path") {
  const Outcome outcome = refuse<v1alpha1::ActorTemplate>(
      R"({"kind":"Actor","metadata":{"name":7,"uid":"x","labels":{"a.b/c":1}},"spec":{
          "contaners":[],"containers":[{"image":null,"ports":[{"containerPort":"8080"}]}, 3],
          "resources":{"limits":{"cpu":2,"memory":true},"requests":{}}},"status":{}})",
      "ActorTemplate");
  REQUIRE(outcome.code == Errc::InvalidType);
  std::vector<std::string> paths;
  for (const Problem& problem : outcome.problems) {
    paths.push_back(problem.field);
    REQUIRE(problem.line == 0);
  }
  REQUIRE(paths == std::vector<std::string>{
                       "kind", "metadata.name", "metadata.uid", "metadata.labels[\"a.b/c\"]",
                       "spec.contaners", "spec.containers[0].image",
                       "spec.containers[0].ports[0].containerPort", "spec.containers[1]",
                       "spec.resources.limits.memory", "spec.resources.requests", "status"});
  REQUIRE(outcome.problems[2].code == Errc::UnknownField);
  REQUIRE(outcome.problems[4].detail.find("did you mean containers?") != std::string::npos);
  REQUIRE(outcome.problems[9].detail.find("only limits exist") != std::string::npos);
}

TEST_CASE("json: later findings that only echo an earlier one are left out") {
  const auto problem = [](const std::string& field) {
    Problem out;
    out.field = field;
    return out;
  };
  const std::vector<Problem> known{problem("spec.ports[0]"), problem("spec.env[1].value")};
  const std::vector<Problem> found{
      problem("spec.ports[0].name"), problem("spec.ports"),     problem("spec"),
      problem("spec.env[1].value"),  problem("spec.ports[01]"), problem("spec.portsmouth"),
      problem("spec.env[1].name"),   problem("spec.env[10]"),   problem("metadata.name")};
  std::vector<std::string> kept;
  for (const Problem& left : without_echoes(known, found)) {
    kept.push_back(left.field);
  }
  REQUIRE(kept == std::vector<std::string>{"spec.ports[01]", "spec.portsmouth", "spec.env[1].name",
                                           "spec.env[10]", "metadata.name"});
  REQUIRE(without_echoes({problem("")}, found).empty());  // the whole text is broken
  REQUIRE(without_echoes({}, found).size() == found.size());
}

TEST_CASE("json: quantities are text, numbers keep their spelling") {
  v1alpha1::Limits limits;
  REQUIRE(from_json(R"({"cpu":0.5,"memory":"1Gi","pids":4096})", "", limits));
  REQUIRE(limits.cpu() == "0.5");
  REQUIRE(limits.pids() == "4096");
  REQUIRE(from_json(R"({"cpu":1e3})", "", limits));
  REQUIRE(limits.cpu() == "1e3");  // core/validate refuses it
}

// case T7
TEST_CASE("json: integers are plain, in range, never rounded") {
  v1alpha1::WorkerPoolSpec spec;
  for (const char* bad : {"1.0", "1e3", "\"4\"", "true", "null", "[1]", "{}", "0.5"}) {
    const std::string text = std::string(R"({"replicas":)") + bad + "}";
    REQUIRE(refuse<v1alpha1::WorkerPoolSpec>(text, "").code == Errc::InvalidType);
  }
  for (const char* bad : {"2147483648", "-2147483649", "99999999999999999999999999"}) {
    const std::string text = std::string(R"({"replicas":)") + bad + "}";
    const Outcome outcome = refuse<v1alpha1::WorkerPoolSpec>(text, "");
    REQUIRE(outcome.code == Errc::InvalidValue);
    REQUIRE(outcome.problems[0].field == "replicas");
  }
  REQUIRE(from_json(R"({"replicas":-2147483648})", "", spec));
  v1alpha1::OverheadTerms terms;
  REQUIRE(refuse<v1alpha1::OverheadTerms>(R"({"percent":1e999})", "").code == Errc::InvalidValue);
  REQUIRE(from_json(R"({"percent":1.25e0})", "", terms));
  REQUIRE(terms.percent() == 1.25);
}

TEST_CASE("json: what is not one strict JSON object is malformed, with its place") {
  std::string deep;
  for (int i = 0; i < 33; ++i) {
    deep += R"({"a":)";
  }
  for (const std::string& bad : {std::string(),
                                 std::string(" "),
                                 std::string("{"),
                                 std::string("{}x"),
                                 std::string("{} {}"),
                                 std::string("{\"a\":1,}"),
                                 std::string("{'a':1}"),
                                 std::string("{\"a\":01}"),
                                 std::string("{\"a\":+1}"),
                                 std::string("{\"a\":.5}"),
                                 std::string("{\"a\":1.}"),
                                 std::string("{\"a\":1e}"),
                                 std::string("{\"a\":NaN}"),
                                 std::string("{\"a\":tru}"),
                                 std::string("{\"a\" 1}"),
                                 std::string("{\"a\":\"\n\"}"),
                                 std::string("{\"a\":\"\\x\"}"),
                                 std::string("{\"a\":\"\\ud800\"}"),
                                 std::string("{\"a\":\"\\udc00\"}"),
                                 std::string("{\"a\":\"\\ud800\\u0041\"}"),
                                 std::string("{\"a\":\"\\u12\"}"),
                                 std::string("{\"a\":\"\xff\"}"),
                                 std::string("{\"a\":\"\xed\xa0\x80\"}"),
                                 std::string("\xef\xbb\xbf{}"),
                                 std::string("{}\0", 3),
                                 std::string("{\"a\":\"x"),
                                 std::string("//x\n{}"),
                                 deep,
                                 std::string(100'000, '['),
                                 std::string(100'000, '{')}) {
    const Outcome outcome = refuse_actor(bad);
    REQUIRE(outcome.code == Errc::Malformed);
    REQUIRE(outcome.problems[0].line > 0);
    REQUIRE(outcome.problems[0].column > 0);
  }
  REQUIRE(refuse_actor("[]").code == Errc::InvalidType);
  std::string many = "{\"a\":[";
  for (int i = 0; i < 60'000; ++i) {
    many += "0,";
  }
  REQUIRE(refuse_actor(many + "0]}").code == Errc::Malformed);
}

TEST_CASE("json: duplicate keys are refused with their path") {
  const Outcome outcome =
      refuse_actor(R"({"metadata":{"name":"a","name":"b","labels":{"x":"1","x":"1"}}})");
  REQUIRE(outcome.code == Errc::Malformed);
  REQUIRE(outcome.problems[0].field == "metadata.name");
  REQUIRE(outcome.problems[1].field == "metadata.labels.x");
}

TEST_CASE("json: kind and apiVersion may be left out but must not lie") {
  v1alpha1::Actor actor;
  REQUIRE(from_json(R"({"spec":{}})", "Actor", actor));
  REQUIRE(from_json(R"({"apiVersion":"ate.dev/v1alpha1","kind":"Actor"})", "Actor", actor));
  REQUIRE(refuse_actor(R"({"apiVersion":"ate.dev/v1"})").problems[0].field == "apiVersion");
  REQUIRE(refuse_actor(R"({"kind":1})").code == Errc::InvalidType);
  REQUIRE(refuse<v1alpha1::Actor>(R"({"kind":"Actor"})", "").code == Errc::UnknownField);
}

TEST_CASE("json: NUL never gets into the object model") {
  REQUIRE(refuse_actor("{\"metadata\":{\"name\":\"a\\u0000\"}}").code == Errc::InvalidValue);
  REQUIRE(refuse_actor("{\"metadata\":{\"labels\":{\"a\\u0000\":\"b\"}}}").code ==
          Errc::InvalidValue);
}

TEST_CASE("json: escapes become UTF-8") {
  v1alpha1::Metadata metadata;
  REQUIRE(from_json("{\"name\":\"\\u00e4\\ud83d\\ude00\\t\\/\\b\"}", "", metadata));
  REQUIRE(metadata.name() == "\xc3\xa4\xf0\x9f\x98\x80\t/\b");
}

TEST_CASE("merge patch: null removes, objects merge, lists and values replace") {
  v1alpha1::Actor actor;
  auto& labels = *actor.mutable_metadata()->mutable_labels();
  labels["a"] = "1";
  labels["b"] = "2";
  actor.mutable_metadata()->set_uid("u");
  actor.mutable_spec()->mutable_idle()->set_after("10m");
  actor.mutable_spec()->mutable_idle()->set_action(v1alpha1::Idle::suspend);
  const std::vector<std::string> allowed{"metadata.labels", "spec.idle", "spec.restartPolicy"};
  REQUIRE(merge_patch(
      R"({"metadata":{"labels":{"a":null,"c":"3","gone":null}},
          "spec":{"idle":{"action":"pause"},"restartPolicy":"Always"}})",
      allowed, actor));
  REQUIRE(actor.metadata().labels().size() == 2);
  REQUIRE(actor.metadata().labels().at("c") == "3");
  REQUIRE(actor.metadata().uid() == "u");
  REQUIRE(actor.spec().idle().after() == "10m");
  REQUIRE(actor.spec().idle().action() == v1alpha1::Idle::pause);
  REQUIRE(actor.spec().restart_policy() == v1alpha1::Always);
  REQUIRE(merge_patch(R"({"spec":{"idle":null},"metadata":{"labels":null}})", allowed, actor));
  REQUIRE_FALSE(actor.spec().has_idle());
  REQUIRE(actor.metadata().labels().empty());
}

TEST_CASE("merge patch: what is not allowed changes nothing and is named") {
  v1alpha1::Actor actor;
  actor.mutable_metadata()->set_name("a");
  const std::string before = canonical_bytes(actor);
  const std::vector<std::string> allowed{"metadata.labels", "spec.idle"};

  struct Row {
    const char* patch;
    const char* field;
    Errc code;
  };

  for (const Row& row :
       {Row{R"({"metadata":{"name":"b"}})", "metadata.name", Errc::InvalidValue},
        Row{R"({"metadata":{"labels":{"x":"y"},"annotations":{}}})", "metadata.annotations",
            Errc::InvalidValue},
        Row{R"({"metadata":null})", "metadata", Errc::InvalidValue},
        Row{R"({"spec":[]})", "spec", Errc::InvalidValue},
        Row{R"({"status":{}})", "status", Errc::UnknownField},
        Row{R"({"spec":{"idle":{"after":5}}})", "spec.idle.after", Errc::InvalidType},
        Row{R"({"spec":{"idle":7}})", "spec.idle", Errc::InvalidType},
        Row{R"({"spec":{"idle":{"x":1}}})", "spec.idle.x", Errc::UnknownField},
        Row{R"({"metadata":{"labels":{"x":1}}})", "metadata.labels.x", Errc::InvalidType},
        Row{R"({"metadata":{"labels":{"x":"1","x":"2"}}})", "metadata.labels.x", Errc::Malformed},
        Row{R"({"metadata":{"labelsX":{}}})", "metadata.labelsX", Errc::UnknownField}}) {
    INFO(row.patch);
    const Status status = merge_patch(row.patch, allowed, actor);
    REQUIRE_FALSE(status);
    REQUIRE(status.error().code() == row.code);
    REQUIRE(status.error().field() == row.field);
    REQUIRE(canonical_bytes(actor) == before);
  }
  REQUIRE(merge_patch("[]", allowed, actor).error().code() == Errc::InvalidType);
  REQUIRE(merge_patch("{", allowed, actor).error().code() == Errc::Malformed);
}
