// The engine on a fake host with the real SQLite store and the real snapshot store: lifecycle
// operations per second against the bare commits and files that they need in the same run, the
// engine's own share of a resume and of a suspend, and what 10,000 suspended actors cost.
#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "ate/artifacts/artifacts.hpp"
#include "ate/artifacts/volumes.hpp"
#include "ate/engine/engine.hpp"
#include "ate/engine/templates.hpp"
#include "ate/store/store.hpp"
#include "ate/util/ids.hpp"
#include "support/fake_runtime.hpp"
#include "support/fake_templates.hpp"
#include "support/temp_dir.hpp"

namespace {

using namespace ate;
using Time = std::chrono::steady_clock;

constexpr int kParallel = 64;
constexpr int kRounds = 12;  // of resume and suspend, each actor
constexpr int kSerial = 300;
constexpr int kActors = 10'000;

double seconds_since(Time::time_point start) {
  return std::chrono::duration<double>(Time::now() - start).count();
}

template <class T>
void must(const Result<T>& result, const char* what) {
  if (!result) {
    std::fprintf(stderr, "%s: %s\n", what, result.error().message().c_str());
    std::exit(1);
  }
}

/// Passes through and sums up the time in commits.
class TimedStore final : public store::Store {
 public:
  explicit TimedStore(std::unique_ptr<store::Store> inner) : inner_(std::move(inner)) {}

  Time::duration committing{};
  std::size_t commits = 0;

  Result<store::Loaded> load() override { return inner_->load(); }

  async::Task<Status> commit(store::Batch batch) override {
    const Time::time_point start = Time::now();
    const Status status = co_await inner_->commit(std::move(batch));
    committing += Time::now() - start;
    ++commits;
    co_return status;
  }

  async::Task<Result<std::vector<std::shared_ptr<v1alpha1::Operation>>>> operations(
      store::OperationQuery query) override {
    return inner_->operations(std::move(query));
  }

  async::Task<Result<std::shared_ptr<v1alpha1::Operation>>> operation(std::string id) override {
    return inner_->operation(std::move(id));
  }

  async::Task<Result<std::vector<std::shared_ptr<v1alpha1::Event>>>> events(
      store::EventQuery query) override {
    return inner_->events(std::move(query));
  }

  async::Task<Result<std::int64_t>> first_event_id() override { return inner_->first_event_id(); }

  async::Task<Result<std::optional<store::KeptRequest>>> kept_request(std::string key) override {
    return inner_->kept_request(std::move(key));
  }

  async::Task<Result<std::shared_ptr<v1alpha1::Operation>>> operation_of(
      std::string request_id, std::string not_before) override {
    return inner_->operation_of(std::move(request_id), std::move(not_before));
  }

  async::Task<Status> trim(store::Retention keep) override { return inner_->trim(keep); }

  async::Task<void> close() override { return inner_->close(); }

 private:
  std::unique_ptr<store::Store> inner_;
};

struct Node {
  Node(async::Context& c, const std::string& path) : context(c), runtime(c, host) {
    ::mkdir(path.c_str(), 0700);
    Result<std::unique_ptr<store::Store>> opened = store::open_sqlite(context, path + "/state.db");
    must(opened, "store");
    store = std::make_unique<TimedStore>(std::move(*opened));
    snapshots = std::make_unique<artifacts::SnapshotStore>(
        context, artifacts::SnapshotStore::Options{path + "/snapshots", 0});
    must(snapshots->prepare(), "snapshots");
    volumes = std::make_unique<artifacts::VolumeStore>(
        context, artifacts::VolumeStore::Options{path + "/actors", path + "/snapshots"});
    must(volumes->prepare(), "volumes");
    runtime.remember_calls = false;
    templates.all_pools.clear();
    templates.add_pool("many", kParallel, "1Gi");
  }

  async::Task<void> start() {
    engine::Options options;
    options.boot_id = "boot";
    engine = std::make_unique<engine::Engine>(
        context, *store, templates, *snapshots, *volumes,
        std::map<std::string, runtime::Runtime*>{{"gvisor", &runtime}}, clock, log, options);
    {
      const Result<store::Loaded> loaded = store->load();
      must(loaded, "load");
      must(engine->load(*loaded), "load");
    }
    const Status reconciled = co_await engine->reconcile();
    must(reconciled, "reconcile");
  }

  async::Task<void> stop() {
    co_await engine->stop(std::chrono::seconds(5));
    co_await store->close();
  }

