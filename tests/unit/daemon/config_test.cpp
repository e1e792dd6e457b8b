#include "daemon/config.hpp"

#include <google/protobuf/message.h>

#include <filesystem>

#include "ate/codec/codec.hpp"
#include "ate/objects/check.hpp"
#include "ate/os/fs.hpp"
#include "daemon/groups.hpp"
#include "daemon/host.hpp"
#include "daemon/options.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace ate;
using namespace ate::test;

namespace {

Result<daemon::CommandLine> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "ate-noded");
  return daemon::parse_command_line(static_cast<int>(words.size()), words.data());
}

/// A NodeConfig file of these lines below `spec:`.
Result<daemon::Config> load(const TempDir& directory, const std::string& spec) {
  write_file(directory.file("noded.yaml"),
             "apiVersion: ate.dev/v1alpha1\nkind: NodeConfig\nspec:\n" + spec);
  daemon::CommandLine command_line;
  command_line.config = directory.file("noded.yaml");
  command_line.config_given = true;
  return daemon::load_config(command_line);
}

}  // namespace

TEST_CASE("command line: flags, values in both forms, everything else refused") {
  REQUIRE(parse({})->action == daemon::Action::Run);
  REQUIRE(parse({})->config == "/etc/ate/noded.yaml");
  REQUIRE_FALSE(parse({})->config_given);
  const auto both = parse({"--config", "/a", "--config-dir=/b", "--check-config"});
  REQUIRE(both->config == "/a");
  REQUIRE(both->config_given);
  REQUIRE(both->config_dir == "/b");
  REQUIRE(both->action == daemon::Action::CheckConfig);
  for (const char* bad : {"--config", "--config=", "--nonsense", "serve", "", "--version=1"}) {
    CAPTURE(bad);
    REQUIRE_FALSE(parse({bad}));
  }
}

