// core/validate and apply_defaults, fed with the text that a user writes: that is what the codec is
// for, and core's own tests may not use it.
#include "ate/core/validate.hpp"

#include <google/protobuf/message.h>

#include "ate/codec/codec.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"
#include "samples.hpp"
#include "support/catch.hpp"

using namespace ate;

namespace {

template <class Message>
Message parse(const std::string& json) {
  Message message;
  const Status status = codec::from_json(json, "", message);
  INFO(json);
  if (!status) {
    FAIL(status.error().message());
  }
  return message;
}

template <class Message>
void expect(const std::string& json, const std::string& field, Errc code) {
  const std::vector<Problem> problems = core::validate(parse<Message>(json));
  INFO(json << " should name " << field);
  const Problem* found = nullptr;
  for (const Problem& problem : problems) {
    INFO(problem.field << ": " << problem.detail);
    CHECK_FALSE(problem.detail.empty());
    if (problem.field == field && problem.code == code) {
      found = &problem;
    }
  }
  REQUIRE(found != nullptr);
}

/// A template whose spec has `extra` merged in, and whose container has `container`.
std::string source(const std::string& container, const std::string& extra) {
  return R"({"metadata":{"name":"t"},"spec":{"sandboxClass":"gvisor",)" + extra +
         R"("containers":[{"name":"app","image":"oci:/i")" + container + "}]}}";
}

void bad_container(const std::string& container, const std::string& field, Errc code) {
  expect<v1alpha1::ActorTemplate>(source("," + container, ""), "spec.containers[0]" + field, code);
}

void bad_spec(const std::string& extra, const std::string& field, Errc code) {
  expect<v1alpha1::ActorTemplate>(source("", extra + ","), field, code);
}

template <class Message>
std::string problems_of(const std::string& json) {
  std::string out;
  for (const Problem& problem : core::validate(parse<Message>(json))) {
    out += problem.field + ": " + problem.detail + "\n";
  }
  return out;
}

constexpr auto kInvalid = Errc::InvalidValue;
constexpr auto kLater = Errc::NotYetSupported;

}  // namespace

TEST_CASE("template: a full one of what is here is accepted") {
  REQUIRE(
      problems_of<v1alpha1::ActorTemplate>(R"({"metadata":{"name":"counter","atespace":"default",
      "labels":{"example.org/tier":"a_b.c","empty":""},"annotations":{"note":"any text; \u00e4"}},
    "spec":{"sandboxClass":"gvisor","workerSelector":{"tier":"small"},
      "containers":[{"name":"app","image":"oci-archive:/srv/images/counter.tar",
        "command":["/usr/bin/python3"],"args":["/app/counter.py",""],
        "env":[{"name":"PORT","value":"8080"},{"name":"EMPTY","value":""}],"workingDir":"/app",
        "ports":[{"name":"http","containerPort":8080}],
        "readyz":{"http":{"port":8080,"path":"/readyz?x=1"},"periodMs":50,"timeout":"30s"},
        "volumeMounts":[{"name":"info","mountPath":"/run/ate","readOnly":true}]}],
      "volumes":[{"name":"info","systemInfo":{}}],
      "snapshots":{"onPause":"FULL","onSuspend":"FULL"},"idle":{"after":"10m","action":"suspend"},
      "diskQuota":"2Gi","restartPolicy":"OnFailure","onHostReboot":"none","egress":"none",
      "terminationGrace":"10s"}})") == "");
}

TEST_CASE("template: what later work implements is refused, never ignored") {
  bad_spec(R"("diskQuota":"1023Ki")", "spec.diskQuota", kInvalid);
  bad_spec(R"("diskQuota":"-1")", "spec.diskQuota", kInvalid);
  bad_spec(R"("onHostReboot":"revert")", "spec.onHostReboot", kLater);
  bad_spec(R"("warmupSeconds":0)", "spec.warmupSeconds", kInvalid);
  bad_spec(R"("snapshots":{"golden":true},"warmupSeconds":3601)", "spec.warmupSeconds", kInvalid);
  bad_spec(R"("snapshots":{"golden":true,"onSuspend":"DATA_ON_GOLDEN"})",
           "spec.snapshots.onSuspend", kInvalid);  // no durable volume
  bad_container(R"("ports":[{"containerPort":1,"protocol":"UDP"}])", ".ports[0].protocol", kLater);
  expect<v1alpha1::ActorTemplate>(
      R"({"metadata":{"name":"t"},"spec":{"sandboxClass":"microvm","containers":[{"name":"a","image":"i"}]}})",
      "spec.sandboxClass", kLater);
}

