#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ate/store/store.hpp"

namespace ate::store {

/// A batch as columns and bytes. Made on the loop, so that the writer's thread never looks at a
/// message that the loop may change.
struct Rows {
  struct Actor {
    std::string uid;
    std::string atespace;
    std::string name;
    std::string state;
    std::string record;
  };

  struct Keyed {  // operation or snapshot
    std::string id;
    std::string actor_uid;
    std::string state;
    std::string record;
  };

  struct Event {
    std::string actor_uid;
    std::string record;
  };

  std::vector<Actor> actors;
  std::vector<std::string> gone_actors;
  std::vector<Keyed> operations;
  std::vector<Event> events;
  std::vector<Keyed> snapshots;
  std::vector<std::string> gone_snapshots;
  std::vector<ObjectRow> objects;
  std::vector<ObjectRow> gone_objects;
  std::vector<std::pair<std::string, std::string>> meta;
  std::vector<KeptRequest> requests;
  std::vector<std::string> gone_requests;
  std::int64_t resource_version = 0;  // highest that the batch carries
};

/// Takes what is in `batch` apart. Internal for a message without its key.
[[nodiscard]] Result<Rows> encode(Batch batch);

/// resourceVersion of an object's message; 0 when it carries none or is of an unknown kind.
[[nodiscard]] std::int64_t object_version(const ObjectRow& row);
/// "42" -> 42; 0 for anything that is no number.
[[nodiscard]] std::int64_t parse_version(const std::string& text);

}  // namespace ate::store
