// The sandbox of a running actor: watched, ended, and its end written down.
#include <algorithm>
#include <csignal>
#include <utility>

#include "ate/core/containers.hpp"
#include "engine/state.hpp"

namespace ate::engine {

namespace {

/// How long after an operator's signal an end counts as theirs.
constexpr std::chrono::seconds kSignalEffect(30);

bool ends_processes(int signo) {
  return signo == SIGTERM || signo == SIGKILL || signo == SIGINT || signo == SIGQUIT ||
         signo == SIGHUP || signo == SIGABRT;
}

bool ended_by_operator(const Guest& guest, SteadyTime now) {
  return guest.signalled != 0 && now - guest.signalled_at < kSignalEffect;
}

}  // namespace

std::string cause_words(const runtime::SandboxExit& exit, bool by_operator) {
  switch (exit.cause) {
    case runtime::SandboxExit::Cause::Exited:
      return "exited(" + std::to_string(exit.exit_code) + ")";
    case runtime::SandboxExit::Cause::Killed:
      return by_operator ? "killed-by-operator" : "killed(" + std::to_string(exit.signal) + ")";
    case runtime::SandboxExit::Cause::CgroupOom:
      return "cgroup-oom";
    case runtime::SandboxExit::Cause::SandboxCrash:
      return "vmm-crash";
    case runtime::SandboxExit::Cause::Unknown:
      break;
  }
  return "unknown";
}

namespace {

const char* state_word(runtime::ContainerView::State state) {
  switch (state) {
    case runtime::ContainerView::State::Running:
      return "RUNNING";
    case runtime::ContainerView::State::Waiting:
      return "WAITING";
    case runtime::ContainerView::State::Exited:
      break;
  }
  return "EXITED";
}

}  // namespace

void write_containers(v1alpha1::ActorRecord& record,
                      const std::vector<runtime::ContainerView>& containers) {
  v1alpha1::ActorStatus& status = *record.mutable_actor()->mutable_status();
  status.clear_containers();
  for (const runtime::ContainerView& view : containers) {
    v1alpha1::ContainerStatus& out = *status.add_containers();
    out.set_name(view.name);
    out.set_state(state_word(view.state));
    out.set_ready(view.ready);
    out.set_sidecar(view.sidecar);
    out.set_restarts(view.restarts);
    out.set_message(view.message);
    if (view.exit_code) {
      out.set_exit_code(*view.exit_code);
    }
  }
}

void write_guest_end(v1alpha1::ActorRecord& record, const core::Settled& settled,
                     const runtime::SandboxExit& exit,
                     std::vector<runtime::ContainerView> containers) {
  for (runtime::ContainerView& view : containers) {
    view.state = runtime::ContainerView::State::Exited;  // with it all of them end
    view.ready = false;
  }
  write_containers(record, containers);
  v1alpha1::ActorStatus& status = *record.mutable_actor()->mutable_status();
  set_state(record, settled.state);
  status.set_reason(settled.reason);
  status.set_message(escape_text(exit.detail, 1024));
  if (exit.cause == runtime::SandboxExit::Cause::Exited) {
    status.set_exit_code(exit.exit_code);
  }
}

GuestPtr Engine::State::adopt(const EntryPtr& entry, std::unique_ptr<runtime::Sandbox> sandbox,
                              const Start& start) {
  const auto guest = std::make_shared<Guest>(context);
  guest->sandbox = std::move(sandbox);
  guest->serial = start.serial;
  guest->worker = start.slot.worker;
  guest->limits = start.slot.limits;
  guest->overhead_bytes = start.slot.overhead_bytes;
  for (const runtime::ContainerImage& image : start.images) {
    guest->images.emplace(image.container, image.digest);
  }
  guest->in_use = start.in_use;
  live(entry)->guest = guest;
  background.spawn("watch", watch(entry, guest));
  background.spawn("containers", follow_containers(entry, guest));
  return guest;
}

async::Task<void> Engine::State::watch(EntryPtr entry, GuestPtr guest) {
  const std::shared_ptr<State> self = shared_from_this();
  runtime::SandboxExit exit = co_await guest->sandbox->exited();
  guest->exit = std::move(exit);
  guest->ended.set();
  if (!guest->destroying) {
    co_await guest_ended(entry, guest);
  }
}

async::Task<void> Engine::State::follow_containers(EntryPtr entry, GuestPtr guest) {
  const std::shared_ptr<State> self = shared_from_this();
  while (true) {
    const bool more = co_await guest->sandbox->containers_changed();
    const std::shared_ptr<Live> live = entry->live;
    if (!more || guest->destroying || live == nullptr || live->guest != guest) {
      co_return;
    }
    const std::vector<runtime::ContainerView> containers = guest->sandbox->containers();
    Change change;
    change.event = "actor.containers";
    change.edit = [containers](v1alpha1::ActorRecord& record) {
      if (state_of(record) == core::State::Running) {
        write_containers(record, containers);
      }
    };
    if (entry->state() == core::State::Running) {
      const Status saved = co_await this->change(entry, std::move(change));
      static_cast<void>(saved);  // logged there; the next change tells it again
    }
  }
}

async::Task<void> Engine::State::guest_ended(EntryPtr entry, GuestPtr guest) {
  const std::shared_ptr<Live> live = entry->live;
  const bool ours = live != nullptr && live->guest == guest && live->run == nullptr &&
                    live->ending == nullptr && entry->state() == core::State::Running;
  if (!ours) {
    co_return;  // an operation has the say, or it is over already
  }
  live->ending = std::make_shared<async::Event>(context);
  const bool by_operator = ended_by_operator(*guest, now());
  const runtime::SandboxExit exit = *guest->exit;
  core::Ending ending;
  ending.state = core::State::Running;
  ending.cause = cause_words(exit, by_operator);
  const bool own = exit.cause == runtime::SandboxExit::Cause::Exited;
  const core::Settled settled =
      core::settle(ending, own ? core::Outcome::GuestExited : core::Outcome::GuestCrashed);
  Change change;
  change.even_unsaved = true;
  change.message = exit.detail;
  const WallTime wall = clock.wall();
  change.edit = [this, settled, exit, by_operator, wall,
                 containers = guest->sandbox->containers()](v1alpha1::ActorRecord& record) {
    write_guest_end(record, settled, exit, containers);
    record.set_ended_by_operator(by_operator);
    plan_restart(record, settled.state, wall);
  };
  const Status saved = co_await this->change(entry, std::move(change));
  static_cast<void>(saved);  // logged there; memory goes on
  log.warning("actor ended", {{"actor", entry->label()},
                              {"uid", entry->uid()},
                              {"reason", settled.reason},
                              {"detail", exit.detail}});
  const Status gone = co_await retire(entry, guest, std::chrono::milliseconds(0));
  static_cast<void>(gone);  // logged there; kept for another try
  const std::shared_ptr<async::Event> over = std::exchange(live->ending, nullptr);
  over->set();
}

async::Task<Status> Engine::State::retire(EntryPtr entry, GuestPtr guest,
                                          std::chrono::milliseconds graceful) {
  guest->destroying = true;
  const async::Mutex::Lock lock = co_await guest->destroying_lock.lock();
  if (guest->gone) {
    co_return Status();
  }
  const Status status = co_await guest->sandbox->destroy(graceful);
  if (!status) {
    log.error("a sandbox would not end; it is tried again", {{"actor", entry->label()},
                                                             {"uid", entry->uid()},
                                                             {"worker", guest->worker},
                                                             {"error", status.error().message()}});
    const bool known =
        std::ranges::any_of(stuck, [&guest](const auto& pair) { return pair.second == guest; });
    if (!known) {
      stuck.emplace_back(entry, guest);
    }
    co_return status;
  }
  guest->gone = true;
  if (entry->live != nullptr && entry->live->guest == guest) {
    entry->live->guest.reset();
  }
  worker_free(guest->worker, entry->uid());
  co_return Status();
}

runtime::Runtime* Engine::State::runtime_of(const v1alpha1::ActorRecord& record) const {
  const v1alpha1::Actor& actor = record.actor();
  const v1alpha1::TemplateRef& reference = actor.spec().template_();
  const auto blueprint = templates.find_template(actor.metadata().atespace(), reference.name(),
                                                 reference.generation());
  if (blueprint == nullptr) {
    return nullptr;
  }
  const auto found = runtimes.find(v1alpha1::SandboxClass_Name(blueprint->spec().sandbox_class()));
  return found == runtimes.end() ? nullptr : found->second;
}

void Engine::State::worker_free(const std::string& worker, const std::string& uid) {
  workers.give_back(worker, uid);
  ++workers_freed;
  worker_freed.beat();
}

async::Task<Status> Engine::State::signal(ActorKey key, int signo, std::string container) {
  const std::shared_ptr<State> self = shared_from_this();
  if (signo < 1 || signo > 64) {
    co_return fail(Error(Errc::InvalidValue, "signal must be 1..64").with_field("signal"));
  }
  ATE_CO_TRY(open_for_verbs());
  ATE_CO_ASSIGN(const EntryPtr entry, find(key));
  const core::Decision decision = core::decide(entry->facts(), core::Command::Signal);
  const std::shared_ptr<Live> live = entry->live;
  if (decision.step != core::Step::Allow || live == nullptr || live->guest == nullptr) {
    Error error(decision.step == core::Step::Allow ? Errc::StateConflict : decision.code,
                "actor " + entry->label() + ": " +
                    (decision.message.empty() ? "no process runs" : decision.message));
    if (live != nullptr && live->run != nullptr) {
      error = std::move(error).with("operation", "/v1/operations/" + live->run->id());
    }
    co_return fail(std::move(error));
  }
  const GuestPtr guest = live->guest;
  const std::vector<runtime::ContainerView> containers = guest->sandbox->containers();
  std::vector<std::string> names;
  for (const runtime::ContainerView& view : containers) {
    names.push_back(view.name);
  }
  ATE_CO_ASSIGN(container, core::choose_container(names, container));
  const bool to_sidecar =
      std::ranges::find(containers, container, &runtime::ContainerView::name)->sidecar;
  if (ends_processes(signo) && !to_sidecar) {
    guest->signalled = signo;
    guest->signalled_at = now();
  }
  const Status sent = co_await guest->sandbox->signal(signo, std::move(container));
  if (sent || sent.error().code() != Errc::RuntimeFailed) {
    co_return sent;
  }
  const bool ended = co_await guest->ended.wait_for(kDeathNotice);
  static_cast<void>(ended);  // guest->exit tells
  co_return fail(ended_meanwhile(*entry, *guest, sent.error()));
}

Error ended_meanwhile(const Entry& entry, const Guest& guest, Error error) {
  if (!guest.exit || error.code() != Errc::RuntimeFailed) {
    return error;
  }
  if (guest.exit->cause == runtime::SandboxExit::Cause::Exited) {
    return Error(Errc::StateConflict,
                 "actor " + entry.label() + ": it has just ended: " + guest.exit->detail);
  }
  return std::move(error).context("the actor was ended meanwhile (" + guest.exit->detail + ")");
}

}  // namespace ate::engine
