#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ate/core/containers.hpp"
#include "ate/runtime/runtime.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::test {

/// A process of the fake host: it outlives the Sandbox object, as a real one outlives the daemon.
struct FakeProcess {
  explicit FakeProcess(async::Context& context) : ended(context), changed(context) {}

  std::string uid;
  std::int64_t serial = 0;
  std::string worker;
  std::string netns;
  std::int64_t memory = 0;  // what a checkpoint saves and a restore brings back
  bool frozen = false;
  bool running = true;
  std::uint64_t network_bytes = 0;
  std::vector<int> signals;
  runtime::SandboxExit exit;
  std::vector<runtime::ContainerView> containers;
  async::Event ended;
  async::Event changed;  // of `containers`
};

/// What is on the fake host, and what went wrong on it.
struct FakeHost {
  std::vector<std::shared_ptr<FakeProcess>> processes;
  std::map<std::string, std::string> netns;  // id -> uid ("" = reserved)
  std::vector<std::string> violations;
  std::vector<std::string> forgotten;  // uids
  std::vector<std::string> calls;
  std::map<std::string, std::int64_t> saved;  // snapshot id -> the memory that went into it
  std::uint64_t next_id = 1;

  [[nodiscard]] std::shared_ptr<FakeProcess> of(const std::string& uid) const {
    for (const auto& process : processes) {
      if (process->uid == uid && process->running) {
        return process;
      }
    }
    return nullptr;
  }

  [[nodiscard]] std::size_t running() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(processes, [](const auto& process) { return process->running; }));
  }

  void add(const std::shared_ptr<FakeProcess>& process) {
    for (const auto& other : processes) {
      if (other->running && other->uid == process->uid) {
        violations.push_back("two sandboxes of " + process->uid);
      }
      if (other->running && other->worker == process->worker) {
        violations.push_back("two sandboxes on " + process->worker);
      }
    }
    processes.push_back(process);
  }

  void end(const std::shared_ptr<FakeProcess>& process, runtime::SandboxExit exit) {
    if (std::exchange(process->running, false)) {
      process->exit = std::move(exit);
      process->ended.set();
      process->changed.set();
    }
    netns.erase(process->netns);
    std::erase(processes, process);
  }

  [[nodiscard]] std::size_t count(const std::string& call) const {
    return static_cast<std::size_t>(std::ranges::count(calls, call));
  }
};

class FakeRuntime final : public runtime::Runtime {
 public:
  FakeRuntime(async::Context& context, FakeHost& host) : context_(context), host_(host) {}

  /// Before each call ("boot", "restore", "ready", "checkpoint", ...): an error makes it fail.
  std::function<Status(const std::string& call, const std::string& uid)> script;
  /// Awaited before each call when set: holds it.
  std::function<async::Task<void>(std::string call, std::string uid)> gate;
  Status restorable;
  bool remember_calls = true;
  std::chrono::milliseconds last_grace{-1};  // of the last destroy

  [[nodiscard]] async::Task<Status> enter(std::string call, std::string uid) {
    if (remember_calls) {
      host_.calls.push_back(call);
    }
    if (gate) {
      co_await gate(call, uid);
    }
    co_return script ? script(call, uid) : Status();
  }

  [[nodiscard]] std::string class_name() const override { return "gvisor"; }

  [[nodiscard]] async::Task<Status> self_test(std::map<std::string, std::string>,
                                              std::map<std::string, std::string>) override {
    co_return Status();
  }

  [[nodiscard]] async::Task<Result<std::map<std::string, std::string>>> fingerprint(
      std::map<std::string, std::string> assets, std::map<std::string, std::string>) override {
    co_return assets;
  }

  [[nodiscard]] Status can_restore(const v1alpha1::SnapshotManifest&) const override {
    return restorable;
  }

  [[nodiscard]] async::Task<Result<runtime::Identity>> reserve() override {
    ATE_CO_TRY(co_await enter("reserve", std::string()));
    runtime::Identity identity;
    identity.netns_id = "n" + std::to_string(host_.next_id++);
    host_.netns.emplace(identity.netns_id, "");
    co_return identity;
  }

  [[nodiscard]] async::Task<void> release(runtime::Identity reserved) override {
    host_.netns.erase(reserved.netns_id);
    co_return;
  }

