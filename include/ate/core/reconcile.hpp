#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ate/core/lifecycle.hpp"

/// What a start does about what an earlier process left: a pure function over the records and what
/// is seen on the host and on disk. Until adoption exists nothing that runs is wanted.
namespace ate::core {

/// What the store says about one actor.
struct ActorFacts {
  std::string uid;
  State state = State::Suspended;
  State origin = State::Suspended;  // of an interrupted resume
  std::string origin_reason;
  std::string reason;
  Pointers pointers;
  std::string boot_id;     // host boot of its last assignment
  bool assigned = false;   // the record names a worker or a netns
  bool operation = false;  // the record names a running operation
};

/// Something of ours on the host.
struct Remains {
  std::string kind;  // process | cgroup | mount | overlay | rundir | uplink | netns
  std::string id;
  std::string uid;
  bool live = false;
};

struct Observed {
  std::string boot_id;
  std::vector<Remains> remains;
  std::vector<std::string> complete;       // snapshot directories with a manifest
  std::vector<std::string> partial;        // without, or being discarded
  std::vector<std::string> snapshot_rows;  // ids in the store
  std::vector<std::string> standing;       // of those: kept whether an actor names them or not
};

/// The record of one actor after the start. Actors that need nothing have no action.
struct ActorAction {
  std::string uid;
  Settled settled;
  bool finish_delete = false;  // start the delete again
  bool finished = false;       // the interrupted operation counts as done
  bool restartable = false;    // its end is one that a restart policy may answer
};

struct Plan {
  std::vector<std::size_t> purge;  // indices of `remains`; processes first, namespaces last
  std::vector<ActorAction> actors;
  std::vector<std::string> discard;    // snapshot directories that nothing names
  std::vector<std::string> drop_rows;  // snapshot rows that nothing names
  std::vector<std::string> missing;    // named by an actor or standing, but not on disk: reported
};

[[nodiscard]] Plan reconcile(const std::vector<ActorFacts>& actors, const Observed& observed);

}  // namespace ate::core
