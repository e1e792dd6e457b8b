// Several calls at once: on one actor they join or are told, on many they go side by side.
#include "ate/util/scope_exit.hpp"
#include "calls.hpp"

using namespace ate;
using namespace ate::test;
using engine::Side;

TEST_CASE("join: the same verb shares one operation; another gets 409 with it; a client may go") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {  // cases O1, O2
    co_await w.create("a");
    Gate gate(w, "boot");
    Side<VerbResult> first(w.context, calls, "first", w.resume("a"));
    co_await gate.reached.wait();
    Side<VerbResult> second(w.context, calls, "second", w.resume("a"));
    const auto other = co_await w.suspend("a");
    failed(other, Errc::OperationInProgress);
    const auto members = other.error().members();
    REQUIRE(members[0].first == "operation");
    const std::string operation = std::get<std::string>(members[0].second);
    REQUIRE(operation.starts_with("/v1/operations/op-"));
    co_await refused(w.remove("a", false), Errc::OperationInProgress);
    REQUIRE(w.state("a") == "RESUMING");
    gate.open.set();
    const auto one = co_await first.join();
    const auto two = co_await second.join();
    ok(one);
    ok(two);
    REQUIRE(one->operation == two->operation);
    REQUIRE("/v1/operations/" + one->operation == operation);
    REQUIRE(w.host.count("boot") == 1);
  });
}

TEST_CASE("respond-async: 202 at once, the operation can be waited for") {
  with_calls([](World& w, async::TaskScope&) -> async::Task<void> {
    co_await w.create("a");
    Gate gate(w, "boot");
    VerbOptions options;
    options.wait = false;
    const auto answer = co_await w.engine->resume(World::key("a"), options, Caller{});
    ok(answer);
    REQUIRE_FALSE(answer->finished);
    REQUIRE(answer->actor->status().state() == State::RESUMING);
    const auto running = co_await w.engine->operation(answer->operation);
    ok(running);
    REQUIRE((*running)->state() == v1alpha1::Operation::RUNNING);
    const auto early =
        co_await w.engine->wait_operation(answer->operation, std::chrono::milliseconds(1));
    ok(early);
    REQUIRE((*early)->state() == v1alpha1::Operation::RUNNING);
    gate.open.set();
    const auto ended =
        co_await w.engine->wait_operation(answer->operation, std::chrono::seconds(5));
    ok(ended);
    REQUIRE((*ended)->state() == v1alpha1::Operation::DONE);
  });
}

TEST_CASE("operation: DONE is not read before the actor's new state") {
  with_calls([](World& w, async::TaskScope&) -> async::Task<void> {
    co_await w.create("a");
    Gate gate(w, "boot");
    VerbOptions options;
    options.wait = false;
    const auto answer = co_await w.engine->resume(World::key("a"), options, Caller{});
    ok(answer);
    co_await gate.reached.wait();
    async::Event open(w.context);
    int commits = 0;
    w.store.gate = [&open, &commits]() -> async::Task<void> {
      ++commits;
      co_await open.wait();
    };
    gate.open.set();
    co_await w.until([&commits]() { return commits > 0; });
    const auto held = co_await w.engine->operation(answer->operation);
    ok(held);
    CHECK((*held)->state() == v1alpha1::Operation::RUNNING);
    CHECK((*held)->finished_at().empty());
    CHECK(w.state("a") == "RESUMING");
    open.set();
    const auto ended =
        co_await w.engine->wait_operation(answer->operation, std::chrono::seconds(5));
    w.store.gate = nullptr;
    ok(ended);
    CHECK((*ended)->state() == v1alpha1::Operation::DONE);
    CHECK(w.state("a") == "RUNNING");
  });
}

TEST_CASE("wait: when it runs out the answer is 202 and the operation goes on") {
  with_calls([](World& w, async::TaskScope&) -> async::Task<void> {
    w.options.operation_wait = std::chrono::milliseconds(5);
    co_await w.restart();
    co_await w.create("a");
    Gate gate(w, "boot");
    const auto answer = co_await w.resume("a");
    ok(answer);
    REQUIRE_FALSE(answer->finished);
    REQUIRE_FALSE(answer->operation.empty());
    gate.open.set();
    co_await w.until([&w]() { return w.state("a") == "RUNNING"; });
  });
}

TEST_CASE("delete?force: over a resume that hangs before or in its readiness gate") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {
    for (const char* call : {"boot", "ready"}) {
      INFO(call);
      co_await w.create("a");
      Gate gate(w, call);
      gate.until_killed = true;
      Side<VerbResult> resume(w.context, calls, "resume", w.resume("a"));
      co_await gate.reached.wait();
      co_await must(w.remove("a", true));
      const auto cut = co_await resume.join();
      REQUIRE_FALSE(cut);
      REQUIRE(w.host.running() == 0);
      REQUIRE(w.store.actors.empty());
      REQUIRE((*w.engine->worker("small-0"))->state() == "FREE");
    }
  });
}