  async::Task<void> create(std::string name) {
    const std::string body =
        R"({"metadata":{"name":")" + name + R"("},"spec":{"template":{"name":"counter"}}})";
    const auto made = co_await engine->create("default", body, engine::Caller{});
    must(made, "create");
  }

  async::Task<std::string> run(std::string name, bool resume) {
    const engine::ActorKey key{"default", std::move(name)};
    const engine::VerbOptions options;
    const engine::Caller caller;
    if (resume) {
      const auto done = co_await engine->resume(key, options, caller);
      must(done, "resume");
      co_return done->operation;
    }
    const auto done = co_await engine->suspend(key, options, caller);
    must(done, "suspend");
    co_return done->operation;
  }

  async::Context& context;
  test::FakeHost host;
  test::FakeRuntime runtime;
  test::FakeTemplates templates;
  SystemClock clock;
  Log log{static_cast<LogLevel>(0)};
  std::unique_ptr<TimedStore> store;
  std::unique_ptr<artifacts::SnapshotStore> snapshots;
  std::unique_ptr<artifacts::VolumeStore> volumes;
  std::unique_ptr<engine::Engine> engine;
};

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// Milliseconds in the stages that are not the engine's own.
double others(const v1alpha1::Operation& operation) {
  double sum = 0;
  for (const v1alpha1::Stage& stage : operation.stages()) {
    sum += stage.name() == "seal" ? stage.ms() : 0;
  }
  return sum;
}

async::Task<void> own_share(Node& node) {
  co_await node.create("one");
  std::vector<double> resumes;
  std::vector<double> suspends;
  for (int i = 0; i < 2 * kSerial; ++i) {
    const bool resume = i % 2 == 0;
    node.store->committing = {};
    const Time::time_point start = Time::now();
    const std::string id = co_await node.run("one", resume);
    const double whole = seconds_since(start) * 1000;
    const double committing =
        std::chrono::duration<double, std::milli>(node.store->committing).count();
    const auto operation = co_await node.engine->operation(id);
    must(operation, "operation");
    (resume ? resumes : suspends).push_back(whole - committing - others(**operation));
  }
  std::printf("own share of a resume:  p50 %.3f ms, p99 %.3f ms (budget 5 ms)\n",
              percentile(resumes, 0.5), percentile(resumes, 0.99));
  std::printf("own share of a suspend: p50 %.3f ms, p99 %.3f ms (budget 5 ms)\n",
              percentile(suspends, 0.5), percentile(suspends, 0.99));
}

async::Task<void> life(Node& node, std::string name) {
  for (int round = 0; round < kRounds; ++round) {
    const std::string resumed = co_await node.run(name, true);
    const std::string suspended = co_await node.run(name, false);
  }
}

bool sync_path(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd && ::fsync(fd.get()) == 0;
}

/// A snapshot as the plainest writer would make it durable: two files, their directory, its parent.
bool plain_snapshot(const std::string& parent, const std::string& name) {
  const std::string partial = parent + "/" + name + ".partial";
  if (::mkdir(partial.c_str(), 0700) != 0) {
    return false;
  }
  for (const char* file : {"/memory", "/manifest.json"}) {
    std::ofstream(partial + file) << std::string(400, 'x');
    if (!sync_path(partial + file)) {
      return false;
    }
  }
  const std::string whole = parent + "/" + name;
  return sync_path(partial) && ::rename(partial.c_str(), whole.c_str()) == 0 && sync_path(parent);
}

/// What the operations of one actor need of the disk, and nothing else: two commits each, and a
/// snapshot for every second one.
async::Task<void> bare_operations(Node& node, std::string parent, std::string uid) {
  for (int i = 0; i < kRounds * 2 * 2; ++i) {
    if (i % 4 == 0) {
      const std::string name = uid + "-" + std::to_string(i);
      const auto job = [parent, name]() { return plain_snapshot(parent, name); };
      const bool written = co_await async::run_blocking(node.context, job);
      if (!written) {
        std::perror("plain snapshot");
        std::exit(1);
      }
    }
    store::Batch batch;
    auto record = std::make_shared<v1alpha1::ActorRecord>();
    record->mutable_actor()->mutable_metadata()->set_uid(uid);
    record->mutable_actor()->mutable_metadata()->set_name(uid);
    record->mutable_actor()->mutable_metadata()->set_atespace("bare");
    record->mutable_actor()->mutable_status()->set_reason(std::string(200, 'x'));
    batch.put_actors.push_back(record);
    auto event = std::make_shared<v1alpha1::Event>();
    event->set_type("actor.state");
    event->mutable_actor()->set_uid(uid);
    batch.events.push_back(event);
    const Status status = co_await node.store->commit(std::move(batch));
    must(status, "commit");
  }
  store::Batch batch;
  batch.delete_actors.push_back(uid);
  const Status status = co_await node.store->commit(std::move(batch));
  must(status, "commit");
}

/// Runs `task` for each of the parallel actors and waits for all.
async::Task<void> together(Node& node, std::function<async::Task<void>(int)> task) {
  async::TaskScope scope(node.context, nullptr);
  for (int i = 0; i < kParallel; ++i) {
    scope.spawn("task", task(i));
  }
  const bool drained = co_await scope.drain(std::chrono::minutes(5));
  if (!drained) {
    std::fprintf(stderr, "not finished\n");
    std::exit(1);
  }
}

async::Task<void> throughput(Node& node, std::string parent) {
  ::mkdir(parent.c_str(), 0700);
  for (int i = 0; i < kParallel; ++i) {
    co_await node.create("actor-" + std::to_string(i));
  }
  constexpr double kOperations = kParallel * kRounds * 2.0;
  Time::time_point start = Time::now();
  const std::function<async::Task<void>(int)> bare = [&node, &parent](int i) -> async::Task<void> {
    return bare_operations(node, parent, "bare-" + std::to_string(i));
  };
  co_await together(node, bare);
  const double baseline = kOperations / seconds_since(start);
  start = Time::now();
  const std::function<async::Task<void>(int)> lives = [&node](int i) -> async::Task<void> {
    return life(node, "actor-" + std::to_string(i));
  };
  co_await together(node, lives);
  const double rate = kOperations / seconds_since(start);
  std::printf(
      "lifecycle operations: %.0f/s with %d actors (resume + suspend, FULL durability); "
      "their commits and files alone %.0f/s; ratio %.2f\n",
      rate, kParallel, baseline, rate / baseline);
}

/// Records and rows as 10,000 suspends leave them.
async::Task<void> fill(Node& node) {
  const std::string uid = (*node.engine->get({"default", "one"}))->metadata().uid();
  const v1alpha1::Actor pattern = **node.engine->get({"default", "one"});
  store::Batch batch;
  for (int i = 0; i < kActors; ++i) {
    auto record = std::make_shared<v1alpha1::ActorRecord>();
    *record->mutable_actor() = pattern;
    v1alpha1::Metadata& metadata = *record->mutable_actor()->mutable_metadata();
    metadata.set_uid(make_ulid(node.clock.wall()));
    metadata.set_name("filled-" + std::to_string(i));
    auto snapshot =
        std::make_shared<v1alpha1::Snapshot>(**node.engine->snapshot(pattern.status().snapshot()));
    snapshot->set_id(make_ulid(node.clock.wall()));
    snapshot->mutable_actor()->set_uid(metadata.uid());
    snapshot->mutable_actor()->set_name(metadata.name());
    record->mutable_actor()->mutable_status()->set_snapshot(snapshot->id());
    record->set_next_serial(7);
    record->set_boot_id("0f0e0d0c-0b0a-4908-8706-050403020100");
    batch.put_actors.push_back(std::move(record));
    batch.put_snapshots.push_back(std::move(snapshot));
    if (batch.put_actors.size() == 1000) {
      const Status status = co_await node.store->commit(std::exchange(batch, {}));
      must(status, "fill");
    }
  }
}

async::Task<void> measure(async::Context& context, std::string directory) {
  {
    Node node(context, directory);
    co_await node.start();
    co_await own_share(node);
    co_await throughput(node, directory + "/bare");
    co_await fill(node);
    co_await node.stop();
  }
  ::malloc_trim(0);
  const std::size_t before = ::mallinfo2().uordblks;
  Node node(context, directory);
  const Time::time_point start = Time::now();
  co_await node.start();
  const double took = seconds_since(start);
  const std::size_t after = ::mallinfo2().uordblks;
  std::printf("start with %d suspended actors: load and reconcile %.0f ms (budget 1000 ms)\n",
              kActors, took * 1000);
  std::printf("memory of a suspended actor: %.0f bytes (budget 2048)\n",
              static_cast<double>(after - before) / kActors);
  co_await node.stop();
}

}  // namespace

int main() {
  const test::TempDir directory;
  boost::asio::thread_pool pool(8);
  boost::asio::io_context loop(1);
  async::Context context{loop, pool};
  boost::asio::co_spawn(loop, measure(context, directory.file("state")),
                        [](std::exception_ptr thrown) {
                          if (thrown) {
                            std::rethrow_exception(thrown);
                          }
                        });
  loop.run();
  pool.join();
  return 0;
}
