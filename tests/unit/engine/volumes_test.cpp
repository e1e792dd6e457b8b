// Durable volumes and scopes on the fake host, with real directories.
#include <filesystem>

#include "ate/os/fs.hpp"
#include "world.hpp"

namespace {

using namespace ate;
using namespace ate::test;
namespace fs = std::filesystem;

/// An actor `a` of a template with the volume `data`.
struct Durable {
  explicit Durable(World& world) : w(world) {
    w.templates.templates["counter"]->mutable_spec()->add_volumes()->set_name("data");
    w.templates.templates["counter"]->mutable_spec()->mutable_volumes(0)->mutable_durable_dir();
  }

  [[nodiscard]] std::string path() const {
    return w.dir.file("actors/" + w.actor("a").metadata().uid() + "/volumes/data");
  }

  void write(const std::string& text) const { write_file(path() + "/x", text); }

  [[nodiscard]] std::string read() const {
    const Result<std::string> text = os::read_file(path() + "/x", 1 << 20);
    return text ? *text : "";
  }

  [[nodiscard]] async::Task<Result<VerbResult>> suspend(std::string scope) {
    VerbOptions options;
    options.scope = std::move(scope);
    co_return co_await w.engine->suspend(World::key("a"), std::move(options), Caller{"req", 0});
  }

  [[nodiscard]] async::Task<Result<VerbResult>> revert(bool keep) {
    VerbOptions options;
    options.keep_volumes = keep;
    co_return co_await w.engine->revert(World::key("a"), std::move(options), Caller{"req", 0});
  }

  /// Suspended with "one" in the volume and 1 in memory, then running with "two" and 2.
  [[nodiscard]] async::Task<void> two(std::string scope) {
    co_await w.create("a");
    co_await must(w.resume("a"));
    write("one");
    w.process("a")->memory = 1;
    co_await must(suspend(std::move(scope)));
    co_await must(w.resume("a"));
    CHECK(read() == "one");
    write("two");
    w.process("a")->memory = 2;
  }

  World& w;
};

void with_durable(std::function<async::Task<void>(Durable&)> body) {
  with_world([&body](World& w) -> async::Task<void> {
    Durable durable(w);
    co_await body(durable);
  });
}

TEST_CASE("volumes: a revert brings memory and files back together") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.two("FULL");
    CHECK(d.w.actor("a").status().volumes(0).quota() == "none");
    co_await must(d.revert(false));
    co_await must(d.w.resume("a"));
    CHECK(d.w.process("a")->memory == 1);
    CHECK(d.read() == "one");
    CHECK(d.w.actor("a").status().restored_from() == "snapshot");
  });
}

TEST_CASE(
    "volumes: keepVolumes keeps the files, drops the memory; a plain revert is still to be had") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.two("FULL");
    co_await must(d.revert(true));
    CHECK(d.w.state("a") == "SUSPENDED");
    SECTION("started") {
      co_await must(d.w.resume("a"));
      CHECK(d.w.process("a")->memory == 0);
      CHECK(d.read() == "two");
      CHECK(d.w.actor("a").status().restored_from() == "boot");
    }
    SECTION("reverted after all") {
      co_await must(d.revert(false));
      co_await must(d.w.resume("a"));
      CHECK(d.w.process("a")->memory == 1);
      CHECK(d.read() == "one");
    }
  });
}

TEST_CASE("volumes: scope DATA stops the guest; the next start is cold on the files") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.two("DATA");
    CHECK(d.w.host.count("checkpoint") == 0);
    CHECK(d.w.actor("a").status().restored_from() == "data");
    co_await must(d.suspend("DATA"));
    CHECK(d.w.host.running() == 0);
    const std::string id = d.w.actor("a").status().snapshot();
    const auto snapshot = d.w.engine->snapshot(id);
    ok(snapshot);
    CHECK((*snapshot)->scope() == "DATA");
    CHECK((*snapshot)->volume_bytes() > 0);
    const Status verified = co_await d.w.engine->verify_snapshot(id);
    CHECK(verified);
    co_await must(d.w.resume("a"));
    CHECK(d.read() == "two");
    CHECK(d.w.process("a")->memory == 0);
  });
}