  [[nodiscard]] async::Task<Result<std::unique_ptr<runtime::Sandbox>>> boot(
      runtime::BootPlan plan, runtime::Identity reserved, runtime::StageSink& stages) override {
    return start("boot", std::move(plan.incarnation), std::move(plan.spec), std::move(reserved),
                 stages, std::string());
  }

  [[nodiscard]] async::Task<Result<std::unique_ptr<runtime::Sandbox>>> restore(
      runtime::RestorePlan plan, runtime::Identity reserved, runtime::StageSink& stages) override {
    return start("restore", std::move(plan.incarnation), std::move(plan.spec), std::move(reserved),
                 stages, plan.directory);
  }

  [[nodiscard]] async::Task<Result<std::vector<runtime::Leftover>>> observe() override {
    ATE_CO_TRY(co_await enter("observe", std::string()));
    std::vector<runtime::Leftover> all;
    for (const auto& [id, uid] : host_.netns) {
      all.push_back({"netns", id, uid, 0, false});
    }
    for (const auto& process : host_.processes) {
      all.push_back({"process", process->uid, process->uid, process->serial, process->running});
    }
    co_return all;
  }

  [[nodiscard]] async::Task<Status> purge(runtime::Leftover leftover) override {
    ATE_CO_TRY(co_await enter("purge", leftover.uid));
    if (leftover.kind == "netns") {
      host_.netns.erase(leftover.id);
    }
    const std::shared_ptr<FakeProcess> process = host_.of(leftover.uid);
    if (leftover.kind == "process" && process != nullptr) {
      host_.end(process, killed());
    }
    co_return Status();
  }

  [[nodiscard]] async::Task<Status> forget_actor(std::string uid) override {
    ATE_CO_TRY(co_await enter("forget", uid));
    host_.forgotten.push_back(uid);
    co_return Status();
  }

  static runtime::SandboxExit killed() {
    runtime::SandboxExit exit;
    exit.cause = runtime::SandboxExit::Cause::Killed;
    exit.signal = 9;
    return exit;
  }

  static runtime::SandboxExit exited(int code) {
    runtime::SandboxExit exit;
    exit.cause = runtime::SandboxExit::Cause::Exited;
    exit.exit_code = code;
    return exit;
  }

 private:
  class FakeSandbox;

  [[nodiscard]] async::Task<Result<std::unique_ptr<runtime::Sandbox>>> start(
      std::string call, runtime::Incarnation incarnation,
      std::shared_ptr<const v1alpha1::ActorTemplateSpec> spec, runtime::Identity reserved,
      runtime::StageSink& stages, std::string directory);

  async::Context& context_;
  FakeHost& host_;
};

class FakeRuntime::FakeSandbox final : public runtime::Sandbox {
 public:
  FakeSandbox(FakeRuntime& runtime, FakeHost& host, std::shared_ptr<FakeProcess> process)
      : runtime_(runtime), host_(host), process_(std::move(process)) {}

  [[nodiscard]] runtime::Identity identity() const override { return {4242, 77, process_->netns}; }

  [[nodiscard]] async::Task<Status> ready(runtime::StageSink&) override {
    ATE_CO_TRY(co_await runtime_.enter("ready", process_->uid));
    co_return alive("ready");
  }

  [[nodiscard]] async::Task<Status> checkpoint(std::string directory,
                                               std::shared_ptr<v1alpha1::SnapshotManifest> manifest,
                                               runtime::StageSink& stages) override {
    process_->frozen = true;
    ATE_CO_TRY(co_await runtime_.enter("checkpoint", process_->uid));
    ATE_CO_TRY(alive("checkpoint"));
    std::ofstream(directory + "/memory") << process_->memory;
    host_.saved[manifest->id()] = process_->memory;
    stages.record("fake-checkpoint", std::chrono::nanoseconds(0));
    co_return Status();
  }

  [[nodiscard]] async::Task<Status> unpause() override {
    ATE_CO_TRY(co_await runtime_.enter("unpause", process_->uid));
    ATE_CO_TRY(alive("unpause"));
    process_->frozen = false;
    co_return Status();
  }

  [[nodiscard]] async::Task<Status> signal(int signo, std::string container) override {
    const Result<std::string> target = core::choose_container(names(), container);
    ATE_CO_TRY(target);
    ATE_CO_TRY(co_await runtime_.enter("signal", process_->uid));
    process_->signals.push_back(signo);

    co_return alive("signal");
  }

