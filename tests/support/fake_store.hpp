#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ate/store/store.hpp"
#include "ate/v1alpha1/actor.pb.h"

namespace ate::test {

/// A store in memory with scripted failures, for engine and objects. It keeps what was committed,
/// so that `load()` shows what a restarted daemon would see.
class FakeStore final : public store::Store {
 public:
  using ObjectKey = std::tuple<std::string, std::string, std::string, std::int64_t>;

  /// Called before each commit; an error means nothing of the batch happens.
  std::function<std::optional<Error>(const store::Batch&)> before_commit;
  /// Awaited before each commit when set: a test holds the writer with it.
  std::function<async::Task<void>()> gate;

  // What is stored, to look at and to prepare.
  std::map<std::string, std::shared_ptr<v1alpha1::ActorRecord>> actors;
  std::map<std::string, std::shared_ptr<v1alpha1::Snapshot>> snapshots;
  std::map<ObjectKey, store::ObjectRow> objects;
  std::map<std::string, std::shared_ptr<v1alpha1::Operation>> stored_operations;
  std::vector<std::shared_ptr<v1alpha1::Event>> stored_events;
  std::map<std::string, std::string> meta;
  std::map<std::string, store::KeptRequest> requests;
  std::optional<store::Retention> last_trim;
  std::int64_t last_event_id = 0;
  std::int64_t last_resource_version = 0;
  std::size_t commits = 0;
  bool closed = false;

  /// The next `count` commits fail with `code`.
  void fail_commits(std::size_t count, Errc code) {
    failing_ = count;
    failure_ = code;
  }

  [[nodiscard]] Result<store::Loaded> load() override {
    store::Loaded loaded;
    for (const auto& [uid, record] : actors) {
      loaded.actors.push_back(std::make_shared<v1alpha1::ActorRecord>(*record));
      note_version(record->actor().metadata().resource_version());
    }
    for (const auto& [id, snapshot] : snapshots) {
      loaded.snapshots.push_back(std::make_shared<v1alpha1::Snapshot>(*snapshot));
    }
    for (const auto& [key, row] : objects) {
      loaded.objects.push_back(row);
    }
    for (const auto& [id, operation] : stored_operations) {
      if (operation->state() == v1alpha1::Operation::RUNNING) {
        loaded.running_operations.push_back(std::make_shared<v1alpha1::Operation>(*operation));
      }
    }
    loaded.meta.assign(meta.begin(), meta.end());
    loaded.last_event_id = last_event_id;
    loaded.last_resource_version = last_resource_version;
    return loaded;
  }

  [[nodiscard]] async::Task<Status> commit(store::Batch batch) override {
    if (gate) {
      co_await gate();
    }
    if (failing_ > 0) {
      --failing_;
      co_return fail(failure_, "scripted failure of a commit");
    }
    if (before_commit) {
      std::optional<Error> error = before_commit(batch);
      if (error) {
        co_return fail(std::move(*error));
      }
    }
    apply(batch);
    co_return Status{};
  }

  [[nodiscard]] async::Task<Result<std::vector<std::shared_ptr<v1alpha1::Operation>>>> operations(
      store::OperationQuery query) override {
    std::vector<std::shared_ptr<v1alpha1::Operation>> out;
    for (auto it = stored_operations.rbegin(); it != stored_operations.rend(); ++it) {
      const v1alpha1::Operation& operation = *it->second;
      const bool wanted =
          (query.after.empty() || operation.id() < query.after) &&
          (!query.actor_uid || operation.actor().uid() == *query.actor_uid) &&
          (!query.state || v1alpha1::Operation::State_Name(operation.state()) == *query.state);
      if (wanted && out.size() < query.limit) {
        out.push_back(std::make_shared<v1alpha1::Operation>(operation));
      }
    }
    co_return out;
  }

  [[nodiscard]] async::Task<Result<std::shared_ptr<v1alpha1::Operation>>> operation(
      std::string id) override {
    const auto it = stored_operations.find(id);
    if (it == stored_operations.end()) {
      co_return fail(Errc::NotFound, "no operation " + id);
    }
    co_return std::make_shared<v1alpha1::Operation>(*it->second);
  }