TEST_CASE("volumes: a DATA suspend that fails after the stop leaves the files and two ways on") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.two("FULL");
    fs::create_directory(d.path() + "/sub");
    // Something in the way of the copy: the snapshot can't be made.
    d.w.runtime.script = [&d](const std::string& call, const std::string&) -> Status {
      if (call == "destroy" && fs::exists(d.path())) {
        fs::rename(d.path(), d.path() + ".aside");
      }
      return {};
    };
    const auto broken = co_await d.suspend("DATA");
    d.w.runtime.script = nullptr;
    REQUIRE_FALSE(broken);
    CHECK(d.w.state("a") == "CRASHED");
    CHECK(d.w.actor("a").status().reason() == "killed-by-operator");
    CHECK(d.w.host.running() == 0);
    fs::rename(d.path() + ".aside", d.path());
    SECTION("boot") {
      co_await must(d.w.boot("a"));
      CHECK(d.read() == "two");
    }
    SECTION("revert") {
      co_await must(d.revert(false));
      co_await must(d.w.resume("a"));
      CHECK(d.read() == "one");
      CHECK(d.w.process("a")->memory == 1);
    }
  });
}

TEST_CASE("volumes: an end keeps the files for a cold boot; revert goes back") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.two("FULL");
    d.w.host.end(d.w.process("a"), FakeRuntime::exited(3));
    co_await d.w.until([&d] { return d.w.state("a") == "EXITED"; });
    SECTION("boot") {
      co_await must(d.w.boot("a"));
      CHECK(d.read() == "two");
      CHECK(d.w.process("a")->memory == 0);
    }
    SECTION("revert, then a cold boot: on the snapshot's files") {
      co_await must(d.revert(false));
      co_await must(d.w.boot("a"));
      CHECK(d.read() == "one");
      CHECK(d.w.process("a")->memory == 0);
    }
  });
}

TEST_CASE("volumes: revert of what was never suspended empties them") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.w.create("a");
    co_await must(d.w.resume("a"));
    d.write("one");
    co_await must(d.revert(false));
    co_await must(d.w.resume("a"));
    CHECK(d.read().empty());
    CHECK(fs::is_directory(d.path()));
  });
}

TEST_CASE("volumes: a start that fails is tried again on the same files") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.two("FULL");
    co_await must(d.suspend(""));
    d.w.fail_next("ready", Errc::NotReady);
    co_await refused(d.w.resume("a"), Errc::NotReady);
    d.write("of the failed start");
    co_await must(d.w.resume("a"));
    CHECK(d.read() == "two");
    CHECK(d.w.process("a")->memory == 2);
  });
}

TEST_CASE("volumes: pause, revert of the paused, suspend of the paused") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.two("FULL");
    co_await must(d.w.pause("a"));
    SECTION("resume") {
      co_await must(d.w.resume("a"));
      CHECK(d.read() == "two");
      CHECK(d.w.process("a")->memory == 2);
    }
    SECTION("revert") {
      co_await must(d.revert(false));
      co_await must(d.w.resume("a"));
      CHECK(d.read() == "one");
      CHECK(d.w.process("a")->memory == 1);
    }
    SECTION("suspend commits it; another scope is refused") {
      co_await refused(d.suspend("DATA"), Errc::StateConflict);
      co_await must(d.suspend(""));
      co_await must(d.w.resume("a"));
      CHECK(d.read() == "two");
    }
  });
}