TEST_CASE("template: several containers, one of them at least no sidecar") {
  const auto containers = [](const std::string& list) {
    return problems_of<v1alpha1::ActorTemplate>(
        R"({"metadata":{"name":"t"},"spec":{"sandboxClass":"gvisor","containers":[)" + list +
        "]}}");
  };
  REQUIRE(containers(R"({"name":"app","image":"oci:/i"},
    {"name":"helper","image":"oci:/i","readyz":{"tcp":{"port":1}}},
    {"name":"side","image":"oci:/i","sidecar":true,"readyz":{"exec":{"command":["/bin/true"]}}})") ==
          "");
  const auto bad = [&containers](const std::string& list, const std::string& field) {
    const std::string problems = containers(list);
    CAPTURE(problems);
    REQUIRE(("\n" + problems).find("\n" + field + ": ") != std::string::npos);
  };
  bad(R"({"name":"a","image":"oci:/i","sidecar":true})", "spec.containers");
  bad(R"({"name":"a","image":"oci:/i","sidecar":true},{"name":"b","image":"oci:/i","sidecar":true})",
      "spec.containers");
  bad(R"({"name":"a","image":"oci:/i"},{"name":"a","image":"oci:/i"})", "spec.containers[1].name");
  bad(R"({"name":"a","image":"oci:/i"},{"name":"_pause","image":"oci:/i"})",
      "spec.containers[1].name");
  bad(R"({"name":"a","image":"oci:/i","readyz":{"exec":{}}})",
      "spec.containers[0].readyz.exec.command");
  bad(R"({"name":"a","image":"oci:/i","readyz":{"exec":{"command":[""]}}})",
      "spec.containers[0].readyz.exec.command");
}

TEST_CASE("template: limits of one container on gvisor are refused with the reason") {
  const std::string text = problems_of<v1alpha1::ActorTemplate>(
      source(R"(,"resources":{"limits":{"memory":"1e3"}})", ""));
  REQUIRE(text.find("spec.containers[0].resources: not on gvisor") != std::string::npos);
  REQUIRE(text.find("spec.containers[0].resources.limits.memory: \"1e3\"") != std::string::npos);
}

TEST_CASE("template: every value has its rule") {
  const std::string long_name(64, 'a');
  for (const std::string& name :
       {std::string(), std::string("A"), std::string("a.b"), std::string("a/b"), std::string(".."),
        std::string("-a"), long_name}) {
    expect<v1alpha1::ActorTemplate>(R"({"metadata":{"name":")" + name + R"("}})", "metadata.name",
                                    kInvalid);
  }
  expect<v1alpha1::ActorTemplate>(R"({"metadata":{"name":"a","atespace":"A"}})",
                                  "metadata.atespace", kInvalid);
  expect<v1alpha1::ActorTemplate>(R"({"metadata":{"name":"a","labels":{"a b":"x"}}})",
                                  "metadata.labels[\"a b\"]", kInvalid);
  expect<v1alpha1::ActorTemplate>(R"({"metadata":{"name":"a","labels":{"A/b":"x"}}})",
                                  "metadata.labels[\"A/b\"]", kInvalid);
  expect<v1alpha1::ActorTemplate>(R"({"metadata":{"name":"a","labels":{"b":"-x"}}})",
                                  "metadata.labels.b", kInvalid);
  expect<v1alpha1::ActorTemplate>(
      R"({"metadata":{"name":"a","annotations":{"x":")" + std::string(65'536, 'y') + R"("}}})",
      "metadata", kInvalid);
  expect<v1alpha1::ActorTemplate>(R"({"metadata":{"name":"a"}})", "spec.containers", kInvalid);
  expect<v1alpha1::ActorTemplate>(R"({"metadata":{"name":"a"}})", "spec.sandboxClass", kInvalid);
  bad_spec(R"("workerSelector":{"a":"b c"})", "spec.workerSelector.a", kInvalid);
  bad_spec(R"("idle":{"after":"10m"})", "spec.idle.action", kInvalid);
  bad_spec(R"("idle":{"action":"pause"})", "spec.idle.after", kInvalid);
  bad_spec(R"("idle":{"after":"500ms","action":"pause"})", "spec.idle.after", kInvalid);
  bad_spec(R"("idle":{"after":"10","action":"pause"})", "spec.idle.after", kInvalid);
  bad_spec(R"("terminationGrace":"2h")", "spec.terminationGrace", kInvalid);
  bad_spec(R"("ttl":"x")", "spec.ttl", kInvalid);
  bad_spec(R"("volumes":[{"name":"a","systemInfo":{}},{"name":"a","systemInfo":{}}])",
           "spec.volumes[1].name", kInvalid);
  bad_spec(R"("volumes":[{"name":"a"}])", "spec.volumes[0]", kInvalid);
  bad_spec(R"("volumes":[{"name":"a","systemInfo":{},"durableDir":{}}])", "spec.volumes[0]",
           kInvalid);
  bad_spec(R"("resources":{"limits":{"cpu":"-1"}})", "spec.resources.limits.cpu", kInvalid);
}

