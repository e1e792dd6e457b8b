#include "engine/run.hpp"

namespace ate::engine {

Run::Run(async::Context& context, std::string id, core::Command command, Caller caller,
         v1alpha1::ActorRef actor, const Clock& clock)
    : begun(context),
      let_go(context),
      done(context),
      verb(core::verb_of(command)),
      id_(std::move(id)),
      command_(command),
      caller_(std::move(caller)),
      actor_(std::move(actor)),
      clock_(clock),
      started_(clock.steady()),
      created_at_(format_rfc3339(clock.wall())) {}

void Run::record(std::string name, std::chrono::nanoseconds duration) {
  stages_.emplace_back(std::move(name),
                       std::chrono::duration<double, std::milli>(duration).count());
}

void Run::end(const std::optional<Error>& error, std::string error_json) {
  if (ended()) {
    return;
  }
  error_ = error;
  error_json_ = std::move(error_json);
  const bool cancelled = error && error->code() == Errc::Cancelled;
  state_ = !error      ? v1alpha1::Operation::DONE
           : cancelled ? v1alpha1::Operation::CANCELLED
                       : v1alpha1::Operation::FAILED;
  prolong();
}

void Run::reopen() {
  state_ = v1alpha1::Operation::RUNNING;
  error_.reset();
  error_json_.clear();
}

void Run::prolong() {
  finished_at_ = format_rfc3339(clock_.wall());
  duration_ms_ =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.steady() - started_).count();
}

std::shared_ptr<const v1alpha1::Operation> Run::row() const {
  auto row = std::make_shared<v1alpha1::Operation>();
  row->set_id(id_);
  row->set_verb(verb);
  *row->mutable_actor() = actor_;
  row->set_state(state_);
  row->set_request_id(caller_.request_id);
  row->set_created_at(created_at_);
  if (ended()) {
    row->set_finished_at(finished_at_);
    row->set_duration_ms(duration_ms_);
  }
  for (const auto& [name, ms] : stages_) {
    v1alpha1::Stage* stage = row->add_stages();
    stage->set_name(name);
    stage->set_ms(ms);
  }
  row->set_error_json(error_json_);
  row->set_snapshot(snapshot);
  return row;
}

std::shared_ptr<const v1alpha1::Operation> Run::shown() const {
  if (!committing) {
    return row();
  }
  auto running = std::make_shared<v1alpha1::Operation>(*row());
  running->set_state(v1alpha1::Operation::RUNNING);
  running->clear_finished_at();
  running->clear_duration_ms();
  running->clear_error_json();
  return running;
}

}  // namespace ate::engine