TEST_CASE("config: a missing default file is all defaults, a missing named one an error") {
  const TempDir directory;
  daemon::CommandLine command_line;
  command_line.config = directory.file("none.yaml");
  const auto defaults = daemon::load_config(command_line);
  REQUIRE(defaults);
  REQUIRE(defaults->state_dir == "/var/lib/ate");
  REQUIRE(defaults->socket == "/run/ate/noded.sock");
  REQUIRE(defaults->socket_mode == 0660);
  REQUIRE(defaults->enforcement);
  REQUIRE(defaults->operation_wait == std::chrono::seconds(60));
  REQUIRE(defaults->disk_reserve_bytes == 1LL << 30);
  REQUIRE(defaults->secrets_dir == "/etc/ate/secrets");
  REQUIRE(defaults->keep_operations == 10'000);
  REQUIRE(defaults->keep_events == 100'000);
  REQUIRE(defaults->keep_events_for.count() == 0);
  REQUIRE(defaults->unreferenced_for == std::chrono::hours(24));
  REQUIRE(defaults->storage_budget_bytes == 0);
  REQUIRE(defaults->gvisor_overhead.fixed_bytes == 72LL << 20);
  command_line.config_given = true;
  const auto missing = daemon::load_config(command_line);
  REQUIRE_FALSE(missing);
  REQUIRE(daemon::describe(missing.error()).starts_with(command_line.config + ": "));
}

TEST_CASE("config: values reach the daemon, what is printed can be read back") {
  const TempDir directory;
  const auto config = load(directory,
                           "  stateDir: /s\n  runDir: /r\n  listen: {socket: /r/x.sock, mode: "
                           "\"0600\", group: \"0\"}\n  enforcement: off\n  operationWait: 2s\n"
                           "  logLevel: debug\n  diskReserve: 2Gi\n  storageBudget: 3Gi\n"
                           "  retention: {operations: 200, eventsFor: 1h}\n");
  REQUIRE(config);
  REQUIRE(config->state_dir == "/s");
  REQUIRE(config->socket_mode == 0600);
  REQUIRE_FALSE(config->enforcement);
  REQUIRE(config->operation_wait == std::chrono::seconds(2));
  REQUIRE(config->log_level == LogLevel::Debug);
  REQUIRE(config->disk_reserve_bytes == 2LL << 30);
  REQUIRE(config->storage_budget_bytes == 3LL << 30);
  REQUIRE(config->keep_operations == 200);
  REQUIRE(config->keep_events_for == std::chrono::hours(1));
  write_file(directory.file("again.yaml"), config->text);
  daemon::CommandLine command_line;
  command_line.config = directory.file("again.yaml");
  command_line.config_given = true;
  const auto again = daemon::load_config(command_line);
  REQUIRE(again);
  REQUIRE(again->text == config->text);
}

TEST_CASE("config: problems carry file, line and column; nothing is ignored") {
  const TempDir directory;

  struct Row {
    const char* spec;
    const char* text;
  };

  const std::vector<Row> rows{
      {"  stateDirectory: /s\n", "noded.yaml:4:3: spec.stateDirectory: "},
      {"  stateDir: [1]\n", "noded.yaml:4:"},
      {"  stateDir: relative\n", "noded.yaml:4:"},
      {"  enforcement: maybe\n", "spec.enforcement"},
      {"  operationWait: soon\n", "spec.operationWait"},
      {"  logLevel: loud\n", "spec.logLevel"},
      {"  diskReserve: 1e3\n", "spec.diskReserve"},
      {"  network: {uplinks: 198.19.0.0}\n", "spec.network.uplinks"},
      {"  network: {uplinks: 198.19.0.1/16}\n", "spec.network.uplinks"},
      {"  network: {uplinks: 198.19.0.0/31}\n", "spec.network.uplinks"},
      {"  network: {uplinks: 169.254.0.0/20}\n", "spec.network.uplinks"},
      {"  network: {blocked: [10.0.0.0/8, nonsense]}\n", "spec.network.blocked[1]"},
      {"  network: {nft: nft}\n", "spec.network.nft"},
      {"  network: {resolvConf: ../x}\n", "spec.network.resolvConf"},
      {"  listen: {mode: \"0999\"}\n", "spec.listen.mode"},
      {"  stateDir: /a\n  stateDir: /b\n", "noded.yaml:5:"},
      {"  a: &x 1\n", "noded.yaml:4:"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.spec);
    const auto config = load(directory, row.spec);
    REQUIRE_FALSE(config);
    const std::string text = daemon::describe(config.error());
    CAPTURE(text);
    CHECK(text.find(row.text) != std::string::npos);
    CHECK(text.ends_with("\n"));
  }
}

TEST_CASE("config: exactly one NodeConfig") {
  const TempDir directory;
  const std::string node = "apiVersion: ate.dev/v1alpha1\nkind: NodeConfig\n";
  const std::string pool =
      "apiVersion: ate.dev/v1alpha1\nkind: WorkerPool\nmetadata: {name: p}\nspec: {}\n";
  daemon::CommandLine command_line;
  command_line.config = directory.file("noded.yaml");
  command_line.config_given = true;
  for (const std::string& text : {std::string(), node + "---\n" + node, pool, std::string(",")}) {
    CAPTURE(text);
    write_file(command_line.config, text);
    REQUIRE_FALSE(daemon::load_config(command_line));
  }
  write_file(command_line.config, node);
  REQUIRE(daemon::load_config(command_line));
}

TEST_CASE("config: the example has every key with its default") {
  daemon::CommandLine command_line;
  command_line.config = ATE_EXAMPLE_CONFIG;
  command_line.config_given = true;
  const auto example = daemon::load_config(command_line);
  CAPTURE(example ? std::string() : daemon::describe(example.error()));
  REQUIRE(example);
  command_line.config = "/nonexistent/noded.yaml";
  command_line.config_given = false;
  REQUIRE(example->text == daemon::load_config(command_line)->text);
}

TEST_CASE("config: the example of objects has one of each kind and no mistake") {
  const std::string file = std::filesystem::path(ATE_EXAMPLE_CONFIG).parent_path() / "gvisor.yaml";
  const auto text = os::read_file(file, 1U << 20U);
  REQUIRE(text);
  std::vector<std::string> kinds;
  for (const codec::Document& document : codec::parse_yaml(*text, file)) {
    REQUIRE(objects::check_document(document).empty());
    kinds.push_back(document.kind);
  }
  REQUIRE(kinds == std::vector<std::string>{"SandboxConfig", "WorkerPool", "ActorTemplate"});
}

TEST_CASE("json is indented without touching texts") {
  REQUIRE(daemon::indent_json(R"({"a":"x,{}:\"","b":[],"c":{},"d":[1,2]})") ==
          "{\n  \"a\": \"x,{}:\\\"\",\n  \"b\": [],\n  \"c\": {},\n  \"d\": [\n    1,\n    2\n  "
          "]\n}\n");
}

TEST_CASE("groups: by name from /etc/group, by number, else none") {
  const std::string_view text = "root:x:0:\n\nbroken\nate:x:990:me\nate-vm:x:991:\n";
  REQUIRE(daemon::find_group(text, "ate") == gid_t{990});
  REQUIRE(daemon::find_group(text, "ate-vm") == gid_t{991});
  REQUIRE(daemon::find_group(text, "1234") == gid_t{1234});
  for (const char* none : {"at", "broken", "", "-1", "x"}) {
    CAPTURE(none);
    REQUIRE_FALSE(daemon::find_group(text, none));
  }
}

TEST_CASE("cgroup root: what is wrong with it is said, with the way out") {
  const TempDir directory;
  const auto missing = daemon::open_cgroup_root(directory.file("none"));
  REQUIRE_FALSE(missing);
  REQUIRE(missing.error().message().find("enforcement: off") != std::string::npos);
  const auto plain = daemon::open_cgroup_root(directory.path());
  REQUIRE_FALSE(plain);
  REQUIRE(plain.error().message().find("not on a cgroup v2 file system") != std::string::npos);
}

TEST_CASE("cgroup name: stable, different for each state directory, never a path") {
  REQUIRE(daemon::private_cgroup_name("/var/lib/ate") ==
          daemon::private_cgroup_name("/var/lib/ate"));
  REQUIRE(daemon::private_cgroup_name("/a") != daemon::private_cgroup_name("/b"));
  REQUIRE(daemon::private_cgroup_name("/x/../y").find('/') == std::string::npos);
}