  [[nodiscard]] async::Task<Result<UniqueFd>> dial(std::uint16_t,
                                                   std::chrono::milliseconds) override {
    ATE_CO_TRY(co_await runtime_.enter("dial", process_->uid));
    ATE_CO_TRY(alive("dial"));
    int pair[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      co_return fail(Errc::Internal, "socketpair");
    }
    UniqueFd other(std::move(pair[1]));
    co_return UniqueFd(std::move(pair[0]));
  }

  [[nodiscard]] async::Task<runtime::SandboxExit> exited() override {
    const std::shared_ptr<FakeProcess> process = process_;
    co_await process->ended.wait();
    co_return process->exit;
  }

  [[nodiscard]] std::vector<runtime::ContainerView> containers() const override {
    return process_->containers;
  }

  [[nodiscard]] async::Task<bool> containers_changed() override {
    const std::shared_ptr<FakeProcess> process = process_;
    co_await process->changed.wait();
    process->changed.reset();
    co_return process->running;
  }

  [[nodiscard]] async::Task<Result<runtime::ExecOutput>> exec(runtime::ExecPlan plan) override {
    ATE_CO_TRY(co_await runtime_.enter("exec", process_->uid));
    ATE_CO_TRY(alive("exec"));
    runtime::ExecOutput output;
    output.out = plan.argv.front();
    co_return output;
  }

  [[nodiscard]] async::Task<std::int64_t> resident_bytes() override { co_return 4096; }

  [[nodiscard]] std::uint64_t network_bytes() override { return process_->network_bytes; }

  [[nodiscard]] async::Task<Status> destroy(std::chrono::milliseconds graceful) override {
    const std::shared_ptr<FakeProcess> process = process_;
    runtime_.last_grace = graceful;
    ATE_CO_TRY(co_await runtime_.enter("destroy", process->uid));
    host_.end(process, killed());
    co_return Status();
  }

 private:
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const runtime::ContainerView& view : process_->containers) {
      out.push_back(view.name);
    }
    return out;
  }

  [[nodiscard]] Status alive(const char* what) const {
    if (process_->running) {
      return {};
    }
    return fail(Errc::RuntimeFailed, std::string(what) + ": the sandbox is gone");
  }

  FakeRuntime& runtime_;
  FakeHost& host_;
  std::shared_ptr<FakeProcess> process_;
};

inline async::Task<Result<std::unique_ptr<runtime::Sandbox>>> FakeRuntime::start(
    std::string call, runtime::Incarnation incarnation,
    std::shared_ptr<const v1alpha1::ActorTemplateSpec> spec, runtime::Identity reserved,
    runtime::StageSink& stages, std::string directory) {
  auto process = std::make_shared<FakeProcess>(context_);
  process->uid = incarnation.uid;
  process->serial = incarnation.serial;
  process->worker = incarnation.worker;
  process->netns = reserved.netns_id;
  for (const v1alpha1::Container& container : spec->containers()) {
    runtime::ContainerView view;
    view.name = container.name();
    view.sidecar = container.sidecar();
    view.ready = true;
    process->containers.push_back(view);
  }
  if (!host_.netns.contains(reserved.netns_id)) {
    host_.violations.push_back("started on a netns that was not reserved");
  }
  host_.netns[reserved.netns_id] = incarnation.uid;
  host_.add(process);
  Status entered = co_await enter(call, incarnation.uid);
  if (entered && !process->running) {
    entered = fail(Errc::RuntimeFailed, call + ": the sandbox was killed");
  }
  if (entered && !directory.empty()) {
    std::ifstream(directory + "/memory") >> process->memory;
    const auto saved = host_.saved.find(directory.substr(directory.rfind('/') + 1));
    if (saved != host_.saved.end() && saved->second != process->memory) {
      host_.violations.push_back("restored other memory than was saved");
    }
  }
  if (!entered) {
    host_.end(process, killed());
    co_return fail(entered.error());
  }
  stages.record("fake-" + call, std::chrono::nanoseconds(0));
  std::unique_ptr<runtime::Sandbox> sandbox =
      std::make_unique<FakeSandbox>(*this, host_, std::move(process));
  co_return sandbox;
}

}  // namespace ate::test