TEST_CASE("template: container values") {
  expect<v1alpha1::ActorTemplate>(R"({"spec":{"containers":[{"name":"a"}]}})",
                                  "spec.containers[0].image", kInvalid);
  expect<v1alpha1::ActorTemplate>(R"({"spec":{"containers":[{"image":"a"}]}})",
                                  "spec.containers[0].name", kInvalid);
  bad_container(R"("command":[""])", ".command[0]", kInvalid);
  bad_container(R"("args":[")" + std::string(131'073, 'x') + R"("])", ".args[0]", kInvalid);
  for (const char* name : {"", "1A", "A=B", "A B", "\\u00e4"}) {
    bad_container(R"("env":[{"name":")" + std::string(name) + R"(","value":"x"}])", ".env[0].name",
                  kInvalid);
  }
  bad_container(R"("env":[{"name":"A","value":"x"},{"name":"A","value":"y"}])", ".env[1].name",
                kInvalid);
  bad_container(R"("env":[{"name":"A"}])", ".env[0]", kInvalid);
  bad_container(R"("env":[{"name":"A","value":"x","valueFrom":{"file":"/f"}}])", ".env[0]",
                kInvalid);
  for (const char* path : {"app", "/a/../b", "/a/./b", "//a", "/a/", "/a//b", "/\\n"}) {
    bad_container(R"("workingDir":")" + std::string(path) + R"(")", ".workingDir", kInvalid);
  }
  for (const char* port : {"0", "-1", "65536"}) {
    bad_container(R"("ports":[{"containerPort":)" + std::string(port) + "}]",
                  ".ports[0].containerPort", kInvalid);
    bad_container(R"("readyz":{"tcp":{"port":)" + std::string(port) + "}}", ".readyz.tcp.port",
                  kInvalid);
    bad_container(R"("readyz":{"http":{"port":)" + std::string(port) + "}}", ".readyz.http.port",
                  kInvalid);
  }
  bad_container(R"("ports":[{"containerPort":1},{"containerPort":1}])", ".ports[1].containerPort",
                kInvalid);
  bad_container(R"("ports":[{"containerPort":1,"protocol":"tcp"}])", ".ports[0].protocol",
                kInvalid);
  bad_container(R"("readyz":{})", ".readyz", kInvalid);
  bad_container(R"("readyz":{"tcp":{"port":1},"http":{"port":1}})", ".readyz", kInvalid);
  bad_container(R"("readyz":{"http":{"port":1,"path":"x"}})", ".readyz.http.path", kInvalid);
  bad_container(R"("readyz":{"http":{"port":1,"path":"/\r\nX: y"}})", ".readyz.http.path",
                kInvalid);
  bad_container(R"("readyz":{"tcp":{"port":1},"periodMs":0})", ".readyz.periodMs", kInvalid);
  bad_container(R"("readyz":{"tcp":{"port":1},"timeout":"0s"})", ".readyz.timeout", kInvalid);
}

