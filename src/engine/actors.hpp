#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/core/lifecycle.hpp"
#include "ate/core/start.hpp"
#include "ate/engine/engine.hpp"
#include "ate/runtime/runtime.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "engine/packed.hpp"
#include "engine/pulse.hpp"
#include "engine/run.hpp"

namespace ate::engine {

/// One sandbox of one actor, from launch until nothing of it is left.
struct Guest {
  explicit Guest(async::Context& context) : ended(context), destroying_lock(context) {}

  std::unique_ptr<runtime::Sandbox> sandbox;
  std::int64_t serial = 0;
  std::string worker;
  runtime::WorkerLimits limits;
  std::int64_t overhead_bytes = 0;
  std::map<std::string, std::string> images;               // container -> manifest digest
  std::shared_ptr<const std::vector<std::string>> in_use;  // digests that it runs on
  std::optional<runtime::SandboxExit> exit;
  async::Event ended;
  bool destroying = false;  // its end is ours
  bool gone = false;        // destroyed, worker given back
  async::Mutex destroying_lock;
  int signalled = 0;  // last signal of the operator that ends processes
  SteadyTime signalled_at;
};

/// What an actor has while something goes on; dropped when it rests.
struct Live {
  explicit Live(async::Context& context) : write(context), let_go(context) {}

  async::Mutex write;  // around "copy record, commit, swap"
  std::shared_ptr<Run> run;
  std::shared_ptr<Guest> guest;
  std::shared_ptr<async::Event> ending;  // the end of the guest is being committed
  std::size_t parked = 0;
  std::size_t holds = 0;    // requests under way
  std::size_t tunnels = 0;  // connections that may be silent
  Pulse let_go;             // beats when the last of both ends
  // Idle policy.
  SteadyTime last_activity;
  std::uint64_t network_bytes = 0;
  SteadyTime idle_not_before;
  int idle_failures = 0;
  int restart_failures = 0;
};

class Entry {
 public:
  explicit Entry(const std::shared_ptr<const v1alpha1::ActorRecord>& record);

  /// Swaps the record in; readers see it from now on.
  void set(const std::shared_ptr<const v1alpha1::ActorRecord>& record);

  [[nodiscard]] std::shared_ptr<const v1alpha1::ActorRecord> record() const {
    return record_.get();
  }

  [[nodiscard]] std::shared_ptr<const v1alpha1::Actor> actor() const;

  [[nodiscard]] core::State state() const noexcept { return state_; }

  [[nodiscard]] const std::string& uid() const noexcept { return uid_; }

  [[nodiscard]] const std::string& atespace() const noexcept { return atespace_; }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// `default/c1`, for messages and page tokens.
  [[nodiscard]] std::string label() const { return atespace_ + "/" + name_; }

  [[nodiscard]] v1alpha1::ActorRef ref() const;
  [[nodiscard]] core::Facts facts() const;

  std::shared_ptr<Live> live;
  bool removed = false;

 private:
  std::string uid_;
  std::string atespace_;
  std::string name_;
  core::State state_ = core::State::Suspended;
  Packed<v1alpha1::ActorRecord> record_;
};

[[nodiscard]] core::State state_of(const v1alpha1::ActorRecord& record);
void set_state(v1alpha1::ActorRecord& record, core::State state);
[[nodiscard]] core::Pointers pointers_of(const v1alpha1::ActorRecord& record);
void set_pointers(v1alpha1::ActorRecord& record, const core::Pointers& pointers);
[[nodiscard]] core::VolumeMarks marks_of(const v1alpha1::ActorRecord& record);
void set_marks(v1alpha1::ActorRecord& record, const core::VolumeMarks& marks);
/// `SUSPENDED`, `CRASHED:cgroup-oom`: where a failed resume returns to.
[[nodiscard]] std::string encode_origin(core::State state, const std::string& reason);
[[nodiscard]] std::pair<core::State, std::string> decode_origin(const std::string& text);

/// All actors, by (atespace, name) and by uid.
class ActorTable {
 public:
  using Name = std::pair<std::string_view, std::string_view>;

  void insert(const std::shared_ptr<Entry>& entry);
  void erase(const std::shared_ptr<Entry>& entry);
  /// Entry::set of one that is in the table; its record may name another template generation.
  void replace(const std::shared_ptr<Entry>& entry,
               const std::shared_ptr<const v1alpha1::ActorRecord>& record);
  /// Labels of the actors other than `but` that name the snapshot: its owner, forks.
  [[nodiscard]] std::vector<std::string> users_of(const v1alpha1::Snapshot& row,
                                                  const std::string& but) const;
  /// By name, else by uid (within the atespace unless that is empty); null.
  [[nodiscard]] std::shared_ptr<Entry> find(const ActorKey& key) const;
  [[nodiscard]] std::shared_ptr<Entry> find_uid(std::string_view uid) const;
  /// In order, the first one after `after`; stops when `visit` returns false.
  void visit_after(Name after,
                   const std::function<bool(const std::shared_ptr<Entry>&)>& visit) const;

  /// How many actors were made from that generation.
  [[nodiscard]] std::size_t uses(const std::string& atespace, const std::string& name,
                                 std::int64_t generation) const;

  /// Every template generation that actors were made from.
  [[nodiscard]] std::vector<std::tuple<std::string, std::string, std::int64_t>> generations() const;

  [[nodiscard]] std::size_t size() const noexcept { return by_name_.size(); }

 private:
  struct ByName {
    using is_transparent = void;

    static Name key(const std::shared_ptr<Entry>& entry) {
      return {entry->atespace(), entry->name()};
    }

    static Name key(const Name& name) { return name; }

    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return key(a) < key(b);
    }
  };

  void forget_use(const Entry& entry);

  std::set<std::shared_ptr<Entry>, ByName> by_name_;
  std::unordered_map<std::string_view, std::shared_ptr<Entry>> by_uid_;
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::size_t> uses_;
  std::map<std::string, std::set<std::string>> forks_;  // snapshot -> uids whose base it is

  void index_base(const Entry& entry, bool named);
};

}  // namespace ate::engine
