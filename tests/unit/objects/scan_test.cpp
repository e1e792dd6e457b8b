#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "ate/objects/check.hpp"
#include "rig.hpp"

using namespace ate;
using namespace ate::test;
using objects::Catalog;

namespace fs = std::filesystem;

TEST_CASE("scan: files become objects with their status") {
  Rig rig;
  rig.write("a.yaml", config_yaml("gvisor", "  default: true\n") + "---\n" +
                          pool_yaml("small", "1Gi") + "---\n" + template_yaml("counter", ""));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    const auto source = catalog->find_template("default", "counter", 0);
    REQUIRE(source != nullptr);
    REQUIRE(source->metadata().generation() == 1);
    REQUIRE_FALSE(source->metadata().uid().empty());
    REQUIRE(source->metadata().created_at() == "2026-11-30T18:35:52.000Z");
    REQUIRE(source->spec().restart_policy() == v1alpha1::Never);
    REQUIRE(source->status().object().source() == "file");
    REQUIRE(source->status().object().file() == rig.path("a.yaml"));
    REQUIRE(source->status().object().digest().starts_with("sha256:"));
    REQUIRE(source->status().images(0).digest() == digest('1'));
    REQUIRE(catalog->find_pool("small")->spec().resources().limits().pids() == "4096");
    const auto config = catalog->default_sandbox_config("gvisor");
    REQUIRE(config->status().pinned().at("runsc") == digest('a'));
    REQUIRE(catalog->default_sandbox_config("microvm") == nullptr);
    REQUIRE(catalog->templates("default").size() == 1);
    REQUIRE(catalog->templates("other").empty());
    const auto files = catalog->files();
    REQUIRE(files.size() == 1);
    REQUIRE(files[0].problems.empty());
    REQUIRE(files[0].objects == std::vector<std::string>{"ActorTemplate/default/counter",
                                                         "WorkerPool/small",
                                                         "SandboxConfig/gvisor"});
    // One transaction, with an event for each.
    REQUIRE(rig.store.commits == 1);
    REQUIRE(rig.store.objects.size() == 3);
    REQUIRE(rig.store.stored_events.size() == 3);
    REQUIRE(rig.changes.size() == 3);
    const auto unpacked = co_await catalog->images(source);
    REQUIRE(unpacked);
    REQUIRE(catalog->find_template("default", "counter", 0)->status().images(0).state() == "Ready");
    REQUIRE(catalog->find_template("default", "counter", 0)->status().object().ready() == "True");
    co_await catalog->close();
  });
}

TEST_CASE("scan: the generation follows the spec and what it pins, the version every write") {
  Rig rig;
  rig.write("a.yaml", template_yaml("t", ""));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    const auto first = catalog->find_template("default", "t", 0);
    // Same meaning in other words: nothing is written.
    rig.write("a.yaml", "# comment\n" + template_yaml("t", "  terminationGrace: 10000ms\n"));
    co_await catalog->scan();
    REQUIRE(rig.store.commits == 1);
    rig.write("a.yaml", template_yaml("t", "  terminationGrace: 20s\n"));
    co_await catalog->scan();
    const auto second = catalog->find_template("default", "t", 0);
    REQUIRE(second->metadata().generation() == 2);
    REQUIRE(second->metadata().uid() == first->metadata().uid());
    REQUIRE(second->metadata().resource_version() != first->metadata().resource_version());
    REQUIRE(catalog->find_template("default", "t", 1)->spec().termination_grace() == "10s");
    REQUIRE(first->spec().termination_grace() == "10s");
    // A label is no new generation.
    std::string labelled = template_yaml("t", "  terminationGrace: 20s\n");
    labelled.replace(labelled.find("{name: t}"), 9, "{name: t, labels: {a: b}}");
    rig.write("a.yaml", labelled);
    co_await catalog->scan();
    const auto third = catalog->find_template("default", "t", 0);
    REQUIRE(third->metadata().generation() == 2);
    REQUIRE(third->metadata().labels().at("a") == "b");
    REQUIRE(third->metadata().resource_version() != second->metadata().resource_version());
    // A moved tag is seen by SIGHUP, and is a new generation.
    rig.sources->images["oci:/i"] = digest('9');
    co_await catalog->scan();
    const auto fourth = catalog->find_template("default", "t", 0);
    REQUIRE(fourth->metadata().generation() == 3);
    REQUIRE(fourth->status().images(0).digest() == digest('9'));
    co_await catalog->close();
  });
}