TEST_CASE("template: mounts") {
  const std::string volumes = R"("volumes":[{"name":"v","systemInfo":{}}],)";
  const auto mount = [&](const std::string& json, const std::string& field) {
    expect<v1alpha1::ActorTemplate>(source(R"(,"volumeMounts":)" + json, volumes),
                                    "spec.containers[0].volumeMounts" + field, kInvalid);
  };
  for (const char* path : {"/", "", "data", "/proc", "/proc/x", "/sys", "/dev", "/dev/shm", "/a/..",
                           "/../etc", "/etc/resolv.conf", "/etc"}) {
    mount(R"([{"name":"v","mountPath":")" + std::string(path) + R"("}])", "[0].mountPath");
  }
  mount(R"([{"name":"w","mountPath":"/a"}])", "[0].name");
  mount(R"([{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/a"}])", "[1].mountPath");
  REQUIRE(problems_of<v1alpha1::ActorTemplate>(
              source(R"(,"volumeMounts":[{"name":"v","mountPath":"/process"}])", volumes)) == "");
}

// case T7
TEST_CASE("pool: limits are required and sane") {
  const std::string head = R"({"metadata":{"name":"small"},"spec":{"sandboxClass":"gvisor",)";
  const auto pool = [&](const std::string& cpu, const std::string& memory) {
    return head + R"("resources":{"limits":{"cpu":")" + cpu + R"(","memory":")" + memory +
           R"("}}}})";
  };
  REQUIRE(problems_of<v1alpha1::WorkerPool>(pool("1", "1Gi")) == "");
  REQUIRE(problems_of<v1alpha1::WorkerPool>(pool("250m", "100Mi")) == "");
  for (const char* cpu : {"-1", "0", "2.5.1", "1e3", "", "9223372036854775808", "1m", "1000000"}) {
    expect<v1alpha1::WorkerPool>(pool(cpu, "1Gi"), "spec.resources.limits.cpu", kInvalid);
  }
  for (const char* memory :
       {"1e3", "512MB", "0", "-1", "", "9223372036854775808", "8192Pi", "1Ki"}) {
    expect<v1alpha1::WorkerPool>(pool("1", memory), "spec.resources.limits.memory", kInvalid);
  }
  const std::string empty = R"({"metadata":{"name":"p"},"spec":{"sandboxClass":"gvisor"}})";
  expect<v1alpha1::WorkerPool>(empty, "spec.resources.limits.cpu", kInvalid);
  expect<v1alpha1::WorkerPool>(empty, "spec.resources.limits.memory", kInvalid);
  for (const char* pids : {"0", "15", "4194305", "-1", "1.5"}) {
    expect<v1alpha1::WorkerPool>(
        head + R"("resources":{"limits":{"pids":")" + std::string(pids) + R"("}}}})",
        "spec.resources.limits.pids", kInvalid);
  }
  expect<v1alpha1::WorkerPool>(head + R"("replicas":-1}})", "spec.replicas", kInvalid);
  expect<v1alpha1::WorkerPool>(head + R"("replicas":1001}})", "spec.replicas", kInvalid);
  expect<v1alpha1::WorkerPool>(R"({"metadata":{"name":"p","atespace":"default"}})",
                               "metadata.atespace", kInvalid);
  expect<v1alpha1::WorkerPool>(R"({"spec":{"sandboxClass":"microvm"}})", "spec.sandboxClass",
                               kLater);
}

TEST_CASE("sandbox config: assets of the class") {
  const auto config = [](const std::string& spec) {
    return R"({"metadata":{"name":"g"},"spec":{"sandboxClass":"gvisor",)" + spec + "}}";
  };
  const std::string digest = "sha256:" + std::string(64, 'a');
  REQUIRE(problems_of<v1alpha1::SandboxConfig>(
              config(R"("assets":{"runsc":{"path":"/usr/bin/runsc","sha256":")" + digest +
                     R"("}},"gvisor":{"platform":"kvm"})")) == "");
  expect<v1alpha1::SandboxConfig>(config(R"("assets":{})"), "spec.assets.runsc", kInvalid);
  expect<v1alpha1::SandboxConfig>(config(R"("assets":{"kernel":{"path":"/k"}})"),
                                  "spec.assets.kernel", kInvalid);
  expect<v1alpha1::SandboxConfig>(config(R"("assets":{"runsc":{"path":"runsc"}})"),
                                  "spec.assets.runsc.path", kInvalid);
  expect<v1alpha1::SandboxConfig>(config(R"("assets":{"runsc":{"path":"/r","sha256":"sha256:x"}})"),
                                  "spec.assets.runsc.sha256", kInvalid);
  expect<v1alpha1::SandboxConfig>(config(R"("gvisor":{"platform":"x"})"), "spec.gvisor.platform",
                                  kInvalid);
  expect<v1alpha1::SandboxConfig>(config(R"("microvm":{})"), "spec.microvm", kInvalid);
  expect<v1alpha1::SandboxConfig>(
      R"({"metadata":{"name":"k"},"spec":{"sandboxClass":"microvm","microvm":{"elastic":true}}})",
      "spec.sandboxClass", kLater);
}

