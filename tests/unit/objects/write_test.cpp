#include "rig.hpp"

using namespace ate;
using namespace ate::test;
using objects::Catalog;
using objects::Kind;

namespace {

async::Task<Result<Catalog::Put>> put_template(Catalog& catalog, std::string name,
                                               std::string json) {
  co_return co_await catalog.put(Kind::ActorTemplate, "default", std::move(name), std::move(json),
                                 std::nullopt);
}

std::string pool_json(const std::string& memory) {
  return R"({"spec":{"sandboxClass":"gvisor","resources":{"limits":{"cpu":1,"memory":")" + memory +
         R"("}}}})";
}

std::string member_text(const Error& error, const std::string& key) {
  for (const auto& [name, value] : error.members()) {
    if (name == key) {
      return std::get<std::string>(value);
    }
  }
  return {};
}

}  // namespace

TEST_CASE("put: creates, updates, and an equal one writes nothing") {
  Rig rig;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    auto made =
        co_await catalog->put(Kind::WorkerPool, "", "small", pool_json("1Gi"), std::nullopt);
    REQUIRE(made);
    REQUIRE(made->created);
    REQUIRE(made->as_pool->metadata().name() == "small");
    REQUIRE(made->as_pool->status().object().source() == "api");
    const std::string version = made->as_pool->metadata().resource_version();
    auto equal =
        co_await catalog->put(Kind::WorkerPool, "", "small", pool_json("1024Mi"), std::nullopt);
    REQUIRE(equal);
    REQUIRE_FALSE(equal->created);
    REQUIRE(equal->as_pool->metadata().resource_version() == version);
    REQUIRE(rig.store.commits == 1);
    auto changed = co_await catalog->put(Kind::WorkerPool, "", "small", pool_json("2Gi"), version);
    REQUIRE(changed);
    REQUIRE_FALSE(changed->created);
    REQUIRE(changed->as_pool->metadata().generation() == 2);
    REQUIRE(changed->as_pool->metadata().uid() == made->as_pool->metadata().uid());
    REQUIRE(rig.store.objects.size() == 1);
    auto stale = co_await catalog->put(Kind::WorkerPool, "", "small", pool_json("3Gi"), version);
    REQUIRE_FALSE(stale);
    REQUIRE(stale.error().code() == Errc::PreconditionFailed);
    auto absent = co_await catalog->put(Kind::WorkerPool, "", "other", pool_json("3Gi"), version);
    REQUIRE(absent.error().code() == Errc::PreconditionFailed);
    REQUIRE(rig.changes == std::vector<std::string>{"small", "small"});
    co_await catalog->close();
  });
}

TEST_CASE("put: what is wrong is answered with all of it, and nothing is kept") {
  Rig rig;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    auto broken = co_await put_template(*catalog, "t", "{");
    REQUIRE(broken.error().code() == Errc::Malformed);
    auto unknown = co_await put_template(*catalog, "t", R"({"spec":{"x":1}})");
    REQUIRE(unknown.error().code() == Errc::UnknownField);
    auto invalid = co_await put_template(
        *catalog, "t",
        R"({"metadata":{"name":"u","atespace":"other"},"spec":{"sandboxClass":"gvisor","onHostReboot":"revert",
            "containers":[{"name":"a","image":"nginx"}]}})");
    REQUIRE(invalid.error().code() == Errc::InvalidValue);
    std::vector<std::string> fields;
    for (const Problem& problem : invalid.error().problems()) {
      fields.push_back(problem.field);
    }
    REQUIRE(fields == std::vector<std::string>{"metadata.name", "metadata.atespace",
                                               "spec.onHostReboot", "spec.containers[0].image"});
    rig.sources->images.clear();
    auto no_image = co_await put_template(*catalog, "t", template_json("t"));
    REQUIRE(no_image.error().code() == Errc::ImageInvalid);
    REQUIRE(no_image.error().field() == "spec.containers[0].image");
    auto no_asset = co_await catalog->put(
        Kind::SandboxConfig, "", "g",
        R"({"spec":{"sandboxClass":"gvisor","assets":{"runsc":{"path":"/nowhere"}}}})",
        std::nullopt);
    REQUIRE(no_asset.error().code() == Errc::AssetInvalid);
    REQUIRE(rig.store.commits == 0);
    rig.store.fail_commits(1, Errc::DiskFull);
    auto full = co_await catalog->put(Kind::WorkerPool, "", "p", pool_json("1Gi"), std::nullopt);
    REQUIRE(full.error().code() == Errc::DiskFull);
    REQUIRE(catalog->find_pool("p") == nullptr);
    co_await catalog->close();
  });
}