TEST_CASE("scan: a restart changes nothing while the files are the same") {
  Rig rig;
  rig.write("a.yaml", template_yaml("t", "") + "---\n" + config_yaml("g", ""));
  std::string before;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    before = catalog->find_template("default", "t", 0)->metadata().SerializeAsString();
    co_await catalog->close();
  });
  rig.images["oci:/i"] = digest('9');
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    REQUIRE(catalog->find_template("default", "t", 0)->status().object().file() ==
            rig.path("a.yaml"));
    co_await catalog->scan();
    REQUIRE(rig.sources->resolved == 0);
    REQUIRE(rig.sources->imported == 0);
    REQUIRE(rig.store.commits == 1);
    const auto after = catalog->find_template("default", "t", 0);
    REQUIRE(after->metadata().SerializeAsString() == before);
    REQUIRE(after->status().images(0).digest() == digest('1'));
    REQUIRE(catalog->find_sandbox_config("g")->status().pinned().at("runsc") == digest('a'));
    co_await catalog->close();
  });
}

TEST_CASE("scan: a broken document leaves the last good one and is named with its place") {
  Rig rig;
  rig.write("a.yaml", pool_yaml("one", "1Gi") + "---\n" + pool_yaml("two", "1Gi"));
  rig.write("b.yaml", pool_yaml("three", "1Gi"));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    rig.write("a.yaml", pool_yaml("one", "2Gi") + "---\n" + pool_yaml("two", "1e3"));
    rig.write("b.yaml", "kind: WorkerPool\nspec: [\n");
    co_await catalog->scan();
    // The good document of the file is taken.
    REQUIRE(catalog->find_pool("one")->spec().resources().limits().memory() == "2Gi");
    const auto two = catalog->find_pool("two");
    REQUIRE(two->spec().resources().limits().memory() == "1Gi");
    REQUIRE(two->status().object().problems_size() == 1);
    REQUIRE(two->status().object().problems(0).field() == "spec.resources.limits.memory");
    REQUIRE(two->status().object().problems(0).line() == 9);
    REQUIRE(two->status().object().problems(0).column() > 1);
    REQUIRE(two->status().object().problems(0).file() == rig.path("a.yaml"));
    REQUIRE(two->status().object().problems(0).type() == "/v1/problems/invalid-value");
    REQUIRE(catalog->find_pool("three")->status().object().problems(0).type() ==
            "/v1/problems/malformed");
    const auto files = catalog->files();
    REQUIRE(find_file(files, rig.path("b.yaml"))->problems.size() == 1);
    REQUIRE(rig.errors.size() == 2);
    // Told once.
    co_await catalog->scan();
    REQUIRE(rig.errors.size() == 2);
    rig.write("a.yaml", pool_yaml("one", "2Gi") + "---\n" + pool_yaml("two", "3Gi"));
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("two")->status().object().problems_size() == 0);
    co_await catalog->close();
  });
}

TEST_CASE("scan: an image that cannot be resolved is an error of the file") {
  Rig rig;
  rig.write("a.yaml", template_yaml("t", ""));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    std::string other = template_yaml("t", "");
    other.replace(other.find("oci:/i"), 6, "oci:/x");
    rig.write("a.yaml", other);
    co_await catalog->scan();
    const auto shown = catalog->find_template("default", "t", 0);
    REQUIRE(shown->spec().containers(0).image() == "oci:/i");
    REQUIRE(shown->status().object().problems(0).type() == "/v1/problems/image-invalid");
    REQUIRE(shown->status().object().problems(0).field() == "spec.containers[0].image");
    REQUIRE(shown->status().object().problems(0).line() > 0);
    // When the image is there it comes in force, though the file did not change.
    rig.sources->images["oci:/x"] = digest('3');
    co_await catalog->scan();
    REQUIRE(catalog->find_template("default", "t", 0)->metadata().generation() == 2);
    // A reference that is none is found before.
    other.replace(other.find("oci:/x"), 6, "oci:x");
    rig.write("a.yaml", other);
    co_await catalog->scan();
    REQUIRE(catalog->files()[0].problems[0].code == Errc::InvalidValue);
    co_await catalog->close();
  });
}

