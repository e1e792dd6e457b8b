// The verbs of one actor, and what the API sees of them.
#include "world.hpp"

using namespace ate;
using namespace ate::test;

TEST_CASE("create: SUSPENDED, new, pinned to the template's generation, nothing started") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    const v1alpha1::Actor actor = w.actor("a");
    REQUIRE(actor.status().state() == State::SUSPENDED);
    REQUIRE(actor.status().reason() == "new");
    REQUIRE(actor.spec().template_().generation() == 3);
    REQUIRE(actor.spec().restart_policy() == v1alpha1::Never);
    REQUIRE(actor.metadata().uid().size() == 26);
    REQUIRE(w.host.processes.empty());
    REQUIRE(w.store.stored_events.back()->type() == "actor.created");
    REQUIRE(w.store.stored_operations.at(actor.status().last_operation())->verb() == "create");
    REQUIRE(w.engine->template_in_use("default", "counter", 3));
    REQUIRE_FALSE(w.engine->template_in_use("default", "counter", 2));
    const auto by_uid = w.engine->get({"default", actor.metadata().uid()});
    REQUIRE(by_uid);
  });
}

TEST_CASE("create: an existing name, a missing template and a bad body are told apart") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    const std::string same = R"({"metadata":{"name":"a"},"spec":{"template":{"name":"counter"}}})";
    const auto again = co_await w.engine->create("default", same, Caller{});
    failed(again, Errc::AlreadyExists);
    const std::string unknown = R"({"metadata":{"name":"b"},"spec":{"template":{"name":"nope"}}})";
    const auto missing = co_await w.engine->create("default", unknown, Caller{});
    failed(missing, Errc::InvalidValue);
    REQUIRE(missing.error().field() == "spec.template.name");
    const std::string old =
        R"({"metadata":{"name":"b"},"spec":{"template":{"name":"counter","generation":2}}})";
    const auto generation = co_await w.engine->create("default", old, Caller{});
    failed(generation, Errc::InvalidValue);
    const std::string bad = R"({"metadata":{"name":"b"},"spek":{}})";
    const auto field = co_await w.engine->create("default", bad, Caller{});
    failed(field, Errc::UnknownField);
    const std::string elsewhere =
        R"({"metadata":{"name":"b","atespace":"x"},"spec":{"template":{"name":"counter"}}})";
    const auto space = co_await w.engine->create("default", elsewhere, Caller{});
    failed(space, Errc::InvalidValue);
    w.store.fail_commits(1, Errc::DiskFull);
    const std::string good = R"({"metadata":{"name":"b"},"spec":{"template":{"name":"counter"}}})";
    const auto full = co_await w.engine->create("default", good, Caller{});
    failed(full, Errc::DiskFull);
    REQUIRE_FALSE(w.engine->get(World::key("b")));
    const auto later = co_await w.engine->create("default", good, Caller{});
    ok(later);
  });
}

TEST_CASE("life: boot, suspend, resume with the memory it had, pause, resume, revert, delete") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    const auto booted = co_await w.resume("a");
    ok(booted);
    REQUIRE(booted->finished);
    REQUIRE(booted->actor->status().state() == State::RUNNING);
    REQUIRE(booted->actor->status().restored_from() == "boot");
    REQUIRE(booted->actor->status().worker() == "small-0");
    REQUIRE(booted->actor->status().address() == "169.254.17.2");
    REQUIRE(booted->actor->status().sandbox().serial() == 1);
    REQUIRE(booted->actor->status().guest().vcpus() == 2);
    w.process("a")->memory = 7;
    const auto suspended = co_await w.suspend("a");
    ok(suspended);
    // The reply comes when nothing of it runs any more.
    REQUIRE(w.host.processes.empty());
    REQUIRE(w.host.netns.empty());
    const v1alpha1::Actor resting = w.actor("a");
    REQUIRE(resting.status().state() == State::SUSPENDED);
    REQUIRE_FALSE(resting.status().has_worker());
    const std::string first = resting.status().snapshot();
    REQUIRE_FALSE(first.empty());
    const auto resumed = co_await w.resume("a");
    ok(resumed);
    REQUIRE(resumed->actor->status().restored_from() == "snapshot");
    REQUIRE(resumed->actor->status().sandbox().serial() == 2);
    REQUIRE(w.process("a")->memory == 7);
    w.process("a")->memory = 8;
    const auto paused = co_await w.pause("a");
    ok(paused);
    REQUIRE(paused->actor->status().state() == State::PAUSED);
    REQUIRE(paused->actor->status().snapshot() == first);
    REQUIRE(paused->actor->status().has_pause_snapshot());
    const auto back = co_await w.resume("a");  // case T17: a snapshot of a restored actor
    ok(back);
    REQUIRE(back->actor->status().restored_from() == "pause");
    REQUIRE(w.process("a")->memory == 8);
    w.process("a")->memory = 9;
    const auto reverted = co_await w.revert("a");
    ok(reverted);
    REQUIRE(w.state("a") == "SUSPENDED");
    REQUIRE_FALSE(reverted->actor->status().has_pause_snapshot());
    const auto again = co_await w.resume("a");
    ok(again);
    REQUIRE(w.process("a")->memory == 7);
    const std::string uid = w.actor("a").metadata().uid();
    const auto removed = co_await w.remove("a", false);
    ok(removed);
    REQUIRE(removed->actor == nullptr);
    REQUIRE_FALSE(w.engine->get(World::key("a")));
    REQUIRE(w.store.actors.empty());
    REQUIRE(w.store.snapshots.empty());
    REQUIRE(w.host.processes.empty());
    REQUIRE(w.host.forgotten == std::vector<std::string>{uid});
    REQUIRE(w.store.stored_events.back()->type() == "operation.finished");
    const auto listing = co_await w.snapshots->list();
    ok(listing);
    REQUIRE(listing->complete.empty());
    co_await w.create("a");  // the name is free again
    REQUIRE(w.actor("a").metadata().uid() != uid);
  });
}

