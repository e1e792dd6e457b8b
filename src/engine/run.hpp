#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/core/lifecycle.hpp"
#include "ate/engine/engine.hpp"
#include "ate/runtime/runtime.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::engine {

/// One operation while it runs. Verbs only wait for it; it goes on when they are gone.
class Run final : public runtime::StageSink {
 public:
  Run(async::Context& context, std::string id, core::Command command, Caller caller,
      v1alpha1::ActorRef actor, const Clock& clock);
  ~Run() override = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  Run(Run&&) = delete;
  Run& operator=(Run&&) = delete;

  void record(std::string name, std::chrono::nanoseconds duration) override;
  /// Fixes how it ended; the first call wins.
  void end(const std::optional<Error>& error, std::string error_json);
  /// Takes an end back whose commit failed.
  void reopen();
  /// A stage after the end (the old sandbox is destroyed after the commit): moves the end.
  void prolong();
  /// As the store and the API have it.
  [[nodiscard]] std::shared_ptr<const v1alpha1::Operation> row() const;
  /// As the API has it: an end that is being committed together with the actor's new state is not
  /// there before that state is.
  [[nodiscard]] std::shared_ptr<const v1alpha1::Operation> shown() const;

  [[nodiscard]] const std::string& id() const noexcept { return id_; }

  [[nodiscard]] const std::string& actor_uid() const noexcept { return actor_.uid(); }

  [[nodiscard]] core::Command command() const noexcept { return command_; }

  [[nodiscard]] const Caller& caller() const noexcept { return caller_; }

  [[nodiscard]] bool ended() const noexcept { return state_ != v1alpha1::Operation::RUNNING; }

  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

  /// An error before the intent was committed: there is no operation to look at.
  void fail_early(const Error& error) { error_ = error; }

  bool intent = false;               // committed: the operation exists for others
  std::atomic<bool> cancel = false;  // DELETE ?force: give up at the next stage
  async::Event begun;                // intent committed, or failed before
  async::Event let_go;  // the actor is free for other verbs; at the latest when it is done
  async::Event done;
  bool committing = false;  // its end, and what the actor then is
  std::string snapshot;     // id of the one it made for itself
  std::string verb;         // as its row tells it

 private:
  const std::string id_;
  const core::Command command_;
  const Caller caller_;
  const v1alpha1::ActorRef actor_;
  const Clock& clock_;
  const SteadyTime started_;
  const std::string created_at_;
  std::vector<std::pair<std::string, double>> stages_;
  v1alpha1::Operation::State state_ = v1alpha1::Operation::RUNNING;
  std::string finished_at_;
  std::int64_t duration_ms_ = 0;
  std::optional<Error> error_;
  std::string error_json_;
};

/// Records the time between its construction and `stop` (or its end).
class StageTimer {
 public:
  StageTimer(runtime::StageSink& sink, const Clock& clock, const char* name)
      : sink_(sink), clock_(clock), name_(name), start_(clock.steady()) {}

  ~StageTimer() { stop(); }

  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;
  StageTimer(StageTimer&&) = delete;
  StageTimer& operator=(StageTimer&&) = delete;

  void stop() {
    if (name_ != nullptr) {
      sink_.record(std::exchange(name_, nullptr), clock_.steady() - start_);
    }
  }

 private:
  runtime::StageSink& sink_;
  const Clock& clock_;
  const char* name_;
  SteadyTime start_;
};

}  // namespace ate::engine
