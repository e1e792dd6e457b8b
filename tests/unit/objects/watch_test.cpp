#include <filesystem>

#include "rig.hpp"

using namespace ate;
using namespace ate::test;
using objects::Catalog;

namespace fs = std::filesystem;

namespace {

/// Runs `steps` beside the watching catalog; real time, because inotify is.
template <class Steps>
void watched(Rig& rig, Steps steps) {
  const SystemClock clock;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context, clock);
    co_await catalog->scan();
    async::TaskScope scope(context, [](const std::string&, const std::string&) {});
    scope.spawn("watch", catalog->watch());
    co_await steps(*catalog);
    co_await scope.close();
    co_await catalog->close();
  });
}

/// Until `condition` holds; run_coro's own limit fails a test that waits for nothing.
template <class Condition>
async::Task<void> until(Condition condition) {
  while (!condition()) {
    co_await async::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

// Faults I10 and I11 of the reliability study: every way in which a file changes.
TEST_CASE("watch: files that are written, renamed, linked, made readable are seen") {
  Rig rig;
  watched(rig, [&](Catalog& catalog) -> async::Task<void> {
    const auto memory = [&](const std::string& name) -> std::string {
      const auto pool = catalog.find_pool(name);
      return pool == nullptr ? "" : pool->spec().resources().limits().memory();
    };
    rig.write("a.yaml", pool_yaml("a", "1Gi"));  // create and write
    co_await until([&] { return memory("a") == "1Gi"; });
    rig.write("a.yaml", pool_yaml("a", "2Gi"));  // truncate and write in place
    co_await until([&] { return memory("a") == "2Gi"; });
    rig.write(".a.tmp", pool_yaml("a", "3Gi"));
    fs::rename(rig.path(".a.tmp"), rig.path("a.yaml"));  // write aside and rename
    co_await until([&] { return memory("a") == "3Gi"; });
    write_file(rig.dir.file("linked"), pool_yaml("b", "1Gi"));
    fs::create_hard_link(rig.dir.file("linked"), rig.path("b.yaml"));  // link: no write at all
    co_await until([&] { return memory("b") == "1Gi"; });
    fs::create_directory(rig.path("..1"));
    fs::create_directory(rig.path("..2"));
    write_file(rig.path("..1/c"), pool_yaml("c", "1Gi"));
    write_file(rig.path("..2/c"), pool_yaml("c", "2Gi"));
    fs::create_symlink("..1", rig.path("..data"));
    fs::create_symlink("..data/c", rig.path("c.yaml"));
    co_await until([&] { return memory("c") == "1Gi"; });
    fs::create_symlink("..2", rig.path("..new"));
    fs::rename(rig.path("..new"), rig.path("..data"));  // the link is swapped, the file is not
    co_await until([&] { return memory("c") == "2Gi"; });
    rig.write("d.yaml", pool_yaml("d", "1Gi"));
    fs::permissions(rig.path("d.yaml"), fs::perms(0666));
    co_await until([&] {
      const auto files = catalog.files();
      const auto* file = find_file(files, rig.path("d.yaml"));
      return file != nullptr && !file->problems.empty();
    });
    fs::permissions(rig.path("d.yaml"), fs::perms(0600));
    co_await until([&] {
      const auto files = catalog.files();
      return find_file(files, rig.path("d.yaml"))->problems.empty();
    });
    REQUIRE(memory("d") == "1Gi");
  });
}

TEST_CASE("watch: a removed file's objects go after the absence, without another event") {
  Rig rig;
  rig.write("a.yaml", pool_yaml("a", "1Gi"));
  watched(rig, [&](Catalog& catalog) -> async::Task<void> {
    const auto begin = std::chrono::steady_clock::now();
    rig.remove("a.yaml");
    co_await until([&] { return catalog.find_pool("a") == nullptr; });
    REQUIRE(std::chrono::steady_clock::now() - begin >= std::chrono::seconds(2));
  });
}

TEST_CASE("watch: a directory that is replaced or comes later is watched again") {
  Rig rig;
  const std::string etc = rig.dir.path() + "/etc";
  fs::remove(etc);
  watched(rig, [&](Catalog& catalog) -> async::Task<void> {
    fs::create_directory(etc);
    rig.write("a.yaml", pool_yaml("a", "1Gi"));
    co_await until([&] { return catalog.find_pool("a") != nullptr; });
    fs::create_directory(etc + ".new");
    write_file(etc + ".new/a.yaml", pool_yaml("a", "2Gi"));
    fs::rename(etc, etc + ".old");
    fs::rename(etc + ".new", etc);
    co_await until(
        [&] { return catalog.find_pool("a")->spec().resources().limits().memory() == "2Gi"; });
    rig.write("b.yaml", pool_yaml("b", "1Gi"));
    co_await until([&] { return catalog.find_pool("b") != nullptr; });
  });
}

// As by a mount over it, for which a test would have to be root.
TEST_CASE("watch: a path that leads elsewhere without an event is followed") {
  Rig rig;
  const std::string top = rig.dir.path();
  fs::remove(top + "/etc");
  fs::create_directories(top + "/one/etc");
  fs::create_directories(top + "/two/etc");
  fs::create_symlink("one", top + "/middle");
  fs::create_symlink("middle/etc", top + "/etc");
  write_file(top + "/two/etc/a.yaml", pool_yaml("a", "2Gi"));
  watched(rig, [&](Catalog& catalog) -> async::Task<void> {
    rig.write("a.yaml", pool_yaml("a", "1Gi"));
    co_await until([&] { return catalog.find_pool("a") != nullptr; });
    fs::create_symlink("two", top + "/middle.new");
    fs::rename(top + "/middle.new", top + "/middle");
    co_await until(
        [&] { return catalog.find_pool("a")->spec().resources().limits().memory() == "2Gi"; });
    rig.write("b.yaml", pool_yaml("b", "1Gi"));
    co_await until([&] { return catalog.find_pool("b") != nullptr; });
  });
}

TEST_CASE("watch: a tag is not resolved again until its file changes") {
  Rig rig;
  rig.write("a.yaml", template_yaml("t", ""));
  watched(rig, [&](Catalog& catalog) -> async::Task<void> {
    rig.sources->images["oci:/i"] = digest('9');
    rig.write("b.yaml", pool_yaml("b", "1Gi"));
    co_await until([&] { return catalog.find_pool("b") != nullptr; });
    REQUIRE(catalog.find_template("default", "t", 0)->metadata().generation() == 1);
    rig.write("a.yaml", "# touched\n" + template_yaml("t", ""));
    co_await until(
        [&] { return catalog.find_template("default", "t", 0)->metadata().generation() == 2; });
  });
}