TEST_CASE("put and delete: what a file owns is changed in the file, and the other way round") {
  Rig rig;
  rig.write("a.yaml", pool_yaml("filed", "1Gi") + "---\n" + pool_yaml("mine", "9Gi"));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    auto made = co_await catalog->put(Kind::WorkerPool, "", "mine", pool_json("1Gi"), std::nullopt);
    REQUIRE(made);
    co_await catalog->scan();
    auto put = co_await catalog->put(Kind::WorkerPool, "", "filed", pool_json("2Gi"), std::nullopt);
    REQUIRE(put.error().code() == Errc::FileOwned);
    REQUIRE(member_text(put.error(), "file") == rig.path("a.yaml"));
    auto removed = co_await catalog->remove(Kind::WorkerPool, "", "filed", std::nullopt);
    REQUIRE(removed.error().code() == Errc::FileOwned);
    // The file errors, the object of the API stays.
    REQUIRE(catalog->find_pool("mine")->spec().resources().limits().memory() == "1Gi");
    REQUIRE(catalog->files()[0].problems[0].code == Errc::AlreadyExists);
    // Deleted there, the file takes it.
    removed = co_await catalog->remove(Kind::WorkerPool, "", "mine", std::nullopt);
    REQUIRE(removed);
    co_await catalog->scan();
    REQUIRE(catalog->find_pool("mine")->spec().resources().limits().memory() == "9Gi");
    REQUIRE(catalog->find_pool("mine")->status().object().problems_size() == 0);
    co_await catalog->close();
  });
}

TEST_CASE("put: a second default of a class is a problem") {
  Rig rig;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    const std::string json =
        R"({"spec":{"sandboxClass":"gvisor","default":true,"assets":{"runsc":{"path":"/usr/bin/runsc"}}}})";
    auto first = co_await catalog->put(Kind::SandboxConfig, "", "a", json, std::nullopt);
    REQUIRE(first);
    auto again = co_await catalog->put(Kind::SandboxConfig, "", "a", json, std::nullopt);
    REQUIRE(again);
    auto second = co_await catalog->put(Kind::SandboxConfig, "", "b", json, std::nullopt);
    REQUIRE(second.error().code() == Errc::InvalidValue);
    REQUIRE(second.error().field() == "spec.default");
    auto pool = co_await catalog->put(
        Kind::WorkerPool, "", "p",
        R"({"spec":{"sandboxClass":"gvisor","sandboxConfig":"a","resources":{"limits":{"cpu":1,"memory":"1Gi"}}}})",
        std::nullopt);
    REQUIRE(pool);
    auto removed = co_await catalog->remove(Kind::SandboxConfig, "", "a", std::nullopt);
    REQUIRE(removed.error().code() == Errc::InUse);
    removed = co_await catalog->remove(Kind::SandboxConfig, "", "b", std::nullopt);
    REQUIRE(removed.error().code() == Errc::NotFound);
    co_await catalog->close();
  });
}

