#pragma once

#include <map>
#include <string>
#include <vector>

#include "ate/api/backend.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::test {

/// One of everything, and a record of what was asked.
class FakeBackend final : public api::Backend {
 public:
  FakeBackend() {
    auto made = std::make_shared<v1alpha1::Actor>();
    made->mutable_metadata()->set_name("c1");
    made->mutable_metadata()->set_atespace("default");
    made->mutable_metadata()->set_uid("01hzzzzzzzzzzzzzzzzzzzzzzz");
    made->mutable_metadata()->set_resource_version("7");
    made->mutable_spec()->mutable_template_()->set_name("counter");
    the_actor = made;
    auto blueprint = std::make_shared<v1alpha1::ActorTemplate>();
    blueprint->mutable_metadata()->set_name("counter");
    blueprint->mutable_metadata()->set_resource_version("3");
    the_template = blueprint;
    auto pool = std::make_shared<v1alpha1::WorkerPool>();
    pool->mutable_metadata()->set_name("small");
    pool->mutable_metadata()->set_resource_version("4");
    the_pool = pool;
    auto config = std::make_shared<v1alpha1::SandboxConfig>();
    config->mutable_metadata()->set_name("gvisor");
    config->mutable_metadata()->set_resource_version("5");
    the_config = config;
    auto saved = std::make_shared<v1alpha1::Snapshot>();
    saved->set_id("s1");
    the_snapshot = saved;
    for (const char* name : {"small-1", "small-0"}) {
      auto worker = std::make_shared<v1alpha1::Worker>();
      worker->set_name(name);
      worker->set_pool("small");
      worker->set_sandbox_class(v1alpha1::gvisor);
      the_workers.push_back(worker);
    }
    add_operation("op-1", v1alpha1::Operation::DONE, "");
    for (int id = 1; id <= 3; ++id) {
      auto event = std::make_shared<v1alpha1::Event>();
      event->set_id(id);
      event->set_type("actor.state");
      the_events.push_back(event);
    }
    put.as_template = the_template;
    put.as_pool = the_pool;
    put.as_sandbox_config = the_config;
  }

  void add_operation(const std::string& id, v1alpha1::Operation::State state,
                     const std::string& error_json) {
    auto operation = std::make_shared<v1alpha1::Operation>();
    operation->set_id(id);
    operation->set_verb("resume");
    operation->mutable_actor()->set_atespace(the_actor->metadata().atespace());
    operation->mutable_actor()->set_uid(the_actor->metadata().uid());
    operation->set_state(state);
    operation->set_error_json(error_json);
    the_operations[id] = operation;
  }

  // What the test sets and looks at.
  std::vector<api::Check> the_checks{{"store", true, "open"}};
  Actor the_actor;
  Template the_template;
  Pool the_pool;
  Config the_config;
  Snapshot the_snapshot;
  std::vector<Worker> the_workers;
  std::map<std::string, std::shared_ptr<v1alpha1::Operation>> the_operations;
  std::vector<std::shared_ptr<v1alpha1::Event>> the_events;
  objects::Catalog::Put put;
  engine::VerbResult verb_result;
  std::optional<Error> error;  // of the next call that can fail
  std::int64_t first_event = 1;
  std::optional<std::int64_t> engine_event;  // what last_event() says; else the newest
  std::vector<std::string> calls;
  engine::VerbOptions verb_options;
  engine::ActorQuery actor_query;
  engine::Caller last_caller;
  std::string last_body;
  std::string logs = "/nonexistent";
  bool actor_exists = true;
  std::function<void()> on_wait_event;

  [[nodiscard]] std::vector<api::Check> checks() const override { return the_checks; }

  [[nodiscard]] std::string enforcement() const override { return "off"; }

  [[nodiscard]] std::vector<Template> templates(const std::string& atespace) const override {
    return atespace == "default" ? std::vector<Template>{the_template} : std::vector<Template>{};
  }

  [[nodiscard]] std::vector<Pool> pools() const override { return {the_pool}; }

  [[nodiscard]] std::vector<Config> sandbox_configs() const override { return {the_config}; }

  [[nodiscard]] Template find_template(const std::string& atespace,
                                       const std::string& name) const override {
    return atespace == "default" && name == "counter" ? the_template : nullptr;
  }

  [[nodiscard]] Pool find_pool(const std::string& name) const override {
    return name == "small" ? the_pool : nullptr;
  }

  [[nodiscard]] Config find_sandbox_config(const std::string& name) const override {
    return name == "gvisor" ? the_config : nullptr;
  }

  [[nodiscard]] async::Task<Result<objects::Catalog::Put>> put_object(
      objects::Kind /*kind*/, std::string atespace, std::string name, std::string json,
      std::optional<std::string> if_match) override {
    calls.push_back("put " + atespace + "/" + name + " " + if_match.value_or("-"));
    last_body = std::move(json);
    if (error) {
      co_return fail(*error);
    }
    co_return put;
  }