TEST_CASE("suspend: of a paused actor commits its pause snapshot and starts nothing") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    co_await must(w.resume("a"));
    co_await must(w.suspend("a"));
    const std::string old = w.actor("a").status().snapshot();
    co_await must(w.resume("a"));
    w.process("a")->memory = 5;
    co_await must(w.pause("a"));
    const std::string pause = w.actor("a").status().pause_snapshot();
    const std::size_t calls = w.host.calls.size();
    const auto suspended = co_await w.suspend("a");
    ok(suspended);
    REQUIRE(w.host.calls.size() == calls);
    REQUIRE(w.actor("a").status().snapshot() == pause);
    REQUIRE_FALSE(w.actor("a").status().has_pause_snapshot());
    REQUIRE(w.engine->snapshots(std::nullopt).size() == 1);
    REQUIRE(w.engine->snapshots(std::nullopt)[0]->kind() == "suspend");
    REQUIRE_FALSE(w.store.snapshots.contains(old));
    co_await must(w.resume("a"));
    REQUIRE(w.process("a")->memory == 5);
  });
}

TEST_CASE("verbs: there already is 200 without an operation; what cannot be is 409") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    const auto noop = co_await w.suspend("a");
    ok(noop);
    REQUIRE(noop->noop);
    REQUIRE(noop->operation.empty());
    co_await refused(w.pause("a"), Errc::StateConflict);
    co_await refused(w.revert("a"), Errc::StateConflict);
    co_await refused(w.resume("nobody"), Errc::NotFound);
    co_await must(w.resume("a"));
    const auto running = co_await w.resume("a");
    ok(running);
    REQUIRE(running->noop);
    REQUIRE(w.host.count("boot") == 1);
    VerbOptions scope;
    scope.scope = "DATA";
    const auto data = co_await w.engine->suspend(World::key("a"), scope, Caller{});
    failed(data, Errc::InvalidValue);  // its template has no volumes
    scope.scope = "ALL";
    const auto all = co_await w.engine->suspend(World::key("a"), scope, Caller{});
    failed(all, Errc::InvalidValue);
  });
}

TEST_CASE("if-match: a stale version is 412 naming the current one") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    VerbOptions options;
    options.if_match = "0";
    const auto stale = co_await w.engine->resume(World::key("a"), options, Caller{});
    failed(stale, Errc::PreconditionFailed);
    options.if_match = w.actor("a").metadata().resource_version();
    const auto fresh = co_await w.engine->resume(World::key("a"), options, Caller{});
    ok(fresh);
    const auto patched = co_await w.engine->patch(
        World::key("a"), R"({"metadata":{"labels":{"x":"y"}}})", std::string("0"), Caller{});
    failed(patched, Errc::PreconditionFailed);
  });
}

TEST_CASE("patch: labels, idle and restartPolicy; nothing else; an equal one changes nothing") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    const std::string body =
        R"({"metadata":{"labels":{"tier":"gold"}},"spec":{"restartPolicy":"Always","idle":{"after":"5s","action":"pause"}}})";
    const auto patched = co_await w.engine->patch(World::key("a"), body, std::nullopt, Caller{});
    ok(patched);
    REQUIRE((*patched)->metadata().labels().at("tier") == "gold");
    REQUIRE((*patched)->spec().restart_policy() == v1alpha1::Always);
    const std::string version = (*patched)->metadata().resource_version();
    const auto again = co_await w.engine->patch(World::key("a"), body, std::nullopt, Caller{});
    ok(again);
    REQUIRE((*again)->metadata().resource_version() == version);
    const auto name = co_await w.engine->patch(
        World::key("a"), R"({"spec":{"template":{"name":"other"}}})", std::nullopt, Caller{});
    failed(name, Errc::InvalidValue);
    engine::ActorQuery query;
    query.labels.emplace_back("tier", "gold");
    const auto page = w.engine->list(query);
    ok(page);
    REQUIRE(page->items.size() == 1);
    query.labels[0].second = "lead";
    REQUIRE(w.engine->list(query)->items.empty());
  });
}