  [[nodiscard]] async::Task<Result<std::vector<std::shared_ptr<v1alpha1::Event>>>> events(
      store::EventQuery query) override {
    std::vector<std::shared_ptr<v1alpha1::Event>> out;
    for (const auto& event : stored_events) {
      const bool wanted = event->id() > query.since &&
                          (!query.actor_uid || event->actor().uid() == *query.actor_uid);
      if (wanted && out.size() < query.limit) {
        out.push_back(std::make_shared<v1alpha1::Event>(*event));
      }
    }
    co_return out;
  }

  [[nodiscard]] async::Task<Result<std::int64_t>> first_event_id() override {
    co_return stored_events.empty() ? last_event_id + 1 : stored_events.front()->id();
  }

  [[nodiscard]] async::Task<Result<std::optional<store::KeptRequest>>> kept_request(
      std::string key) override {
    const auto found = requests.find(key);
    co_return found == requests.end() ? std::optional<store::KeptRequest>() : found->second;
  }

  [[nodiscard]] async::Task<Result<std::shared_ptr<v1alpha1::Operation>>> operation_of(
      std::string request_id, std::string not_before) override {
    for (const auto& [id, operation] : stored_operations) {
      if (id >= not_before && operation->request_id() == request_id) {
        co_return std::make_shared<v1alpha1::Operation>(*operation);
      }
    }
    co_return std::shared_ptr<v1alpha1::Operation>();
  }

  /// By count only.
  [[nodiscard]] async::Task<Status> trim(store::Retention keep) override {
    last_trim = keep;
    for (auto it = stored_operations.begin();
         it != stored_operations.end() && stored_operations.size() > keep.operations;) {
      it = it->second->state() == v1alpha1::Operation::RUNNING ? std::next(it)
                                                               : stored_operations.erase(it);
    }
    if (stored_events.size() > keep.events) {
      const auto drop = static_cast<std::ptrdiff_t>(stored_events.size() - keep.events);
      stored_events.erase(stored_events.begin(), stored_events.begin() + drop);
    }
    co_return Status{};
  }

  [[nodiscard]] async::Task<void> close() override {
    closed = true;
    co_return;
  }

 private:
  void note_version(const std::string& text) {
    if (!text.empty()) {
      last_resource_version = std::max(last_resource_version, std::int64_t{std::stoll(text)});
    }
  }

  void apply(const store::Batch& batch) {
    ++commits;
    for (const auto& record : batch.put_actors) {
      actors[record->actor().metadata().uid()] = std::make_shared<v1alpha1::ActorRecord>(*record);
      note_version(record->actor().metadata().resource_version());
    }
    for (const std::string& uid : batch.delete_actors) {
      actors.erase(uid);
    }
    for (const auto& operation : batch.put_operations) {
      stored_operations[operation->id()] = std::make_shared<v1alpha1::Operation>(*operation);
    }
    for (const auto& event : batch.events) {
      event->set_id(++last_event_id);
      stored_events.push_back(std::make_shared<v1alpha1::Event>(*event));
    }
    for (const auto& snapshot : batch.put_snapshots) {
      snapshots[snapshot->id()] = std::make_shared<v1alpha1::Snapshot>(*snapshot);
    }
    for (const std::string& id : batch.delete_snapshots) {
      snapshots.erase(id);
    }
    // Deletes first: a batch may delete a name and put it again.
    for (const store::ObjectRow& row : batch.delete_objects) {
      std::erase_if(objects, [&row](const auto& entry) {
        const auto& [kind, atespace, name, generation] = entry.first;
        return kind == row.kind && atespace == row.atespace && name == row.name &&
               (row.generation == 0 || generation == row.generation);
      });
    }
    for (const store::ObjectRow& row : batch.put_objects) {
      objects[{row.kind, row.atespace, row.name, row.generation}] = row;
    }
    for (const auto& [key, value] : batch.put_meta) {
      meta[key] = value;
    }
    for (const std::string& key : batch.delete_requests) {
      requests.erase(key);
    }
    for (const store::KeptRequest& request : batch.put_requests) {
      requests[request.key] = request;
    }
  }

  std::size_t failing_ = 0;
  Errc failure_ = Errc::Internal;
};

}  // namespace ate::test