TEST_CASE("delete: a template is hidden, its generations stay while they are named") {
  Rig rig;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    auto first = co_await put_template(*catalog, "t", template_json("t"));
    REQUIRE(first);
    rig.references.generations = {1};
    std::string other = template_json("t");
    other.replace(other.find("oci:/i"), 6, "oci:/j");
    auto second = co_await put_template(*catalog, "t", other);
    REQUIRE(second->as_template->metadata().generation() == 2);
    auto stale = co_await catalog->remove(Kind::ActorTemplate, "default", "t", "1");
    REQUIRE(stale.error().code() == Errc::PreconditionFailed);
    auto removed = co_await catalog->remove(Kind::ActorTemplate, "default", "t", std::nullopt);
    REQUIRE(removed);
    REQUIRE(catalog->find_template("default", "t", 0) == nullptr);
    REQUIRE(catalog->find_template("default", "t", 1) != nullptr);
    REQUIRE(catalog->templates("default").empty());
    removed = co_await catalog->remove(Kind::ActorTemplate, "default", "t", std::nullopt);
    REQUIRE(removed.error().code() == Errc::NotFound);
    // The one that nobody names goes later, never while a create may be about to name it.
    co_await catalog->scan();
    REQUIRE(rig.store.objects.size() == 2);
    rig.clock.advance(std::chrono::minutes(2));
    co_await catalog->scan();
    REQUIRE(rig.store.objects.size() == 1);
    REQUIRE(catalog->find_template("default", "t", 2) == nullptr);
    co_await catalog->close();
  });
  // After a restart too: hidden, found by its generation, and the count goes on.
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    REQUIRE(catalog->find_template("default", "t", 0) == nullptr);
    REQUIRE(catalog->find_template("default", "t", 1)->status().images(0).digest() == digest('1'));
    auto again = co_await put_template(*catalog, "t", template_json("t"));
    REQUIRE(again->created);
    REQUIRE(again->as_template->metadata().generation() == 3);
    rig.references.generations.clear();
    auto removed = co_await catalog->remove(Kind::ActorTemplate, "default", "t", std::nullopt);
    REQUIRE(removed);
    rig.clock.advance(std::chrono::minutes(2));
    co_await catalog->scan();
    REQUIRE(rig.store.objects.empty());
    co_await catalog->close();
  });
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    auto again = co_await put_template(*catalog, "t", template_json("t"));
    REQUIRE(again->as_template->metadata().generation() == 4);
    co_await catalog->close();
  });
}

TEST_CASE("images: waits for a running unpack, and shows each image's state") {
  Rig rig;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    async::Event open(context);
    async::Event started(context);
    rig.sources->unpack_gate = [&]() -> async::Task<void> {
      started.set();
      co_await open.wait();
    };
    auto put = co_await put_template(*catalog, "t", template_json("t"));
    REQUIRE(put->as_template->status().images(0).state() == "Pending");
    co_await started.wait();
    const auto shown = catalog->find_template("default", "t", 0);
    REQUIRE(shown->status().images(0).state() == "Unpacking");
    REQUIRE(shown->status().object().ready() == "Unknown");
    // The unpack in the background does not hold up another writer.
    auto pool = co_await catalog->put(Kind::WorkerPool, "", "p", pool_json("1Gi"), std::nullopt);
    REQUIRE(pool);
    open.set();
    auto unpacked = co_await catalog->images(shown);
    REQUIRE(unpacked);
    REQUIRE(unpacked->at(0).first == "app");
    REQUIRE(unpacked->at(0).second.digest == digest('1'));
    REQUIRE(catalog->find_template("default", "t", 0)->status().object().ready() == "True");
    REQUIRE(catalog->find_template("default", "t", 0)->metadata().resource_version() ==
            shown->metadata().resource_version());
    co_await catalog->close();
  });
}