TEST_CASE("scan: every problem of a document is told at once, each at its own place") {
  Rig rig;
  rig.write("a.yaml",
            "apiVersion: ate.dev/v1alpha1\n"
            "kind: ActorTemplate\n"
            "metadata: {name: My}\n"
            "spec:\n"
            "  sandboxClass: gvisor\n"
            "  containers:\n"
            "  - name: app\n"
            "    image: nginx:latest\n"
            "    env: [5, {name: A, value: b}, {name: 1A, value: b}]\n"
            "  idle: {after: 10 minutes, action: sleep}\n"
            "  ttl: soon\n");
  rig.write("b.yaml", template_yaml("t", "") + "---\n" + config_yaml("gvisor", ""));
  rig.images.clear();
  rig.assets.clear();
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    std::vector<std::string> told;
    for (const auto& file : catalog->files()) {
      for (const Problem& problem : file.problems) {
        told.push_back(problem.file.substr(problem.file.rfind('/') + 1) + ":" +
                       std::to_string(problem.line) + ":" + std::to_string(problem.column) + " " +
                       problem.field);
      }
    }
    std::ranges::sort(told);
    REQUIRE(told == std::vector<std::string>{
                        "a.yaml:10:17 spec.idle.after",
                        "a.yaml:10:37 spec.idle.action",
                        "a.yaml:11:8 spec.ttl",
                        "a.yaml:3:18 metadata.name",
                        "a.yaml:8:12 spec.containers[0].image",
                        "a.yaml:9:11 spec.containers[0].env[0]",
                        "a.yaml:9:42 spec.containers[0].env[2].name",
                        "b.yaml:13:26 spec.assets.runsc.path",
                        "b.yaml:6:35 spec.containers[0].image",
                    });
    co_await catalog->close();
  });
}

TEST_CASE("check: a directory's files are checked as a start would, without their images") {
  const Rig rig;
  rig.write("a.yaml", pool_yaml("p", "1Gi") + "---\n" + template_yaml("t", ""));
  rig.write("b.yaml", pool_yaml("p", "lots"));
  rig.write("c.yaml", pool_yaml("p", "2Gi"));
  rig.write("noded.yaml",
            "apiVersion: ate.dev/v1alpha1\nkind: NodeConfig\nspec: {logLevel: loud}\n");
  std::vector<std::string> told;
  for (const Problem& problem : objects::check_directory(rig.dir.path() + "/etc")) {
    told.push_back(problem.file.substr(problem.file.rfind('/') + 1) + ":" +
                   std::to_string(problem.line) + " " + problem.field);
  }
  REQUIRE(told == std::vector<std::string>{"b.yaml:4 spec.resources.limits.memory",
                                           "c.yaml:3 metadata.name", "noded.yaml:3 spec.logLevel"});
  REQUIRE(objects::check_directory(rig.dir.path() + "/none").size() == 1);
}

TEST_CASE("scan: objects go after two seconds of absence, by a scan without errors") {
  Rig rig;
  rig.write("a.yaml", pool_yaml("one", "1Gi"));
  rig.write("b.yaml", pool_yaml("two", "1Gi"));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    rig.remove("a.yaml");
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("one") != nullptr);
    rig.clock.advance(std::chrono::milliseconds(1999));
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("one") != nullptr);
    // An error anywhere keeps it.
    rig.write("b.yaml", "x");
    rig.clock.advance(std::chrono::seconds(10));
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("one") != nullptr);
    rig.write("b.yaml", pool_yaml("two", "1Gi"));
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("one") == nullptr);
    REQUIRE(catalog->find_pool("two") != nullptr);
    REQUIRE(rig.store.objects.size() == 1);
    // Back in time: the absence starts again.
    rig.remove("b.yaml");
    rig.write("c.yaml", "# nothing\n");
    co_await catalog->scan();
    rig.clock.advance(std::chrono::seconds(1));
    rig.write("b.yaml", pool_yaml("two", "1Gi"));
    co_await catalog->scan();
    rig.remove("b.yaml");
    co_await catalog->scan();
    rig.clock.advance(std::chrono::seconds(1));
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("two") != nullptr);
    co_await catalog->close();
  });
}