TEST_CASE("delete?force: cancels a suspend at its next stage") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    Gate gate(w, "checkpoint");
    Side<VerbResult> suspend(w.context, calls, "suspend", w.suspend("a"));
    co_await gate.reached.wait();
    Side<VerbResult> remove(w.context, calls, "delete", w.remove("a", true));
    Side<VerbResult> again(w.context, calls, "delete", w.remove("a", true));
    co_await async::sleep_for(std::chrono::milliseconds(1));
    gate.open.set();
    const auto cut = co_await suspend.join();
    failed(cut, Errc::Cancelled);
    ok(co_await remove.join());
    static_cast<void>(co_await again.join());
    REQUIRE(w.store.actors.empty());
    REQUIRE(w.host.running() == 0);
    for (const auto& [id, operation] : w.store.stored_operations) {
      REQUIRE(operation->state() != v1alpha1::Operation::RUNNING);
    }
  });
}

TEST_CASE("patch: while an operation runs; neither loses the other's change") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await w.create("a");
    Gate gate(w, "boot");
    Side<VerbResult> resume(w.context, calls, "resume", w.resume("a"));
    co_await gate.reached.wait();
    const auto patched = co_await w.engine->patch(
        World::key("a"), R"({"metadata":{"labels":{"x":"y"}}})", std::nullopt, Caller{});
    ok(patched);
    gate.open.set();
    ok(co_await resume.join());
    REQUIRE(w.actor("a").metadata().labels().at("x") == "y");
    REQUIRE(w.state("a") == "RUNNING");
  });
}

TEST_CASE("workers: lowest free ordinal, 503 when all are taken, 422 when none can ever hold it") {
  with_world([](World& w) -> async::Task<void> {
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      co_await w.create(name);
    }
    for (const char* name : {"a", "b", "c", "d"}) {
      co_await must(w.resume(name));
    }
    const auto full = co_await w.resume("e");
    failed(full, Errc::NoFreeWorker);
    std::map<std::string, ErrorValue> members(full.error().members().begin(),
                                              full.error().members().end());
    REQUIRE(std::get<std::int64_t>(members.at("retryAfterSeconds")) > 0);
    REQUIRE(std::get<std::int64_t>(members.at("workers")) == 4);
    REQUIRE(std::get<std::int64_t>(members.at("assigned")) == 4);
    REQUIRE(w.state("e") == "SUSPENDED");
    co_await must(w.suspend("b"));
    co_await must(w.resume("e"));
    REQUIRE(w.actor("e").status().worker() == "small-1");
    // Shrunk: the high ordinals drain, what runs there runs on.
    w.templates.all_pools[0] =
        std::make_shared<const v1alpha1::WorkerPool>(w.templates.make_pool("small", 1, "1Gi"));
    REQUIRE((*w.engine->worker("small-3"))->state() == "DRAINING");
    REQUIRE((*w.engine->worker("small-3"))->actor().name() == "d");
    co_await must(w.suspend("d"));
    REQUIRE_FALSE(w.engine->worker("small-3"));
    co_await refused(w.resume("d"), Errc::NoFreeWorker);
    w.templates.all_pools.clear();
    co_await refused(w.resume("b"), Errc::NeverFits);
    w.templates.add_pool("tiny", 1, "100Mi");
    co_await w.create("new");
    co_await refused(w.resume("new"), Errc::BudgetTooSmall);
  });
}

TEST_CASE("workers: when no pool is selected, the answer names what the template wants") {
  with_world([](World& w) -> async::Task<void> {
    (*w.templates.templates.at("counter")->mutable_spec()->mutable_worker_selector())["tier"] =
        "gold";
    co_await w.create("a");
    const auto refused_ = co_await w.resume("a");
    failed(refused_, Errc::NeverFits);
    REQUIRE(refused_.error().message().find("(tier: gold)") != std::string::npos);
  });
}

TEST_CASE("pools: say how many workers they have, and why no actor can run in them") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    v1alpha1::WorkerPool small = w.templates.make_pool("small", 4, "1Gi");
    w.engine->describe(small);
    REQUIRE(small.status().workers() == 4);
    REQUIRE(small.status().assigned() == 1);
    REQUIRE(small.status().object().ready() == "True");
    REQUIRE(small.status().object().message().empty());
    v1alpha1::WorkerPool tiny = w.templates.make_pool("tiny", 1, "100Mi");
    w.engine->describe(tiny);
    REQUIRE(tiny.status().workers() == 1);
    REQUIRE(tiny.status().assigned() == 0);
    REQUIRE(tiny.status().object().ready() == "False");
    REQUIRE(tiny.status().object().message().find("limits.memory of WorkerPool tiny") !=
            std::string::npos);
    w.templates.config = nullptr;
    w.engine->describe(small);
    REQUIRE(small.status().object().ready() == "False");
    REQUIRE(small.status().object().message() == "no SandboxConfig is the default of class gvisor");
    small.mutable_spec()->set_sandbox_config("other");
    w.engine->describe(small);
    REQUIRE(small.status().object().message() == "there is no SandboxConfig other");
  });
}