TEST_CASE("template: durable volumes, their mounts and scopes") {
  const auto spec = [](const std::string& mounts, const std::string& more) {
    return problems_of<v1alpha1::ActorTemplate>(
        R"({"metadata":{"name":"t"},"spec":{"sandboxClass":"gvisor","volumes":[)"
        R"({"name":"a","durableDir":{"size":"1Gi"}},{"name":"b","durableDir":{}}],)"
        R"("containers":[{"name":"app","image":"oci:/x","volumeMounts":[)" +
        mounts + "]}]" + more + "}}");
  };
  CHECK(
      spec(
          R"({"name":"a","mountPath":"/data"},{"name":"b","mountPath":"/database","readOnly":true})",
          R"(,"snapshots":{"onPause":"DATA","onSuspend":"DATA"},"ttl":"720h")") == "");
  CHECK(spec(R"({"name":"a","mountPath":"/data"},{"name":"a","mountPath":"/again"})", "") == "");
  CHECK_THAT(spec(R"({"name":"a","mountPath":"/data"},{"name":"b","mountPath":"/data/b"})", ""),
             ate::test::Contains("spec.containers[0].volumeMounts[1].mountPath"));
  CHECK_THAT(spec(R"({"name":"a","mountPath":"/x"},{"name":"b","mountPath":"/x"})", ""),
             ate::test::Contains("spec.containers[0].volumeMounts[1].mountPath"));
  for (const std::string path :
       {"/", "/proc", "/dev/shm", "/sys/x", "/etc", "/etc/hosts", "data", "/a/../b", "/a/"}) {
    CHECK_THAT(spec(R"({"name":"a","mountPath":")" + path + R"("})", ""),
               ate::test::Contains("spec.containers[0].volumeMounts[0].mountPath"));
  }
  CHECK_THAT(spec(R"({"name":"c","mountPath":"/c"})", ""),
             ate::test::Contains("spec.containers[0].volumeMounts[0].name"));
  bad_spec(R"("snapshots":{"onSuspend":"DATA"})", "spec.snapshots.onSuspend", kInvalid);
  bad_spec(R"("volumes":[{"name":"d","durableDir":{"size":"1Ki"}}])",
           "spec.volumes[0].durableDir.size", kInvalid);
}

TEST_CASE("actor: name, template and what is here") {
  REQUIRE(problems_of<v1alpha1::Actor>(
              R"({"metadata":{"name":"c1"},"spec":{"template":{"name":"counter"}}})") == "");
  expect<v1alpha1::Actor>("{}", "metadata.name", kInvalid);
  expect<v1alpha1::Actor>("{}", "spec.template.name", kInvalid);
  expect<v1alpha1::Actor>(R"({"spec":{"template":{"generation":-1}}})", "spec.template.generation",
                          kInvalid);
  expect<v1alpha1::Actor>(R"({"spec":{"fromSnapshot":"x"}})", "spec.fromSnapshot", kInvalid);
  expect<v1alpha1::Actor>(R"({"spec":{"ttl":"1ms"}})", "spec.ttl", kInvalid);
  expect<v1alpha1::Actor>(R"({"spec":{"idle":{}}})", "spec.idle.after", kInvalid);
}

TEST_CASE("node config: the example is accepted, defaults fill the rest") {
  auto documents = codec::parse_yaml(test::kNodeYaml, "noded.yaml");
  auto& given = dynamic_cast<v1alpha1::NodeConfig&>(*documents.at(0).message);
  REQUIRE(core::validate(given).empty());
  core::apply_defaults(given);
  REQUIRE(core::validate(given).empty());
  v1alpha1::NodeConfig empty;
  core::apply_defaults(empty);
  REQUIRE(core::validate(empty).empty());
  REQUIRE(codec::canonical_bytes(empty.spec()) == codec::canonical_bytes(given.spec()));
}

