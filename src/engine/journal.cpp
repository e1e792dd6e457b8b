#include "engine/journal.hpp"

#include <algorithm>

namespace ate::engine {

void Journal::load(const store::Loaded& loaded) {
  version_ = std::max(version_, loaded.last_resource_version);
  last_event_ = std::max(last_event_, loaded.last_event_id);
}

std::shared_ptr<v1alpha1::Event> Journal::event(const std::string& type,
                                                const v1alpha1::ActorRef& actor) const {
  auto event = std::make_shared<v1alpha1::Event>();
  event->set_time(format_rfc3339(clock_.wall()));
  event->set_type(type);
  *event->mutable_actor() = actor;
  return event;
}

async::Task<Status> Journal::commit(store::Batch batch) {
  std::map<std::string, std::shared_ptr<const v1alpha1::Operation>> riding;
  riding.swap(later_);
  for (const auto& operation : batch.put_operations) {
    riding.erase(operation->id());
  }
  for (const auto& [id, operation] : riding) {
    batch.put_operations.push_back(operation);
  }
  const std::vector<std::shared_ptr<v1alpha1::Event>> events = batch.events;
  const Status status = co_await store_.commit(std::move(batch));
  if (!status) {
    trouble_ = status.error();
    later_.merge(riding);
    co_return status;
  }
  trouble_.reset();
  for (const auto& event : events) {
    last_event_ = std::max(last_event_, event->id());
  }
  if (!events.empty()) {
    newer_.beat();
  }
  co_return status;
}

void Journal::later(const std::shared_ptr<const v1alpha1::Operation>& operation) {
  later_[operation->id()] = operation;
}

async::Task<Status> Journal::flush() {
  if (later_.empty()) {
    co_return Status();
  }
  store::Batch batch;
  co_return co_await commit(std::move(batch));
}

std::shared_ptr<const v1alpha1::Operation> Journal::unsaved(const std::string& id) const {
  const auto found = later_.find(id);
  return found == later_.end() ? nullptr : found->second;
}

}  // namespace ate::engine