TEST_CASE("workers: the selector and the declared size choose the pool") {
  with_world([](World& w) -> async::Task<void> {
    v1alpha1::WorkerPool labelled = w.templates.make_pool("gold", 1, "2Gi");
    (*labelled.mutable_metadata()->mutable_labels())["tier"] = "gold";
    w.templates.all_pools.push_back(std::make_shared<const v1alpha1::WorkerPool>(labelled));
    v1alpha1::ActorTemplate& blueprint = *w.templates.templates.at("counter");
    (*blueprint.mutable_spec()->mutable_worker_selector())["tier"] = "gold";
    co_await w.create("a");
    co_await must(w.resume("a"));
    REQUIRE(w.actor("a").status().worker() == "gold-0");
    co_await must(w.suspend("a"));
    blueprint.mutable_spec()->mutable_resources()->mutable_limits()->set_memory("4Gi");
    co_await w.create("b");
    co_await refused(w.resume("b"), Errc::NeverFits);
    blueprint.mutable_spec()->mutable_resources()->mutable_limits()->set_memory("512Mi");
    co_await must(w.resume("b"));
    REQUIRE(w.actor("b").status().guest().memory_bytes() == 440LL << 20);
  });
}

TEST_CASE("64 actors in parallel: create, resume, suspend, resume, delete; all go well") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {  // case T59
    w.templates.all_pools.clear();
    w.templates.add_pool("many", 64, "1Gi");
    const auto life = [](World& world, std::string name) -> async::Task<Status> {
      co_await world.create(name);
      for (int round = 0; round < 2; ++round) {
        ATE_CO_TRY(co_await world.resume(name));
        const std::shared_ptr<FakeProcess> process = world.process(name);
        if (process->memory != round) {
          co_return fail(Errc::Internal, "lost the memory of " + name);
        }
        ++process->memory;
        ATE_CO_TRY(co_await world.suspend(name));
      }
      ATE_CO_TRY(co_await world.resume(name));
      ATE_CO_TRY(co_await world.remove(name, false));
      co_return Status();
    };
    std::vector<Side<void>> all;
    for (int i = 0; i < 64; ++i) {
      all.emplace_back(w.context, calls, "life", life(w, "actor-" + std::to_string(i)));
    }
    for (Side<void>& side : all) {
      const Status status = co_await side.join();
      ok(status);
    }
    REQUIRE(w.store.actors.empty());
    REQUIRE(w.host.processes.empty());
    REQUIRE(w.host.netns.empty());
  });
}

TEST_CASE("suspend: with a grace it waits for open connections, at most that long") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    std::shared_ptr<void> hold = w.engine->hold(w.actor("a").metadata().uid());
    VerbOptions options;
    options.grace = std::chrono::seconds(5);
    Side<VerbResult> suspend(w.context, calls, "suspend",
                             w.engine->suspend(World::key("a"), options, Caller{}));
    for (int i = 0; i < 5; ++i) {
      co_await async::sleep_for(std::chrono::milliseconds(1));
      REQUIRE(w.state("a") == "RUNNING");
    }
    hold.reset();
    const auto done = co_await suspend.join();
    ok(done);
    co_await must(w.resume("a"));
    hold = w.engine->hold(w.actor("a").metadata().uid());
    options.grace = std::chrono::milliseconds(2);
    const auto limited = co_await w.engine->suspend(World::key("a"), options, Caller{});
    ok(limited);
    hold.reset();
    co_await must(w.resume("a"));
    const std::shared_ptr<void> tunnel = w.engine->hold_tunnel(w.actor("a").metadata().uid());
    const auto with_tunnel = co_await w.engine->suspend(World::key("a"), options, Caller{});
    ok(with_tunnel);
  });
}

TEST_CASE("stop: an operation that is cut off tells whoever waits for it") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await w.create("a");
    Gate gate(w, "boot");
    Side<VerbResult> resume(w.context, calls, "resume", w.resume("a"));
    co_await gate.reached.wait();
    co_await w.engine->stop(std::chrono::milliseconds(1));
    const auto cut = co_await resume.join();
    failed(cut, Errc::Unavailable);
  });
}

TEST_CASE("delete?force: need not wait for an image that is being unpacked") {
  with_calls([](World& w, async::TaskScope& calls) -> async::Task<void> {
    co_await w.create("a");
    async::Event never(w.context);
    w.templates.unpacking = &never;
    Side<VerbResult> resume(w.context, calls, "resume", w.resume("a"));
    co_await w.until([&w]() { return w.state("a") == "RESUMING"; });
    co_await must(w.remove("a", true));
    const auto cut = co_await resume.join();
    failed(cut, Errc::Cancelled);
    REQUIRE(w.host.netns.empty());
    never.set();
  });
}