TEST_CASE("operation: stages, request id and times are kept with it") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    const auto resumed = co_await w.resume("a");
    ok(resumed);
    const auto operation = co_await w.engine->operation(resumed->operation);
    ok(operation);
    const v1alpha1::Operation& row = **operation;
    REQUIRE(row.verb() == "resume");
    REQUIRE(row.state() == v1alpha1::Operation::DONE);
    REQUIRE(row.request_id() == "req");
    REQUIRE(row.has_finished_at());
    REQUIRE(row.stages_size() >= 3);
    co_await must(w.suspend("a"));
    const auto suspended = co_await w.engine->operation(w.actor("a").status().last_operation());
    ok(suspended);
    bool destroy = false;
    for (const v1alpha1::Stage& stage : (*suspended)->stages()) {
      destroy = destroy || stage.name() == "destroy";
    }
    REQUIRE(destroy);
    co_await refused(w.engine->operation("op-none"), Errc::NotFound);
  });
}

TEST_CASE("journal: one intent and one result per operation, with the state's events") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create("a");
    std::vector<std::string> seen;
    w.store.before_commit = [&seen](const store::Batch& batch) -> std::optional<Error> {
      for (const auto& record : batch.put_actors) {
        seen.push_back(State::State_Name(record->actor().status().state()) + "/" +
                       record->actor().status().worker() + "/" + record->netns_id());
      }
      return std::nullopt;
    };
    co_await must(w.resume("a"));
    REQUIRE(seen == std::vector<std::string>{"RESUMING/small-0/n1", "RUNNING/small-0/n1"});
    seen.clear();
    co_await must(w.suspend("a"));
    REQUIRE(seen == std::vector<std::string>{"SUSPENDING/small-0/n1", "SUSPENDED//"});
    const auto& events = w.store.stored_events;
    std::vector<std::string> states;
    for (const auto& event : events) {
      if (event->type() == "actor.state") {
        states.push_back(event->from() + ">" + event->to());
      }
    }
    REQUIRE(states == std::vector<std::string>{"SUSPENDED>RESUMING", "RESUMING>RUNNING",
                                               "RUNNING>SUSPENDING", "SUSPENDING>SUSPENDED"});
    REQUIRE(w.engine->last_event() == events.back()->id());
  });
}

TEST_CASE("list: by atespace and name, paged, filtered by state and template") {
  with_world([](World& w) -> async::Task<void> {
    for (const char* name : {"c", "a", "b"}) {
      co_await w.create(name);
    }
    co_await must(w.resume("b"));
    engine::ActorQuery query;
    query.limit = 2;
    const auto first = w.engine->list(query);
    REQUIRE(first->items.size() == 2);
    REQUIRE(first->items[0]->metadata().name() == "a");
    query.after = first->next;
    const auto second = w.engine->list(query);
    REQUIRE(second->items.size() == 1);
    REQUIRE(second->next.empty());
    engine::ActorQuery running;
    running.states = {"RUNNING"};
    REQUIRE(w.engine->list(running)->items.size() == 1);
    engine::ActorQuery elsewhere;
    elsewhere.atespace = "other";
    REQUIRE(w.engine->list(elsewhere)->items.empty());
    engine::ActorQuery other;
    other.template_name = "nope";
    REQUIRE(w.engine->list(other)->items.empty());
    engine::ActorQuery bad;
    bad.after = "nonsense";
    failed(w.engine->list(bad), Errc::InvalidValue);
  });
}

TEST_CASE("signal: reaches the first process; an operator's kill is not restarted") {
  with_world([](World& w) -> async::Task<void> {
    co_await w.create_with("a", R"(,"restartPolicy":"Always")");
    co_await refused(w.engine->signal(World::key("a"), 15, "", Caller{}), Errc::StateConflict);
    co_await must(w.resume("a"));
    co_await refused(w.engine->signal(World::key("a"), 0, "", Caller{}), Errc::InvalidValue);
    const Status sent = co_await w.engine->signal(World::key("a"), 9, "", Caller{});
    ok(sent);
    const auto process = w.process("a");
    REQUIRE(process->signals == std::vector<int>{9});
    w.host.end(process, FakeRuntime::killed());
    co_await w.until([&w]() { return w.state("a") == "CRASHED"; });
    REQUIRE(w.actor("a").status().reason() == "killed-by-operator");
    REQUIRE(w.stored("a").restart_not_before_ms() == 0);
  });
}

TEST_CASE("snapshots: what an actor names cannot be deleted; verification reads every byte") {
  with_world([](World& w) -> async::Task<void> {  // case T20
    co_await w.create("a");
    co_await must(w.resume("a"));
    co_await must(w.suspend("a"));
    const std::string id = w.actor("a").status().snapshot();
    const Status used = co_await w.engine->remove_snapshot(id, Caller{});
    failed(used, Errc::InUse);
    REQUIRE(used.error().message().find("default/a") != std::string::npos);
    co_await refused(w.engine->remove_snapshot("nope", Caller{}), Errc::NotFound);
    REQUIRE((*w.engine->snapshot(id))->used_by(0) == "default/a");
    co_await must(w.engine->verify_snapshot(id));
    write_file(w.dir.file("snapshots/" + id + "/memory"), "X");
    co_await refused(w.engine->verify_snapshot(id), Errc::SnapshotCorrupt);
  });
}