TEST_CASE("pins: not complete while something was imported that no object names yet") {
  Rig rig;
  rig.write("a.yaml", config_yaml("filed", ""));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    async::Event open(context);
    async::Event started(context);
    rig.sources->import_gate = [&]() -> async::Task<void> {
      started.set();
      co_await open.wait();
    };
    REQUIRE(catalog->pins().complete);
    async::TaskScope calls(context, nullptr);
    calls.spawn("scan", catalog->scan());
    co_await started.wait();
    REQUIRE_FALSE(catalog->pins().complete);
    open.set();
    while (!catalog->pins().complete) {
      co_await async::sleep_for(std::chrono::milliseconds(1));
    }
    co_await calls.close();
    rig.sources->import_gate = nullptr;
    REQUIRE(catalog->pins().complete);
    REQUIRE(catalog->pins().assets == std::set<std::string>{digest('a')});
    // Whatever comes of it, also when it is refused.
    const std::string bad = R"({"metadata":{"name":"c"},"spec":{"sandboxClass":"gvisor",)"
                            R"("assets":{"runsc":{"path":"/nowhere"}}}})";
    const auto put = co_await catalog->put(Kind::SandboxConfig, "", "c", bad, std::nullopt);
    REQUIRE_FALSE(put);
    REQUIRE(catalog->pins().complete);
    // A look at what has not changed imports nothing and holds up nobody.
    co_await catalog->scan();
    REQUIRE(catalog->pins().complete);
    co_await catalog->close();
  });
}

TEST_CASE("images: a failed unpack is shown and told as ImageInvalid, a full disk as such") {
  Rig rig;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    rig.sources->unpack_error = Error(Errc::Internal, "layer 2 is damaged");
    auto put = co_await put_template(*catalog, "t", template_json("t"));
    REQUIRE(put);
    auto unpacked = co_await catalog->images(put->as_template);
    REQUIRE(unpacked.error().code() == Errc::ImageInvalid);
    REQUIRE(unpacked.error().message().find("layer 2 is damaged") != std::string::npos);
    REQUIRE(catalog->find_template("default", "t", 0)->status().images(0).state() == "Failed");
    REQUIRE(catalog->find_template("default", "t", 0)->status().object().ready() == "False");
    rig.sources->unpack_error = Error(Errc::DiskFull, "no space");
    unpacked = co_await catalog->images(put->as_template);
    REQUIRE(unpacked.error().code() == Errc::DiskFull);
    rig.sources->unpack_error.reset();
    unpacked = co_await catalog->images(put->as_template);
    REQUIRE(unpacked);
    REQUIRE(catalog->find_template("default", "t", 0)->status().object().ready() == "True");
    co_await catalog->close();
  });
}

TEST_CASE(
    "SIGHUP: tags of templates from the API are resolved again, a failure keeps the old one") {
  Rig rig;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto catalog = rig.start(context);
    co_await catalog->scan();
    auto put = co_await put_template(*catalog, "t", template_json("t"));
    REQUIRE(put);
    rig.sources->images["oci:/i"] = digest('9');
    co_await catalog->scan();
    REQUIRE(catalog->find_template("default", "t", 0)->metadata().generation() == 2);
    rig.sources->images.clear();
    co_await catalog->scan();
    const auto kept = catalog->find_template("default", "t", 0);
    REQUIRE(kept->metadata().generation() == 2);
    REQUIRE(kept->status().images(0).digest() == digest('9'));
    REQUIRE(kept->status().object().problems(0).type() == "/v1/problems/image-invalid");
    REQUIRE(rig.errors.size() == 1);
    co_await catalog->close();
  });
}

TEST_CASE("load: a damaged row is an error that names the object") {
  Rig rig;
  store::ObjectRow row;
  row.kind = "WorkerPool";
  row.name = "p";
  row.generation = 1;
  row.bytes = "\xff\xff";
  rig.store.objects[{"WorkerPool", "", "p", 1}] = row;
  run_coro([&](async::Context& context) -> async::Task<void> {
    Rig empty;
    auto catalog = empty.start(context);
    const auto loaded = rig.store.load();
    const Status status = catalog->load(*loaded);
    REQUIRE_FALSE(status);
    REQUIRE(status.error().message().find("WorkerPool/p") != std::string::npos);
    co_await catalog->close();
  });
}
