// The Store that the daemon uses: batches and queries handed to the writer's thread.
#include <memory>
#include <utility>

#include "ate/store/store.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "store/writer.hpp"

namespace ate::store {

namespace {

using Operations = std::vector<std::shared_ptr<v1alpha1::Operation>>;
using Events = std::vector<std::shared_ptr<v1alpha1::Event>>;

/// Runs a query on the thread; `query` fills the slot that is returned.
template <class T>
async::Task<Result<T>> ask(Writer& writer, std::function<Result<T>(Session&)> query) {
  auto slot = std::make_shared<T>();
  std::function<Status(Session&)> work = [slot, query = std::move(query)](Session& session) {
    Result<T> answer = query(session);
    if (!answer) {
      return Status(fail(std::move(answer).error()));
    }
    *slot = std::move(*answer);
    return Status{};
  };
  ATE_CO_TRY(co_await writer.run(std::move(work)));
  co_return std::move(*slot);
}

class SqliteStore final : public Store {
 public:
  SqliteStore(async::Context& context, Session session) : writer_(context, std::move(session)) {}

  Result<Loaded> load() override {
    Result<Loaded> loaded;
    writer_.run_blocking([&loaded](Session& session) { loaded = session.load(); });
    return loaded;
  }

  async::Task<Status> commit(Batch batch) override {
    const std::vector<std::shared_ptr<v1alpha1::Event>> events = batch.events;
    ATE_CO_ASSIGN(Rows rows, encode(std::move(batch)));
    Result<std::vector<std::int64_t>> ids = co_await writer_.write(std::move(rows));
    ATE_CO_TRY(ids);
    for (std::size_t i = 0; i < events.size(); ++i) {
      events[i]->set_id((*ids)[i]);
    }
    co_return Status{};
  }

  async::Task<Result<Operations>> operations(OperationQuery query) override {
    std::function<Result<Operations>(Session&)> work = [query](Session& session) {
      return session.operations(query);
    };
    co_return co_await ask<Operations>(writer_, std::move(work));
  }

  async::Task<Result<std::shared_ptr<v1alpha1::Operation>>> operation(std::string id) override {
    std::function<Result<std::shared_ptr<v1alpha1::Operation>>(Session&)> work =
        [id](Session& session) { return session.operation(id); };
    co_return co_await ask<std::shared_ptr<v1alpha1::Operation>>(writer_, std::move(work));
  }

  async::Task<Result<Events>> events(EventQuery query) override {
    std::function<Result<Events>(Session&)> work = [query](Session& session) {
      return session.events(query);
    };
    co_return co_await ask<Events>(writer_, std::move(work));
  }

  async::Task<Result<std::int64_t>> first_event_id() override {
    std::function<Result<std::int64_t>(Session&)> work = [](Session& session) {
      return session.first_event_id();
    };
    co_return co_await ask<std::int64_t>(writer_, std::move(work));
  }

  async::Task<Result<std::optional<KeptRequest>>> kept_request(std::string key) override {
    std::function<Result<std::optional<KeptRequest>>(Session&)> work = [key](Session& session) {
      return session.kept_request(key);
    };
    co_return co_await ask<std::optional<KeptRequest>>(writer_, std::move(work));
  }

  async::Task<Result<std::shared_ptr<v1alpha1::Operation>>> operation_of(
      std::string request_id, std::string not_before) override {
    std::function<Result<std::shared_ptr<v1alpha1::Operation>>(Session&)> work =
        [request_id, not_before](Session& session) {
          return session.operation_of(request_id, not_before);
        };
    co_return co_await ask<std::shared_ptr<v1alpha1::Operation>>(writer_, std::move(work));
  }

  async::Task<Status> trim(Retention keep) override {
    const std::function<Result<bool>(Session&)> work = [keep](Session& session) {
      return session.trim_some(keep);
    };
    for (;;) {
      Result<bool> more = co_await ask<bool>(writer_, work);
      ATE_CO_TRY(more);
      if (!*more) {
        co_return Status{};
      }
    }
  }

  async::Task<void> close() override { co_await writer_.close(); }

 private:
  Writer writer_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite(async::Context& context, const std::string& path) {
  return open_sqlite(context, path, nullptr);
}

Result<std::unique_ptr<Store>> open_sqlite(async::Context& context, const std::string& path,
                                           const std::function<void()>& make_room) {
  ATE_ASSIGN(Opened opened, open_database(path, make_room));
  ATE_ASSIGN(Session session, Session::start(std::move(opened)));
  std::unique_ptr<Store> store = std::make_unique<SqliteStore>(context, std::move(session));
  return store;
}

}  // namespace ate::store