TEST_CASE("node config: every key has its rule") {
  const auto bad = [](const std::string& spec, const std::string& field) {
    expect<v1alpha1::NodeConfig>(R"({"spec":{)" + spec + "}}", field, kInvalid);
  };
  bad(R"("stateDir":"var")", "spec.stateDir");
  bad(R"("stateDir":"/")", "spec.stateDir");
  bad(R"("runDir":"/run/../x")", "spec.runDir");
  bad(R"("stateDir":"/run/ate/x","runDir":"/run/ate")", "spec.stateDir");
  bad(R"("cgroupRoot":"x")", "spec.cgroupRoot");
  bad(R"("listen":{"socket":"/)" + std::string(107, 'a') + R"("})", "spec.listen.socket");
  for (const char* mode : {"660", "0660"}) {
    REQUIRE(problems_of<v1alpha1::NodeConfig>(R"({"spec":{"listen":{"mode":")" + std::string(mode) +
                                              R"("}}})") == "");
  }
  for (const char* mode : {"0777", "1660", "66", "00660", "rw", "0o660", "0668"}) {
    bad(R"("listen":{"mode":")" + std::string(mode) + R"("})", "spec.listen.mode");
  }
  bad(R"("listen":{"group":"a b"})", "spec.listen.group");
  bad(R"("enforcement":"maybe")", "spec.enforcement");
  bad(R"("uidRange":{"start":0})", "spec.uidRange.start");
  bad(R"("uidRange":{"count":0})", "spec.uidRange.count");
  bad(R"("uidRange":{"start":4294967290,"count":10})", "spec.uidRange.count");
  bad(R"("hostReserve":{"memory":"-1"})", "spec.hostReserve.memory");
  bad(R"("overhead":{"gvisor":{"fixed":"x"}})", "spec.overhead.gvisor.fixed");
  bad(R"("overhead":{"microvm":{"perVcpu":"-1"}})", "spec.overhead.microvm.perVcpu");
  bad(R"("overhead":{"microvm":{"percent":100}})", "spec.overhead.microvm.percent");
  bad(R"("overhead":{"microvm":{"percent":-1}})", "spec.overhead.microvm.percent");
  bad(R"("operationWait":"2h")", "spec.operationWait");
  bad(R"("operationWait":"0s")", "spec.operationWait");
  bad(R"("logLevel":"trace")", "spec.logLevel");
  bad(R"("diskReserve":"1e3")", "spec.diskReserve");
  bad(R"("sizing":{"overcommit":{"memory":0.99}})", "spec.sizing.overcommit.memory");
  bad(R"("sizing":{"overcommit":{"cpu":101}})", "spec.sizing.overcommit.cpu");
  bad(R"("storageBudget":"0")", "spec.storageBudget");
  bad(R"("secretsDir":"secrets")", "spec.secretsDir");
  bad(R"("retention":{"operations":99})", "spec.retention.operations");
  bad(R"("retention":{"events":10000001})", "spec.retention.events");
  bad(R"("retention":{"eventsFor":"-1s"})", "spec.retention.eventsFor");
  bad(R"("retention":{"unreferencedFor":"soon"})", "spec.retention.unreferencedFor");
}

TEST_CASE("defaults: equal meaning has equal bytes") {
  const auto spec_bytes = [](const std::string& json) {
    auto object = parse<v1alpha1::ActorTemplate>(json);
    core::apply_defaults(object);
    REQUIRE(core::validate(object).empty());
    REQUIRE(object.metadata().atespace() == "default");
    return codec::canonical_bytes(object.spec());
  };
  const std::string readyz = R"(,"readyz":{"tcp":{"port":1})";
  REQUIRE(spec_bytes(source(readyz + "}", "")) ==
          spec_bytes(source(readyz + R"(,"periodMs":50,"timeout":"30000ms"})",
                            R"("restartPolicy":"Never","terminationGrace":"10s",
                               "snapshots":{"onPause":"FULL","onSuspend":"FULL"},)")));
  REQUIRE(spec_bytes(source("", R"("idle":{"after":"60m","action":"pause"},)")) ==
          spec_bytes(source("", R"("idle":{"after":"1h","action":"pause"},)")));
  auto pool = parse<v1alpha1::WorkerPool>(
      R"({"spec":{"resources":{"limits":{"cpu":"1000m","memory":"1024Mi"}}}})");
  core::apply_defaults(pool);
  REQUIRE(codec::to_json(pool.spec(), "") ==
          R"({"replicas":1,"resources":{"limits":{"cpu":"1","memory":"1Gi","pids":"4096"}}})");
}
