// Several containers in the record of an actor, and commands in it.
#include "calls.hpp"

using namespace ate;
using namespace ate::test;
using engine::Side;
using runtime::ContainerView;

namespace {

void three_containers(World& w) {
  v1alpha1::ActorTemplateSpec& spec = *w.templates.templates.at("counter")->mutable_spec();
  spec.add_containers()->set_name("helper");
  v1alpha1::Container& side = *spec.add_containers();
  side.set_name("side");
  side.set_sidecar(true);
}

std::string words(const v1alpha1::Actor& actor) {
  std::string text;
  for (const v1alpha1::ContainerStatus& one : actor.status().containers()) {
    text += one.name() + " " + one.state() + (one.ready() ? " ready" : "") +
            (one.has_exit_code() ? " " + std::to_string(one.exit_code()) : "") + "; ";
  }
  return text;
}

std::size_t events_of(const World& w, const std::string& type) {
  return static_cast<std::size_t>(std::ranges::count_if(
      w.store.stored_events, [&type](const auto& event) { return event->type() == type; }));
}

}  // namespace

TEST_CASE("containers: shown while it runs, each change with an event, none at rest") {
  with_world([](World& w) -> async::Task<void> {
    three_containers(w);
    co_await w.create("a");
    REQUIRE(words(w.actor("a")).empty());
    co_await must(w.resume("a"));
    REQUIRE(words(w.actor("a")) == "app RUNNING ready; helper RUNNING ready; side RUNNING ready; ");
    const auto process = w.process("a");
    const std::string version = w.actor("a").metadata().resource_version();
    process->containers[2].state = ContainerView::State::Waiting;
    process->containers[2].ready = false;
    process->containers[2].exit_code = 9;
    process->changed.set();
    co_await w.until([&w] { return words(w.actor("a")).find("WAITING") != std::string::npos; });
    REQUIRE(words(w.actor("a")) == "app RUNNING ready; helper RUNNING ready; side WAITING 9; ");
    REQUIRE(w.actor("a").metadata().resource_version() != version);
    REQUIRE(w.state("a") == "RUNNING");
    REQUIRE(events_of(w, "actor.containers") == 1);
    co_await must(w.suspend("a"));
    REQUIRE(words(w.actor("a")).empty());
  });
}

TEST_CASE("containers: with the end of one all have ended, and its code is the actor's") {
  with_world([](World& w) -> async::Task<void> {
    three_containers(w);
    co_await w.create("a");
    co_await must(w.resume("a"));
    const auto process = w.process("a");
    process->containers[1].state = ContainerView::State::Exited;
    process->containers[1].exit_code = 3;
    runtime::SandboxExit exit = FakeRuntime::exited(3);
    exit.container = "helper";
    exit.detail = "container helper exited with code 3";
    w.host.end(process, exit);
    co_await w.until([&w] { return w.state("a") == "EXITED"; });
    REQUIRE(words(w.actor("a")) == "app EXITED; helper EXITED 3; side EXITED; ");
    REQUIRE(w.actor("a").status().exit_code() == 3);
    REQUIRE(w.actor("a").status().message() == "container helper exited with code 3");
    co_await must(w.boot("a"));
    REQUIRE(words(w.actor("a")) == "app RUNNING ready; helper RUNNING ready; side RUNNING ready; ");
  });
}

TEST_CASE("containers: a signal says which one; to a sidecar it is no end by the operator") {
  with_world([](World& w) -> async::Task<void> {
    three_containers(w);
    co_await w.create("a");
    co_await must(w.resume("a"));
    co_await refused(w.engine->signal(World::key("a"), 15, "", Caller{"req", 0}),
                     Errc::InvalidValue);
    co_await refused(w.engine->signal(World::key("a"), 15, "none", Caller{"req", 0}),
                     Errc::InvalidValue);
    co_await must(w.engine->signal(World::key("a"), 9, "side", Caller{"req", 0}));
    REQUIRE(w.process("a")->signals == std::vector<int>{9});
    w.host.end(w.process("a"), FakeRuntime::killed());
    co_await w.until([&w] { return w.state("a") == "CRASHED"; });
    REQUIRE(w.actor("a").status().reason() == "killed(9)");
  });
}

TEST_CASE("exec: wakes the actor, keeps it from being idle, and is refused where nothing runs") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await w.create_with("a", R"(,"idle":{"after":"1s","action":"suspend"})");
    core::ExecPlan plan;
    plan.argv = {"/bin/true"};
    {
      Gate gate(w, "exec");
      Side<core::ExecOutput> call(w.context, calls, "exec", w.engine->exec(World::key("a"), plan));
      co_await gate.reached.wait();
      REQUIRE(w.state("a") == "RUNNING");
      gate.open.set();
      const Result<core::ExecOutput> output = co_await call.join();
      ok(output);
      REQUIRE(output->out == "/bin/true");
    }
    w.host.end(w.process("a"), FakeRuntime::exited(0));
    co_await w.until([&w] { return w.state("a") == "EXITED"; });
    co_await refused(w.engine->exec(World::key("a"), plan), Errc::StateConflict);
    co_await refused(w.engine->exec(World::key("none"), plan), Errc::NotFound);
  });
}
