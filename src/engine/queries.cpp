// Reads: from memory, except finished operations.
#include <algorithm>

#include "engine/state.hpp"

namespace ate::engine {

namespace {

bool matches(const ActorQuery& query, const Entry& entry) {
  if (!query.atespace.empty() && entry.atespace() != query.atespace) {
    return false;
  }
  if (!query.states.empty() &&
      std::ranges::find(query.states, core::name(entry.state())) == query.states.end()) {
    return false;
  }
  if (query.template_name.empty() && query.labels.empty()) {
    return true;
  }
  const std::shared_ptr<const v1alpha1::Actor> actor = entry.actor();
  if (!query.template_name.empty() && actor->spec().template_().name() != query.template_name) {
    return false;
  }
  const auto& labels = actor->metadata().labels();
  return std::ranges::all_of(query.labels, [&labels](const auto& wanted) {
    const auto found = labels.find(wanted.first);
    return found != labels.end() && found->second == wanted.second;
  });
}

}  // namespace

Result<ActorPage> Engine::State::list(const ActorQuery& query) const {
  ActorPage page;
  std::string after_space = query.atespace;
  std::string after_name;
  if (!query.after.empty()) {
    const std::size_t slash = query.after.find('/');
    if (slash == std::string::npos) {
      return fail(
          Error(Errc::InvalidValue, "the page token is not one of ours").with_field("pageToken"));
    }
    after_space = query.after.substr(0, slash);
    after_name = query.after.substr(slash + 1);
  }
  std::string last;
  actors.visit_after({after_space, after_name}, [&](const EntryPtr& entry) {
    if (!query.atespace.empty() && entry->atespace() != query.atespace) {
      return false;  // in order: nothing of it comes any more
    }
    if (!matches(query, *entry)) {
      return true;
    }
    if (page.items.size() >= query.limit) {
      page.next = last;
      return false;
    }
    page.items.push_back(entry->actor());
    last = entry->label();
    return true;
  });
  return page;
}

std::shared_ptr<v1alpha1::Snapshot> Engine::State::snapshot_view(const std::string& id) const {
  const SnapshotRows::Row row = snapshot_rows.find(id);
  if (row == nullptr) {
    return nullptr;
  }
  auto view = std::make_shared<v1alpha1::Snapshot>(*row);
  view->clear_used_by();
  for (std::string& user : users_of(*view)) {
    view->add_used_by(std::move(user));
  }
  return view;
}

std::vector<std::shared_ptr<const v1alpha1::Worker>> Engine::State::worker_views() const {
  std::vector<std::shared_ptr<const v1alpha1::Worker>> all;
  for (const std::shared_ptr<v1alpha1::Worker>& worker : workers.view()) {
    const EntryPtr holder = actors.find_uid(worker->actor().uid());
    if (holder == nullptr) {
      worker->clear_actor();
    } else {
      *worker->mutable_actor() = holder->ref();
    }
    all.push_back(worker);
  }
  return all;
}

async::Task<Result<std::shared_ptr<const v1alpha1::Operation>>> Engine::State::operation(
    std::string id) {
  const std::shared_ptr<State> self = shared_from_this();
  const auto running = runs.find(id);
  if (running != runs.end() && running->second->intent) {
    co_return running->second->shown();
  }
  std::shared_ptr<const v1alpha1::Operation> unsaved = journal.unsaved(id);
  if (unsaved != nullptr) {
    co_return unsaved;
  }
  Result<std::shared_ptr<v1alpha1::Operation>> stored = co_await journal.store().operation(id);
  if (!stored) {
    co_return fail(std::move(stored).error());
  }
  co_return std::shared_ptr<const v1alpha1::Operation>(std::move(*stored));
}

std::vector<Engine::Check> Engine::State::checks() const {
  std::vector<Check> all;
  all.push_back({"reconcile", ready, ready ? "" : not_ready_detail});
  const std::optional<Error>& trouble = journal.trouble();
  all.push_back({"store", !trouble, trouble ? trouble->message() : ""});
  return all;
}

}  // namespace ate::engine