TEST_CASE("volumes: a daemon that dies in the middle of it") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.two("FULL");
    SECTION("while it runs: the live files stay") {
      co_await d.w.restart();
      CHECK(d.w.state("a") == "CRASHED");
      co_await must(d.w.boot("a"));
      CHECK(d.read() == "two");
    }
    SECTION("after a revert") {
      co_await must(d.revert(false));
      co_await d.w.restart();
      co_await must(d.w.resume("a"));
      CHECK(d.read() == "one");
    }
  });
}

TEST_CASE("volumes: another generation starts cold on them, while SUSPENDED only") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.two("FULL");
    const std::string move = R"({"spec":{"template":{"generation":4}}})";
    const auto early = co_await d.w.engine->patch(World::key("a"), move, std::nullopt, Caller{});
    failed(early, Errc::StateConflict);
    co_await must(d.suspend(""));
    const auto none = co_await d.w.engine->patch(World::key("a"), move, std::nullopt, Caller{});
    failed(none, Errc::InvalidValue);
    d.w.templates.templates["counter"]->mutable_metadata()->set_generation(4);
    const auto moved = co_await d.w.engine->patch(World::key("a"), move, std::nullopt, Caller{});
    ok(moved);
    CHECK(d.w.engine->template_in_use("default", "counter", 4));
    co_await must(d.w.resume("a"));
    CHECK(d.w.actor("a").status().restored_from() == "data");
    CHECK(d.w.process("a")->memory == 0);
    CHECK(d.read() == "two");
    // Back to its snapshot, which is of generation 3: its files, cold.
    d.write("three");
    co_await must(d.revert(false));
    co_await must(d.w.resume("a"));
    CHECK(d.read() == "two");
    CHECK(d.w.process("a")->memory == 0);
  });
}

TEST_CASE("volumes: a fork has copies of its own, also for a cold start") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.two("FULL");
    const std::string id = d.w.actor("a").status().snapshot();
    co_await d.w.create_with("f", R"(,"fromSnapshot":")" + id + "\"");
    const std::string path =
        d.w.dir.file("actors/" + d.w.actor("f").metadata().uid() + "/volumes/data/x");
    SECTION("with the memory") {
      co_await must(d.w.resume("f"));
      CHECK(d.w.process("f")->memory == 1);
    }
    SECTION("cold") {
      co_await must(d.w.boot("f"));
      CHECK(d.w.process("f")->memory == 0);
    }
    CHECK(*os::read_file(path, 100) == "one");
    write_file(path, "fork");
    CHECK(d.read() == "two");
    // Reverted, it is at its origin again.
    co_await must(d.w.engine->revert(World::key("f"), VerbOptions{}, Caller{"req", 0}));
    co_await must(d.w.resume("f"));
    CHECK(*os::read_file(path, 100) == "one");
    CHECK(d.w.process("f")->memory == 1);
  });
}

TEST_CASE("ttl: deletes what nobody has used for so long, across restarts") {
  with_durable([](Durable& d) -> async::Task<void> {
    co_await d.w.create_with("a", R"(,"ttl":"1h")");
    co_await d.w.create("b");
    co_await d.w.restart();
    async::TaskScope scope(d.w.context, [](const std::string&, const std::string&) {});
    scope.spawn("housekeeping", d.w.engine->housekeeping());
    d.w.clock.advance(std::chrono::minutes(59));
    co_await must(d.w.resume("a"));
    d.w.clock.advance(std::chrono::minutes(59));
    co_await async::sleep_for(std::chrono::milliseconds(20));
    CHECK(d.w.state("a") == "RUNNING");
    d.w.clock.advance(std::chrono::minutes(2));
    co_await d.w.until([&d] { return !d.w.engine->get(World::key("a")); });
    CHECK(d.w.state("b") == "SUSPENDED");
    CHECK(d.w.host.running() == 0);
    const auto expired = [](const auto& event) { return event->type() == "actor.expired"; };
    CHECK(std::ranges::count_if(d.w.store.stored_events, expired) == 1);
    co_await scope.close();
  });
}

}  // namespace
