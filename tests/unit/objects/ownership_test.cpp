// Who owns an object and who may take it away: the same table for each kind.
#include <filesystem>

#include "rig.hpp"

using namespace ate;
using namespace ate::test;
using objects::Catalog;
using objects::Kind;

namespace {

struct Subject {
  Kind kind;
  std::string atespace;
  std::string yaml;   // of an object named x
  std::string other;  // the same with another spec
  std::string json;   // as `yaml`, for PUT
  std::string label;  // as messages and file statuses name it
};

/// As the API shows it; null when there is none.
struct Shown {
  std::string source;
  std::string file;
  std::string uid;
  std::int64_t generation = 0;
  int problems = 0;
};

template <class T>
std::optional<Shown> show(const std::shared_ptr<const T>& object) {
  if (object == nullptr) {
    return std::nullopt;
  }
  const v1alpha1::ObjectStatus& status = object->status().object();
  return Shown{status.source(), status.file(), object->metadata().uid(),
               object->metadata().generation(), status.problems_size()};
}

std::optional<Shown> find(const Catalog& catalog, const Subject& subject) {
  switch (subject.kind) {
    case Kind::ActorTemplate:
      return show(catalog.find_template(subject.atespace, "x", 0));
    case Kind::WorkerPool:
      return show(catalog.find_pool("x"));
    case Kind::SandboxConfig:
      break;
  }
  return show(catalog.find_sandbox_config("x"));
}

std::vector<Subject> subjects() {
  const std::string pool = R"({"spec":{"sandboxClass":"gvisor","resources":{"limits":)"
                           R"({"cpu":1,"memory":"1Gi"}}}})";
  const std::string config =
      R"({"spec":{"sandboxClass":"gvisor","assets":{"runsc":{"path":"/usr/bin/runsc"}}}})";
  return {
      {Kind::ActorTemplate, "default", template_yaml("x", ""), template_yaml("x", "  ttl: 24h\n"),
       template_json("x"), "ActorTemplate/default/x"},
      {Kind::WorkerPool, "", pool_yaml("x", "1Gi"), pool_yaml("x", "2Gi"), pool, "WorkerPool/x"},
      {Kind::SandboxConfig, "", config_yaml("x", ""),
       config_yaml("x", "  gvisor: {platform: kvm}\n"), config, "SandboxConfig/x"},
  };
}

/// Runs `body(rig, catalog, subject)` for each kind.
template <class F>
void each_kind(F body) {
  for (const Subject& subject : subjects()) {
    CAPTURE(subject.label);
    Rig rig;
    run_coro([&](async::Context& context) -> async::Task<void> {
      auto catalog = rig.start(context);
      co_await body(rig, *catalog, subject);
      co_await catalog->close();
    });
  }
}

async::Task<Result<Catalog::Put>> put(Catalog& catalog, const Subject& subject) {
  co_return co_await catalog.put(subject.kind, subject.atespace, "x", subject.json, std::nullopt);
}

async::Task<Status> remove(Catalog& catalog, const Subject& subject) {
  co_return co_await catalog.remove(subject.kind, subject.atespace, "x", std::nullopt);
}

/// The answer to a change of what a file owns: 409, with the file.
void owned_by(const Error& error, const std::string& path) {
  REQUIRE(error.code() == Errc::FileOwned);
  REQUIRE(error.members().size() == 1);
  REQUIRE(error.members()[0].first == "file");
  REQUIRE(std::get<std::string>(error.members()[0].second) == path);
}

}  // namespace

TEST_CASE("ownership: what a file owns is read-only in the API, also with an equal spec") {
  each_kind([](Rig& rig, Catalog& catalog, const Subject& subject) -> async::Task<void> {
    rig.write("a.yaml", subject.yaml);
    co_await catalog.scan();
    const auto before = find(catalog, subject);
    REQUIRE(before);
    REQUIRE(before->source == "file");
    REQUIRE(before->file == rig.path("a.yaml"));
    const auto refused = co_await put(catalog, subject);
    REQUIRE_FALSE(refused);
    owned_by(refused.error(), rig.path("a.yaml"));
    const Status kept = co_await remove(catalog, subject);
    REQUIRE_FALSE(kept);
    owned_by(kept.error(), rig.path("a.yaml"));
    // A file that is broken just now, or gone for less than two seconds, owns it still.
    rig.write("a.yaml", "kind: [\n");
    co_await catalog.scan();
    const auto broken = co_await put(catalog, subject);
    owned_by(broken.error(), rig.path("a.yaml"));
    rig.remove("a.yaml");
    rig.write("z.yaml", "# nothing\n");
    co_await catalog.scan();
    rig.clock.advance(std::chrono::milliseconds(1999));
    co_await catalog.scan();
    const auto gone = co_await put(catalog, subject);
    owned_by(gone.error(), rig.path("a.yaml"));
    const auto after = find(catalog, subject);
    REQUIRE(after);
    REQUIRE(after->uid == before->uid);
    REQUIRE(after->generation == 1);
  });
}

TEST_CASE("ownership: a name goes from the file to the API once its file let go of it") {
  each_kind([](Rig& rig, Catalog& catalog, const Subject& subject) -> async::Task<void> {
    rig.write("a.yaml", subject.yaml);
    rig.write("z.yaml", "# nothing\n");
    co_await catalog.scan();
    const auto filed = find(catalog, subject);
    REQUIRE(filed);
    rig.remove("a.yaml");
    co_await catalog.scan();
    rig.clock.advance(std::chrono::seconds(2));
    co_await catalog.scan();
    REQUIRE_FALSE(find(catalog, subject));
    const auto made = co_await put(catalog, subject);
    REQUIRE(made);
    REQUIRE(made->created);
    const auto mine = find(catalog, subject);
    REQUIRE(mine);
    REQUIRE(mine->source == "api");
    REQUIRE(mine->file.empty());
    REQUIRE(mine->uid != filed->uid);
    // Only of a template's generations is the count kept, since actors and snapshots name them.
    REQUIRE(mine->generation == (subject.kind == Kind::ActorTemplate ? 2 : 1));
    // And the absence of a file never takes what the API made.
    for (int i = 0; i < 3; ++i) {
      rig.clock.advance(std::chrono::seconds(10));
      co_await catalog.scan();
    }
    REQUIRE(find(catalog, subject));
  });
}