TEST_CASE("scan: a missing, unmounted or writable directory removes nothing") {
  Rig rig;
  rig.write("a.yaml", pool_yaml("one", "1Gi"));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    const std::string etc = rig.dir.path() + "/etc";
    const auto scan_twice = [&]() -> async::Task<void> {
      co_await catalog->scan();
      rig.clock.advance(std::chrono::seconds(10));
      co_await catalog->scan();
    };
    fs::rename(etc, etc + ".away");
    co_await scan_twice();
    REQUIRE(catalog->find_pool("one") != nullptr);
    REQUIRE(find_file(catalog->files(), etc)->problems.size() == 1);
    fs::create_directory(etc);  // what is below a mount point
    co_await scan_twice();
    REQUIRE(catalog->find_pool("one") != nullptr);
    fs::remove(etc);
    fs::rename(etc + ".away", etc);
    fs::permissions(etc, fs::perms(0777));
    rig.remove("a.yaml");
    co_await scan_twice();
    REQUIRE(catalog->find_pool("one") != nullptr);
    REQUIRE(catalog->files()[0].problems[0].detail.find("chmod go-w") != std::string::npos);
    fs::permissions(etc, fs::perms(0755));
    // The directory that they came from, really empty: they go.
    co_await scan_twice();
    REQUIRE(catalog->find_pool("one") == nullptr);
    co_await catalog->close();
  });
}

TEST_CASE("scan: an empty directory after a restart is checked against the one that was") {
  Rig rig;
  rig.write("a.yaml", pool_yaml("one", "1Gi"));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    co_await catalog->close();
  });
  const std::string etc = rig.dir.path() + "/etc";
  fs::rename(etc, etc + ".away");
  fs::create_directory(etc);
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    rig.clock.advance(std::chrono::seconds(10));
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("one") != nullptr);
    REQUIRE_FALSE(rig.errors.empty());
    co_await catalog->close();
  });
}

TEST_CASE("scan: of two definitions the first file name wins and both are flagged") {
  Rig rig;
  rig.write("b.yaml", pool_yaml("x", "2Gi"));
  rig.write("a.yml", pool_yaml("x", "1Gi"));
  rig.write("c.yaml", pool_yaml("y", "1Gi") + "---\n" + pool_yaml("y", "2Gi"));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("x")->spec().resources().limits().memory() == "1Gi");
    REQUIRE(catalog->find_pool("x")->status().object().problems_size() == 2);
    REQUIRE(catalog->find_pool("y")->spec().resources().limits().memory() == "1Gi");
    const auto files = catalog->files();
    REQUIRE(find_file(files, rig.path("a.yml"))->problems.size() == 1);
    REQUIRE(find_file(files, rig.path("b.yaml"))->problems.size() == 1);
    REQUIRE(find_file(files, rig.path("c.yaml"))->problems[0].line == 8);
    // The other file takes over at once.
    rig.remove("a.yml");
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("x")->status().object().file() == rig.path("b.yaml"));
    REQUIRE(catalog->find_pool("x")->spec().resources().limits().memory() == "2Gi");
    REQUIRE(catalog->find_pool("x")->status().object().problems_size() == 0);
    // But not from a file that is only broken just now.
    rig.write("a.yaml", pool_yaml("x", "3Gi"));
    rig.write("b.yaml", "kind: [\n");
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("x")->spec().resources().limits().memory() == "2Gi");
    co_await catalog->close();
  });
}

TEST_CASE("scan: noded.yaml is the daemon's, and only it has a NodeConfig") {
  Rig rig;
  const std::string node = "apiVersion: ate.dev/v1alpha1\nkind: NodeConfig\nspec: {logLevel: ";
  rig.write("noded.yaml", node + "info}\n");
  rig.write("a.yaml", node + "info}\n");
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    auto files = catalog->files();
    REQUIRE(find_file(files, rig.path("noded.yaml"))->problems.empty());
    REQUIRE(find_file(files, rig.path("a.yaml"))->problems.size() == 1);
    rig.write("noded.yaml", node + "loud}\n---\n" + node + "info}\n---\n" + pool_yaml("x", "1Gi"));
    co_await catalog->scan();
    files = catalog->files();
    REQUIRE(find_file(files, rig.path("noded.yaml"))->problems.size() == 3);
    REQUIRE(catalog->find_pool("x") == nullptr);
    co_await catalog->close();
  });
}