  [[nodiscard]] async::Task<Status> remove_object(objects::Kind /*kind*/, std::string atespace,
                                                  std::string name,
                                                  std::optional<std::string> if_match) override {
    calls.push_back("remove " + atespace + "/" + name + " " + if_match.value_or("-"));
    co_return outcome();
  }

  [[nodiscard]] std::vector<objects::Catalog::FileStatus> files() const override {
    objects::Catalog::FileStatus good{"/etc/ate/a.yaml", "d", {}, {"WorkerPool/small"}};
    objects::Catalog::FileStatus bad{
        "/etc/ate/b.yaml", "e", {{Errc::UnknownField, "spec.x", "no such field", 3, 5, {}}}, {}};
    return {good, bad};
  }

  [[nodiscard]] async::Task<Result<Actor>> create(std::string atespace, std::string json,
                                                  engine::Caller caller) override {
    calls.push_back("create " + atespace);
    if (before_create) {
      co_await before_create();
    }
    last_body = std::move(json);
    last_caller = std::move(caller);
    if (error) {
      co_return fail(*error);
    }
    co_return the_actor;
  }

  [[nodiscard]] Result<Actor> actor(const engine::ActorKey& key) const override {
    const bool named =
        key.atespace == "default" && (key.name == "c1" || key.name == the_actor->metadata().uid());
    if (!actor_exists || !named) {
      return fail(Errc::NotFound, "actor " + key.name + " does not exist");
    }
    return the_actor;
  }

  [[nodiscard]] Result<engine::ActorPage> actors(const engine::ActorQuery& query) const override {
    const_cast<FakeBackend*>(this)->actor_query = query;
    return engine::ActorPage{{the_actor}, "default/c1"};
  }

  [[nodiscard]] async::Task<Result<Actor>> patch(engine::ActorKey key, std::string patch,
                                                 std::optional<std::string> if_match,
                                                 engine::Caller /*caller*/) override {
    calls.push_back("patch " + key.name + " " + if_match.value_or("-"));
    last_body = std::move(patch);
    if (error) {
      co_return fail(*error);
    }
    co_return the_actor;
  }

  [[nodiscard]] async::Task<Result<engine::VerbResult>> run(api::Verb verb, engine::ActorKey key,
                                                            engine::VerbOptions options,
                                                            engine::Caller caller) override {
    static constexpr const char* kNames[] = {"resume",   "pause",  "suspend",     "revert",
                                             "snapshot", "delete", "delete-force"};
    calls.push_back(std::string(kNames[static_cast<int>(verb)]) + " " + key.name);
    verb_options = std::move(options);
    last_caller = std::move(caller);
    if (error) {
      co_return fail(*error);
    }
    engine::VerbResult result = verb_result;
    result.snapshot = verb == api::Verb::Snapshot ? "s1" : "";
    co_return result;
  }

  [[nodiscard]] async::Task<Status> signal(engine::ActorKey key, int signo, std::string container,
                                           engine::Caller /*caller*/) override {
    calls.push_back("signal " + key.name + " " + std::to_string(signo) +
                    (container.empty() ? "" : " " + container));
    co_return outcome();
  }

  [[nodiscard]] async::Task<Result<core::ExecOutput>> exec(engine::ActorKey key,
                                                           core::ExecPlan plan) override {
    calls.push_back("exec " + key.name + " " + plan.argv.front());
    exec_plan = std::move(plan);
    ATE_CO_TRY(outcome());
    co_return exec_output;
  }

  core::ExecPlan exec_plan;
  core::ExecOutput exec_output;

  [[nodiscard]] async::Task<Result<engine::Connected>> connect(engine::ActorKey key,
                                                               std::uint16_t port) override {
    calls.push_back("connect " + key.atespace + "/" + key.name + ":" + std::to_string(port));
    if (error) {
      co_return fail(*error);
    }
    co_return engine::Connected{};
  }

  void touch(const std::string& uid) override { calls.push_back("touch " + uid); }

  [[nodiscard]] std::shared_ptr<void> hold(const std::string& uid) override {
    return std::make_shared<std::string>(uid);
  }

  [[nodiscard]] std::shared_ptr<void> hold_tunnel(const std::string& uid) override {
    calls.push_back("tunnel " + uid);
    return std::make_shared<std::string>(uid);
  }

  [[nodiscard]] std::string log_directory(const std::string& /*uid*/) const override {
    return logs;
  }

  [[nodiscard]] std::vector<Snapshot> snapshots(
      const std::optional<engine::ActorKey>& /*actor*/) const override {
    return {the_snapshot};
  }

  [[nodiscard]] Result<Snapshot> snapshot(const std::string& id) const override {
    if (id != "s1") {
      return fail(Errc::NotFound, "snapshot " + id + " does not exist");
    }
    return the_snapshot;
  }

  [[nodiscard]] async::Task<Status> verify_snapshot(std::string id) override {
    calls.push_back("verify " + id);
    co_return outcome();
  }