TEST_CASE(
    "ownership: a file against what the API owns errors, the object and its file's others stay") {
  each_kind([](Rig& rig, Catalog& catalog, const Subject& subject) -> async::Task<void> {
    const auto made = co_await put(catalog, subject);
    REQUIRE(made);
    const auto before = find(catalog, subject);
    rig.write("a.yaml", subject.other + "---\n" + pool_yaml("beside", "1Gi"));
    co_await catalog.scan();
    const auto during = find(catalog, subject);
    REQUIRE(during);
    REQUIRE(during->source == "api");
    REQUIRE(during->uid == before->uid);
    REQUIRE(during->generation == before->generation);
    REQUIRE(catalog.find_pool("beside") != nullptr);
    const auto files = catalog.files();
    const auto* file = find_file(files, rig.path("a.yaml"));
    REQUIRE(file != nullptr);
    REQUIRE(file->problems.size() == 1);
    REQUIRE(file->problems[0].code == Errc::AlreadyExists);
    REQUIRE(file->problems[0].detail.find(subject.label) != std::string::npos);
    REQUIRE(file->objects == std::vector<std::string>{"WorkerPool/beside"});
    // The API may go on changing it and take it away; the next scan gives it to the file.
    const auto again = co_await put(catalog, subject);
    REQUIRE(again);
    REQUIRE_FALSE(again->created);
    const Status removed = co_await remove(catalog, subject);
    REQUIRE(removed);
    co_await catalog.scan();
    const auto after = find(catalog, subject);
    REQUIRE(after);
    REQUIRE(after->source == "file");
    REQUIRE(after->problems == 0);
    REQUIRE(catalog.files()[0].problems.empty());
  });
}

TEST_CASE("ownership: an object that moves to another file stays the same one") {
  each_kind([](Rig& rig, Catalog& catalog, const Subject& subject) -> async::Task<void> {
    rig.write("a.yaml", subject.yaml);
    co_await catalog.scan();
    const auto before = find(catalog, subject);
    std::filesystem::rename(rig.path("a.yaml"), rig.path("b.yml"));
    co_await catalog.scan();
    const auto after = find(catalog, subject);
    REQUIRE(after);
    REQUIRE(after->file == rig.path("b.yml"));
    REQUIRE(after->uid == before->uid);
    REQUIRE(after->generation == before->generation);
    rig.clock.advance(std::chrono::minutes(1));
    co_await catalog.scan();
    REQUIRE(find(catalog, subject));
  });
}

TEST_CASE(
    "ownership: the first name in byte order wins; other names and directories are not read") {
  each_kind([](Rig& rig, Catalog& catalog, const Subject& subject) -> async::Task<void> {
    std::filesystem::create_directory(rig.path("sub"));
    for (const char* name : {"sub/x.yaml", "A.json", "A.yaml.bak", "A.YAML", ".A.yaml", "A"}) {
      rig.write(name, subject.yaml);
    }
    co_await catalog.scan();
    REQUIRE_FALSE(find(catalog, subject));
    REQUIRE(catalog.files().empty());
    rig.write("a.yaml", subject.yaml);
    rig.write("B.yml", subject.other);
    co_await catalog.scan();
    const auto shown = find(catalog, subject);
    REQUIRE(shown);
    REQUIRE(shown->file == rig.path("B.yml"));
    const auto files = catalog.files();
    REQUIRE(files.size() == 2);
    for (const auto& file : files) {
      REQUIRE(file.problems.size() == 1);
      REQUIRE(file.problems[0].code == Errc::AlreadyExists);
    }
  });
}

TEST_CASE("ownership: it lasts over a restart") {
  for (const Subject& subject : subjects()) {
    CAPTURE(subject.label);
    Rig rig;
    std::string filed;
    run_coro([&](async::Context& context) -> async::Task<void> {
      auto catalog = rig.start(context);
      rig.write("a.yaml", subject.yaml);
      co_await catalog->scan();
      filed = find(*catalog, subject)->uid;
      co_await catalog->close();
    });
    run_coro([&](async::Context& context) -> async::Task<void> {
      auto catalog = rig.start(context);
      // Before the first scan as well.
      const auto refused = co_await put(*catalog, subject);
      owned_by(refused.error(), rig.path("a.yaml"));
      rig.remove("a.yaml");
      rig.write("z.yaml", "# nothing\n");
      co_await catalog->scan();
      REQUIRE(find(*catalog, subject)->uid == filed);
      rig.clock.advance(std::chrono::seconds(2));
      co_await catalog->scan();
      REQUIRE_FALSE(find(*catalog, subject));
      const auto made = co_await put(*catalog, subject);
      REQUIRE(made);
      co_await catalog->close();
    });
    run_coro([&](async::Context& context) -> async::Task<void> {
      auto catalog = rig.start(context);
      rig.write("a.yaml", subject.other);
      co_await catalog->scan();
      REQUIRE(find(*catalog, subject)->source == "api");
      REQUIRE(catalog->files().size() == 2);
      co_await catalog->close();
    });
  }
}
