#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ate/async/task.hpp"
#include "ate/engine/engine.hpp"
#include "ate/store/store.hpp"
#include "ate/util/clock.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "engine/pulse.hpp"

namespace ate::engine {

/// Versions, events, and the way into the store.
class Journal {
 public:
  Journal(async::Context& context, store::Store& store, const Clock& clock)
      : store_(store), clock_(clock), newer_(context) {}

  void load(const store::Loaded& loaded);

  [[nodiscard]] std::int64_t next_version() { return ++version_; }

  [[nodiscard]] std::shared_ptr<v1alpha1::Event> event(const std::string& type,
                                                       const v1alpha1::ActorRef& actor) const;
  /// Durable when it returns. Rows kept by `later` ride along.
  [[nodiscard]] async::Task<Status> commit(store::Batch batch);
  /// Puts an operation's row with the next commit, or by `flush`.
  void later(const std::shared_ptr<const v1alpha1::Operation>& operation);
  [[nodiscard]] async::Task<Status> flush();
  /// A row that `later` still holds; null.
  [[nodiscard]] std::shared_ptr<const v1alpha1::Operation> unsaved(const std::string& id) const;

  [[nodiscard]] std::int64_t last_event() const noexcept { return last_event_; }

  [[nodiscard]] Pulse& newer() noexcept { return newer_; }

  /// Of the last commit; unset when it went well.
  [[nodiscard]] const std::optional<Error>& trouble() const noexcept { return trouble_; }

  [[nodiscard]] store::Store& store() noexcept { return store_; }

 private:
  store::Store& store_;
  const Clock& clock_;
  Pulse newer_;
  std::int64_t version_ = 0;
  std::int64_t last_event_ = 0;
  std::optional<Error> trouble_;
  std::map<std::string, std::shared_ptr<const v1alpha1::Operation>> later_;
};

}  // namespace ate::engine