  [[nodiscard]] async::Task<Status> remove_snapshot(std::string id,
                                                    engine::Caller /*caller*/) override {
    calls.push_back("remove-snapshot " + id);
    co_return outcome();
  }

  [[nodiscard]] async::Task<Result<Snapshot>> patch_snapshot(std::string id, std::string patch,
                                                             engine::Caller /*caller*/) override {
    calls.push_back("patch-snapshot " + id);
    last_body = std::move(patch);
    if (error) {
      co_return fail(*error);
    }
    co_return the_snapshot;
  }

  [[nodiscard]] async::Task<Result<StorageReport>> storage() override {
    StorageReport report;
    report.parts = {{"images", 2, 300, 400}};
    report.free_bytes = 5;
    report.used_bytes = 7;
    report.budget_bytes = 6;
    report.collectable = {{"image", "sha256:ab", 100, "no object, actor or snapshot names it"}};
    co_return report;
  }

  [[nodiscard]] async::Task<Result<Collected>> collect(bool dry_run) override {
    calls.push_back(dry_run ? "collect dry" : "collect");
    co_return Collected{{{"image", "sha256:ab", 100, "unnamed"}}, 100, ""};
  }

  [[nodiscard]] std::vector<Worker> workers() const override { return the_workers; }

  [[nodiscard]] v1alpha1::Capacity capacity(
      const v1alpha1::ActorTemplate* blueprint) const override {
    v1alpha1::Capacity out = the_capacity;
    if (blueprint != nullptr) {
      out.mutable_explain()->mutable_template_()->set_name(blueprint->metadata().name());
    }
    return out;
  }

  v1alpha1::Capacity the_capacity;

  [[nodiscard]] Result<Worker> worker(const std::string& name) const override {
    for (const Worker& worker : the_workers) {
      if (worker->name() == name) {
        return worker;
      }
    }
    return fail(Errc::NotFound, "worker " + name + " does not exist");
  }

  [[nodiscard]] async::Task<Result<std::vector<Operation>>> operations(
      std::string after, std::size_t limit, std::optional<std::string> actor_uid,
      std::optional<std::string> state) override {
    calls.push_back("operations " + after + " " + std::to_string(limit) + " " +
                    actor_uid.value_or("-") + " " + state.value_or("-"));
    std::vector<Operation> out;
    for (const auto& [id, operation] : the_operations) {
      if (out.size() < limit) {
        out.push_back(operation);
      }
    }
    co_return out;
  }

  [[nodiscard]] async::Task<Result<Operation>> operation(std::string id,
                                                         std::chrono::milliseconds wait) override {
    calls.push_back("operation " + id + " " + std::to_string(wait.count()));
    const auto found = the_operations.find(id);
    if (found == the_operations.end()) {
      co_return fail(Errc::NotFound, "operation " + id + " does not exist");
    }
    co_return found->second;
  }

  [[nodiscard]] async::Task<Result<std::vector<Event>>> events(std::int64_t since,
                                                               std::size_t limit) override {
    std::vector<Event> out;
    for (const auto& event : the_events) {
      if (event->id() > since && out.size() < limit) {
        out.push_back(event);
      }
    }
    co_return out;
  }

  [[nodiscard]] async::Task<Result<std::int64_t>> first_event_id() override {
    co_return first_event;
  }

  [[nodiscard]] std::int64_t last_event() const override {
    return engine_event.value_or(the_events.empty() ? 0 : the_events.back()->id());
  }

  [[nodiscard]] async::Task<std::int64_t> wait_event(std::int64_t /*seen*/,
                                                     std::chrono::milliseconds limit) override {
    if (on_wait_event) {
      on_wait_event();
    } else {
      co_await async::sleep_for(limit);
    }
    co_return last_event();
  }

  [[nodiscard]] async::Task<Result<std::optional<KeptRequest>>> kept_request(
      std::string key) override {
    const auto found = kept.find(key);
    co_return found == kept.end() ? std::optional<KeptRequest>() : found->second;
  }

  [[nodiscard]] async::Task<Status> keep_request(KeptRequest request) override {
    if (keep_failures > 0 && --keep_failures == 0) {
      co_return fail(Errc::DiskFull, "scripted");
    }
    kept[request.key] = std::move(request);
    co_return Status();
  }

  [[nodiscard]] async::Task<Status> drop_request(std::string key) override {
    kept.erase(key);
    co_return Status();
  }

  [[nodiscard]] async::Task<Result<Operation>> operation_of(std::string request_id,
                                                            std::int64_t /*since_ms*/) override {
    for (const auto& [id, operation] : the_operations) {
      if (operation->request_id() == request_id) {
        co_return operation;
      }
    }
    co_return Operation();
  }

  [[nodiscard]] std::string digest(const std::string& text) const override { return text; }

  std::function<async::Task<void>()> before_create;
  std::map<std::string, KeptRequest> kept;
  int keep_failures = 0;  // the how-manieth keep_request fails

 private:
  Status outcome() const {
    if (error) {
      return fail(*error);
    }
    return {};
  }
};

}  // namespace ate::test
