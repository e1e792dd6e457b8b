// A few thousand random verbs, ends, failures and cut-offs of the daemon; the invariants of
// reliability.md 5.5 must hold all the way.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>

#include "engine/side.hpp"
#include "world.hpp"

using namespace ate;
using namespace ate::test;

namespace {

constexpr int kActors = 5;
constexpr int kSteps = 400;

class Model {
 public:
  Model(World& world, unsigned seed) : w_(world), random_(seed) {
    w_.templates.all_pools.clear();
    w_.templates.add_pool("few", 3, "1Gi");
    w_.runtime.gate = [this](std::string, std::string) -> async::Task<void> {
      return turns(pick(3));
    };
    w_.store.gate = [this]() -> async::Task<void> { return turns(pick(2)); };
    w_.runtime.script = [this](const std::string& call, const std::string& uid) -> Status {
      return misfortune(call, uid);
    };
    w_.store.before_commit = [this](const store::Batch&) -> std::optional<Error> {
      return calm_ || pick(40) != 0 ? std::nullopt
                                    : std::optional(Error(Errc::DiskFull, "scripted"));
    };
  }

  ~Model() {
    w_.runtime.gate = nullptr;
    w_.runtime.script = nullptr;
    w_.store.gate = nullptr;
    w_.store.before_commit = nullptr;
  }

  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  Model(Model&&) = delete;
  Model& operator=(Model&&) = delete;

  async::Task<void> run() {
    open_scope();
    for (int step = 0; step < kSteps; ++step) {
      calls_->spawn("call", call(w_, pick(18), "actor-" + std::to_string(pick(kActors))));
      co_await turns(pick(6));
      check_always();
      if (pick(40) == 0) {
        co_await cut_off();
      }
      if (pick(25) == 0) {
        co_await settle();
      }
    }
    co_await settle();
    co_await cut_off();
    co_await settle();
    co_await check_disk();
    co_await calls_->close();
  }

 private:
  [[nodiscard]] unsigned pick(unsigned below) {
    return std::uniform_int_distribution<unsigned>(0, below - 1)(random_);
  }

  static async::Task<void> turns(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      co_await async::sleep_for(std::chrono::nanoseconds(0));
    }
  }

  Status misfortune(const std::string& call, const std::string& uid) {
    if (calm_) {
      return {};
    }
    if (pick(60) == 0) {
      const std::shared_ptr<FakeProcess> process = w_.host.of(uid);
      if (process != nullptr) {
        w_.host.end(process, pick(2) == 0 ? FakeRuntime::killed() : FakeRuntime::exited(1));
      }
    }
    return pick(25) == 0 ? fail(Errc::RuntimeFailed, "scripted failure of " + call) : Status();
  }

  static async::Task<void> call(World& w, unsigned what, std::string name) {
    // IGNORED: the answers are any of those that the table allows; the invariants are the test.
    switch (what) {
      case 0:
      case 1: {
        const auto made = co_await w.engine->create(
            "default",
            R"({"metadata":{"name":")" + name + R"("},"spec":{"template":{"name":"counter"}}})",
            Caller{});
        static_cast<void>(made);
        break;
      }
      case 2:
      case 3:
      case 4: {
        const auto done = co_await w.resume(name);
        static_cast<void>(done);
        break;
      }
      case 5:
      case 6: {
        const auto done = co_await w.suspend(name);
        static_cast<void>(done);
        break;
      }
      case 7: {
        const auto done = co_await w.pause(name);
        static_cast<void>(done);
        break;
      }
      case 8: {
        const auto done = co_await w.revert(name);
        static_cast<void>(done);
        break;
      }
      case 9: {
        const auto done = co_await w.boot(name);
        static_cast<void>(done);
        break;
      }
      case 10: {
        const auto done = co_await w.remove(name, false);
        static_cast<void>(done);
        break;
      }
      case 11: {
        const auto done = co_await w.remove(name, true);
        static_cast<void>(done);
        break;
      }
      case 12: {
        const auto fd = co_await w.engine->connect(World::key(name), 1);
        static_cast<void>(fd);
        break;
      }
      case 13: {
        const auto made = co_await w.snapshot(name);
        static_cast<void>(made);
        break;
      }
      case 14: {
        const auto all = w.engine->snapshots(std::nullopt);
        const auto gone = co_await w.engine->remove_snapshot(
            all.empty() ? std::string("none") : all.front()->id(), Caller{});
        static_cast<void>(gone);
        break;
      }
      case 15:
      case 16: {
        const auto all = w.engine->snapshots(std::nullopt);
        const std::string base =
            all.empty() ? "" : all[static_cast<std::size_t>(name.back()) % all.size()]->id();
        const auto made = co_await w.engine->create(
            "default",
            R"({"metadata":{"name":")" + name + R"("},"spec":{"fromSnapshot":")" + base + R"("}})",
            Caller{});
        static_cast<void>(made);
        break;
      }
      default: {
        for (const auto& process : w.host.processes) {
          if (!process->frozen) {
            ++process->memory;
          }
        }
        const auto patched = co_await w.engine->patch(
            World::key(name), R"({"metadata":{"labels":{"x":"y"}}})", std::nullopt, Caller{});
        static_cast<void>(patched);
        break;
      }
    }
  }

  void open_scope() { calls_ = std::make_unique<async::TaskScope>(w_.context, nullptr); }

