#include <string>

#include "fixture.hpp"

using namespace ate;
using namespace ate::test;

TEST_CASE("exec: everything of the request arrives, everything of the result is told") {
  FakeBackend backend;
  backend.exec_output.exit_code = 3;
  backend.exec_output.out = "hello \xc3\xa4\n";
  backend.exec_output.err = std::string("\0\xff", 2);
  backend.exec_output.err_truncated = true;
  const Answer answer = call(backend, "POST", "/v1/actors/c1/exec", R"({
    "argv":["/bin/sh","-c","x"],"env":[{"name":"A","value":"1"},{"name":"B"}],
    "workingDir":"/srv","user":"web","container":"app","stdinBase64":"AAE=","timeout":"5s"})");
  REQUIRE(answer.status == 200);
  CHECK(backend.exec_plan.argv == std::vector<std::string>{"/bin/sh", "-c", "x"});
  CHECK(backend.exec_plan.env == std::vector<std::string>{"A=1", "B="});
  CHECK(backend.exec_plan.working_dir == "/srv");
  CHECK(backend.exec_plan.user == "web");
  CHECK(backend.exec_plan.container == "app");
  CHECK(backend.exec_plan.input == std::string("\0\1", 2));
  CHECK(backend.exec_plan.timeout == std::chrono::seconds(5));
  CHECK(answer.has(R"("exitCode":3)"));
  CHECK(answer.has(R"("timedOut":false)"));
  CHECK(answer.has("\"stdout\":\"hello \xc3\xa4\\n\""));
  CHECK(answer.has(R"("stdoutEncoding":"utf-8","stdoutTruncated":false)"));
  CHECK(answer.has(R"("stderr":"AP8=","stderrEncoding":"base64","stderrTruncated":true)"));
}

TEST_CASE("exec: what is wrong is named by its field, and nothing runs") {
  struct Row {
    std::string body;
    const char* field;
    int status;
  };

  const std::string word(131072, 'x');
  const std::string input(524289, 'x');
  for (const Row& row :
       {Row{"{}", "argv", 422}, Row{R"({"argv":[""]})", "argv", 422},
        Row{R"({"argv":["a","b\u0000c"]})", "argv[1]", 422},
        Row{R"({"argv":["a",")" + word + R"("]})", "argv[1]", 422},
        Row{R"({"argv":["a"],"stdin":")" + input + R"("})", "stdin", 422},
        Row{R"({"argv":["a"],"stdin":"x","stdinBase64":"eA=="})", "stdinBase64", 422},
        Row{R"({"argv":["a"],"stdinBase64":"x"})", "stdinBase64", 422},
        Row{R"({"argv":["a"],"workingDir":"x"})", "workingDir", 422},
        Row{R"({"argv":["a"],"timeout":"0s"})", "timeout", 422},
        Row{R"({"argv":["a"],"timeout":"11m"})", "timeout", 422},
        Row{R"({"argv":["a"],"timeout":"soon"})", "timeout", 422},
        Row{R"({"argv":["a"],"env":[{"name":"A=B"}]})", "env[0].name", 422},
        Row{R"({"argv":["a"],"env":[{"name":"A","valueFrom":{"file":"/x"}}]})", "env[0].valueFrom",
            422},
        Row{R"({"argv":["a"],"tty":true})", "tty", 400}, Row{R"({"argv":"a"})", "argv", 400}}) {
    FakeBackend backend;
    CAPTURE(row.body.substr(0, 100));
    const Answer answer = call(backend, "POST", "/v1/actors/c1/exec", row.body);
    CHECK(answer.status == row.status);
    CHECK(answer.has(std::string("\"field\":\"") + row.field + "\""));
    CHECK(backend.exec_plan.argv.empty());
  }
}