// Fault I13 of the reliability study.
TEST_CASE("scan: files that others may change, or that are none, are refused with the fix") {
  Rig rig;
  const std::string outside = rig.dir.file("outside.yaml");
  write_file(outside, pool_yaml("outside", "1Gi"));
  rig.write("ok.yaml", pool_yaml("ok", "1Gi"));
  fs::create_symlink(outside, rig.path("a.yaml"));
  fs::create_symlink("/proc/self/environ", rig.path("b.yaml"));
  fs::create_directory(rig.path("c.yaml"));
  REQUIRE(::mkfifo(rig.path("d.yaml").c_str(), 0600) == 0);
  rig.write("e.yaml", pool_yaml("e", "1Gi"));
  fs::permissions(rig.path("e.yaml"), fs::perms(0666));
  rig.write("f.yaml", std::string((1U << 20U) + 1, '#'));
  rig.write("g.yaml", pool_yaml("g", "1Gi"));
  REQUIRE(::chown(rig.path("g.yaml").c_str(), 12345, 0) == 0);
  fs::create_symlink("nowhere", rig.path("h.yaml"));
  rig.write(".hidden.yaml", "x");
  rig.write("x.yaml~", "x");
  rig.write("x.yaml.swp", "x");
  rig.write("readme.md", "x");
  fs::create_directory(rig.path("..data"));
  write_file(rig.path("..data/z"), pool_yaml("z", "1Gi"));
  fs::create_symlink("..data/z", rig.path("z.yaml"));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    REQUIRE(catalog->pools().size() == 2);
    REQUIRE(catalog->find_pool("ok") != nullptr);
    REQUIRE(catalog->find_pool("z") != nullptr);
    const auto files = catalog->files();
    REQUIRE(files.size() == 10);
    for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
      INFO(name);
      const auto* file = find_file(files, rig.path(std::string(name) + ".yaml"));
      REQUIRE(file != nullptr);
      REQUIRE(file->problems.size() == 1);
    }
    REQUIRE(find_file(files, rig.path("e.yaml"))->problems[0].detail.find("chmod go-w") !=
            std::string::npos);
    REQUIRE(find_file(files, rig.path("g.yaml"))->problems[0].detail.find("chown root") !=
            std::string::npos);
    co_await catalog->close();
  });
}

TEST_CASE("scan: at most one default per class, whatever the order of the files") {
  Rig rig;
  rig.write("b.yaml", config_yaml("b", "  default: true\n"));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    rig.write("a.yaml", config_yaml("a", "  default: true\n"));
    co_await catalog->scan();
    REQUIRE(catalog->default_sandbox_config("gvisor")->metadata().name() == "b");
    REQUIRE(catalog->find_sandbox_config("a") == nullptr);
    REQUIRE(find_file(catalog->files(), rig.path("a.yaml"))->problems[0].field == "spec.default");
    // Both changed in one go.
    rig.write("b.yaml", config_yaml("b", ""));
    co_await catalog->scan();
    REQUIRE(catalog->default_sandbox_config("gvisor")->metadata().name() == "a");
    // Another config replaces the one whose file goes.
    rig.remove("a.yaml");
    rig.write("c.yaml", config_yaml("c", "  default: true\n"));
    co_await catalog->scan();
    rig.clock.advance(std::chrono::seconds(3));
    co_await catalog->scan();
    REQUIRE(catalog->default_sandbox_config("gvisor")->metadata().name() == "c");
    REQUIRE(catalog->find_sandbox_config("a") == nullptr);
    co_await catalog->close();
  });
}

TEST_CASE("scan: when the store refuses, everything stays and is tried again") {
  Rig rig;
  rig.write("a.yaml", pool_yaml("one", "1Gi"));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    rig.store.fail_commits(1, Errc::DiskFull);
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("one") == nullptr);
    REQUIRE(rig.changes.empty());
    REQUIRE(rig.errors.size() == 1);
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("one") != nullptr);
    co_await catalog->close();
  });
}

// Fault I16: many files.
TEST_CASE("scan: an image that many templates share is looked at once") {
  Rig rig;
  rig.write("a.yaml", template_yaml("a", "") + "---\n" + template_yaml("b", ""));
  rig.write("b.yaml", template_yaml("c", ""));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    REQUIRE(catalog->templates("").size() == 3);
    REQUIRE(rig.sources->resolved == 1);
    co_await catalog->scan();  // asked for: the tag may have moved
    REQUIRE(rig.sources->resolved == 2);
    co_await catalog->close();
  });
}

TEST_CASE("scan: a thousand unchanged files cost little") {
  Rig rig;
  for (int i = 0; i < 1000; ++i) {
    rig.write("t" + std::to_string(i) + ".yaml", template_yaml("t" + std::to_string(i), ""));
  }
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    REQUIRE(catalog->templates("default").size() == 1000);
    REQUIRE(rig.store.commits == 1);
    const int resolved = rig.sources->resolved;
    co_await catalog->close();
    REQUIRE(resolved == 1);
  });
}