  async::Task<void> cut_off() {
    co_await calls_->close();
    const bool calm = std::exchange(calm_, true);
    co_await w_.restart();
    calm_ = calm;
    open_scope();
    ++restarts_;
    REQUIRE(w_.host.running() == 0);
  }

  /// Lets everything that runs end without further misfortune, then looks.
  async::Task<void> settle() {
    calm_ = true;
    const bool drained = co_await calls_->drain(std::chrono::seconds(8));
    REQUIRE(drained);
    open_scope();
    // Housekeeping brings home what failed: unsaved records, stuck sandboxes, deletes.
    async::TaskScope housekeeping(w_.context, nullptr);
    housekeeping.spawn("housekeeping", w_.engine->housekeeping());
    for (int i = 0; i < 400 && !at_rest(); ++i) {
      w_.clock.advance(std::chrono::seconds(11));
      co_await async::sleep_for(std::chrono::milliseconds(2));
    }
    co_await housekeeping.close();
    REQUIRE(at_rest());
    check_at_rest();
    calm_ = false;
  }

  [[nodiscard]] std::vector<std::shared_ptr<const v1alpha1::Actor>> actors() const {
    engine::ActorQuery query;
    query.limit = 1000;
    return w_.engine->list(query)->items;
  }

  [[nodiscard]] bool at_rest() const {
    std::size_t running = 0;
    for (const auto& actor : actors()) {
      switch (actor->status().state()) {
        case State::RUNNING:
          ++running;
          break;
        case State::SUSPENDED:
        case State::PAUSED:
        case State::EXITED:
        case State::CRASHED:
          break;
        default:
          return false;
      }
      const auto stored = w_.store.actors.find(actor->metadata().uid());
      if (stored == w_.store.actors.end() ||
          stored->second->actor().status().state() != actor->status().state()) {
        return false;
      }
    }
    std::size_t assigned = 0;
    for (const auto& worker : w_.engine->workers()) {
      assigned += worker->state() == "FREE" ? 0 : 1;
    }
    return w_.host.running() == running && w_.host.netns.size() == running && assigned == running;
  }

  void check_always() {
    REQUIRE(w_.host.violations.empty());
    // A committed snapshot has its row, whatever goes on.
    for (const auto& [uid, record] : w_.store.actors) {
      const v1alpha1::ActorStatus& status = record->actor().status();
      const std::string base = status.has_snapshot() ? "" : record->actor().spec().from_snapshot();
      for (const std::string& id : {status.snapshot(), status.pause_snapshot(), base}) {
        REQUIRE((id.empty() || w_.store.snapshots.contains(id)));
      }
    }
  }

  void check_at_rest() {
    check_always();
    std::set<std::string> busy;
    for (const auto& actor : actors()) {
      const bool running = actor->status().state() == State::RUNNING;
      REQUIRE((w_.host.of(actor->metadata().uid()) != nullptr) == running);
      REQUIRE(actor->status().has_worker() == running);
      if (running) {
        REQUIRE(busy.insert(actor->status().worker()).second);
        REQUIRE_FALSE(w_.host.of(actor->metadata().uid())->frozen);
      }
      REQUIRE(w_.store.actors.at(actor->metadata().uid())->pending_snapshot().empty());
    }
    REQUIRE(w_.store.actors.size() == actors().size());
    for (const auto& worker : w_.engine->workers()) {
      REQUIRE((worker->state() == "ASSIGNED") == busy.contains(worker->name()));
    }
  }

  /// Exactly the snapshots that have a row are on disk; a row is named, or stands alone.
  async::Task<void> check_disk() {
    std::set<std::string> named;
    for (const auto& [id, row] : w_.store.snapshots) {
      named.insert(id);
      const auto shown = w_.engine->snapshot(id);
      ok(shown);
      REQUIRE((row->kind() == "live" || !(*shown)->used_by().empty()));
    }
    for (int i = 0; i < 1000; ++i) {
      const auto listing = co_await w_.snapshots->list();
      ok(listing);
      const std::set<std::string> there(listing->complete.begin(), listing->complete.end());
      if (there == named && listing->partial.empty()) {
        co_return;
      }
      co_await async::sleep_for(std::chrono::milliseconds(2));
    }
    FAIL("snapshots on disk are not those that have a row");
  }

  World& w_;
  std::mt19937 random_;
  std::unique_ptr<async::TaskScope> calls_;
  bool calm_ = false;
  int restarts_ = 0;
};

async::Task<void> play(World& w, unsigned seed) {
  w.options.park_limit = std::chrono::milliseconds(20);
  co_await w.restart();
  Model model(w, seed);
  co_await model.run();
}

}  // namespace

TEST_CASE("model: random verbs, failures and cut-offs never break an invariant") {
  // ATE_MODEL_SEEDS=from-to walks more of them.
  unsigned from = 1;
  unsigned to = 8;
  if (const char* range = std::getenv("ATE_MODEL_SEEDS"); range != nullptr) {
    REQUIRE(std::sscanf(range, "%u-%u", &from, &to) == 2);
  }
  for (unsigned seed = from; seed <= to; ++seed) {
    CAPTURE(seed);
    const auto body = [seed](World& w) -> async::Task<void> { return play(w, seed); };
    with_world(body);
  }
}
