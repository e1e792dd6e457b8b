#include "daemon/compose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ate/api/api.hpp"
#include "ate/api/problems.hpp"
#include "ate/artifacts/artifacts.hpp"
#include "ate/artifacts/leftovers.hpp"
#include "ate/artifacts/volumes.hpp"
#include "ate/async/reaper.hpp"
#include "ate/engine/engine.hpp"
#include "ate/engine/templates.hpp"
#include "ate/image/image.hpp"
#include "ate/net/egress.hpp"
#include "ate/net/netns.hpp"
#include "ate/objects/catalog.hpp"
#include "ate/runtime/gvisor.hpp"
#include "ate/store/store.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "daemon/backend.hpp"
#include "daemon/selftests.hpp"
#include "daemon/storage.hpp"
#include "daemon/version.hpp"
#include "daemon/worker_groups.hpp"

namespace ate::daemon {

namespace {

/// Network namespaces made before they are asked for.
constexpr std::size_t kNetnsAhead = 4;
/// Ends within a second in all (design.md section 10): requests, then operations.
constexpr std::chrono::milliseconds kServerGrace{300};
constexpr std::chrono::seconds kSelfTestRetry{60};
constexpr std::chrono::milliseconds kEngineGrace{400};

/// What of the engine the catalog sees.
class EngineReferences final : public objects::References {
 public:
  explicit EngineReferences(const engine::Engine& engine) : engine_(engine) {}

  [[nodiscard]] bool template_in_use(const std::string& atespace, const std::string& name,
                                     std::int64_t generation) const override {
    return engine_.template_in_use(atespace, name, generation);
  }

 private:
  const engine::Engine& engine_;
};

std::unique_ptr<engine::WorkerGroups> worker_groups(const Config& config, const Host& host) {
  if (config.enforcement) {
    return std::make_unique<CgroupWorkers>(host.cgroup_root);
  }
  return std::make_unique<OwnLimits>();
}

engine::Options engine_options(const core::Paths& paths, const Config& config, const Host& host,
                               const engine::WorkerGroups& groups) {
  engine::Options out;
  out.operation_wait = config.operation_wait;
  out.boot_id = host.boot_id;
  out.secrets_dir = config.secrets_dir;
  out.keep_operations = config.keep_operations;
  out.keep_events = config.keep_events;
  out.keep_operations_for = config.keep_operations_for;
  out.keep_events_for = config.keep_events_for;
  out.enforcement = config.enforcement;
  out.cgroup_root = host.cgroup_root;
  out.gvisor_overhead = config.gvisor_overhead;
  out.microvm_overhead = config.microvm_overhead;
  out.host_capacity = host.capacity;
  out.overcommit = config.overcommit;
  out.require_actor_limits = config.require_actor_limits;
  out.worker_groups = &groups;
  out.log_directory = [paths](const std::string& uid) { return paths.actor_logs(uid); };
  out.render_error = [](const Error& error, const std::string& instance,
                        const std::string& request_id) {
    return api::problem_document(error, instance, request_id);
  };
  return out;
}

net::EgressOptions egress_options(const Config& config) {
  net::EgressOptions out;
  out.nft = config.nft;
  out.resolv_conf = config.resolv_conf;
  out.prefix = net::uplink_prefix(config.run_dir);
  out.uplinks = config.uplinks;
  out.blocked = config.blocked;
  return out;
}

runtime::GvisorOptions gvisor_options(const Config& config, const Host& host, net::Egress& egress) {
  runtime::GvisorOptions out;
  out.egress = &egress;
  out.enforcement = config.enforcement;
  out.cgroup_root = host.cgroup_root;
  out.selftest_file = config.state_dir + "/selftest.json";
  return out;
}

image::Store::Options image_options(const core::Paths& paths, const Host& host) {
  image::Store::Options out;
  out.directory = paths.images();
  // Resolves to this very binary in the child, also after the file was replaced by an upgrade.
  out.helper = "/proc/self/exe";
  out.helper_cgroup_fd = host.helpers ? host.helpers->fd() : -1;
  return out;
}

objects::Catalog::Options catalog_options(const Config& config) {
  objects::Catalog::Options out;
  out.directory = config.config_dir;
  return out;
}

artifacts::SnapshotStore::Options snapshot_options(const core::Paths& paths, const Config& config) {
  artifacts::SnapshotStore::Options out;
  out.directory = paths.snapshots();
  out.reserve_bytes = config.disk_reserve_bytes;
  return out;
}

Storage::Options storage_options(const Config& config) {
  Storage::Options out;
  out.unreferenced_for = config.unreferenced_for;
  out.budget_bytes = config.storage_budget_bytes;
  out.reserve_bytes = config.disk_reserve_bytes;
  out.period = std::clamp<std::chrono::milliseconds>(
      config.unreferenced_for / 4, std::chrono::seconds(1), std::chrono::minutes(1));
  return out;
}

api::Options api_options() {
  api::Options out;
  out.version = std::string(version());
  out.commit = std::string(commit());
  return out;
}

/// A disk that a snapshot filled before the host went down must not keep the daemon from clearing
/// up.
Result<std::unique_ptr<store::Store>> open_store(async::Context& context, const core::Paths& paths,
                                                 const Log& log) {
  const auto make_room = [&paths, &log] {
    log.warning("the disk is full; what was never finished goes", {{"path", paths.snapshots()}});
    artifacts::remove_unfinished(paths.snapshots());
    artifacts::remove_unfinished_volumes(paths.actors());
  };
  auto opened = store::open_sqlite(context, paths.database(), make_room);
  if (opened || opened.error().code() != Errc::DiskFull) {
    return opened;
  }
  return fail(Error(Errc::DiskFull,
                    opened.error().message() +
                        "; nothing was changed. Free at least 16 MiB there (" + paths.database() +
                        ") and start again: actors stay as they are. Unpacked " + "images below " +
                        paths.images() +
                        "/sha256 may be removed by hand, they are made again from their archives"));
}

}  // namespace

/// Members in the order of construction: each refers only to earlier ones.
struct Daemon::State {
  State(async::Context& loop, const Config& node, Host found, const Log& logger,
        std::unique_ptr<store::Store> opened)
      : context(loop),
        config(node),
        host(std::move(found)),
        log(logger),
        paths(node.state_dir, node.run_dir),
        store(std::move(opened)),
        reaper(loop),
        images(loop, reaper, image_options(paths, host)),
        assets(loop, paths.assets()),
        snapshots(loop, snapshot_options(paths, node)),
        volumes(loop, {.actors = paths.actors(), .snapshots = paths.snapshots()}),
        netns(loop, paths.netns(), kNetnsAhead),
        egress(loop, reaper, egress_options(node),
               [this](const std::string& text) { log.warning(text, {}); }),
        gvisor(runtime::make_gvisor(loop, reaper, netns, assets, paths,
                                    gvisor_options(node, host, egress))),
        object_change(loop),
        catalog(
            loop, *store, images, assets, clock, catalog_options(node),
            [this](objects::Kind, const std::string&, const std::string&) { on_object_change(); },
            [this](bool is_error, const std::string& text) {
              log.write(is_error ? LogLevel::Error : LogLevel::Info, text, {});
            }),
        templates(catalog),
        groups(worker_groups(node, host)),
        engine(loop, *store, templates, snapshots, volumes, {{"gvisor", gvisor.get()}}, clock,
               logger, engine_options(paths, node, host, *groups)),
        references(engine),
        selftests(catalog, {{"gvisor", gvisor.get()}}, logger),
        storage(loop, engine, catalog, images, assets, snapshots, paths, clock, logger,
                storage_options(node)),
        backend(engine, catalog, *store, paths, backend_node()),
        api(loop, backend, clock, logger, api_options()),
        server(
            loop, http::Limits{}, [this](http::Exchange& exchange) { return api.handle(exchange); },
            api::render_error, [this](const std::string& text) { log.warning(text, {}); }),
        background(loop, [this](const std::string& name, const std::string& what) {
          log.error("background task failed: " + what, {{"task", name}});
        }) {}

  [[nodiscard]] ServiceBackend::Node backend_node();
  [[nodiscard]] std::vector<api::Check> checks() const;
  [[nodiscard]] Status load();
  void on_object_change();
  async::Task<void> start_up();
  void warn_of_pools();
  async::Task<void> run_selftests();

  async::Context& context;
  Config config;
  Host host;
  const Log& log;
  SystemClock clock;
  core::Paths paths;
  std::unique_ptr<store::Store> store;
  async::Reaper reaper;
  image::Store images;
  artifacts::AssetStore assets;
  artifacts::SnapshotStore snapshots;
  artifacts::VolumeStore volumes;
  net::NetnsFactory netns;
  net::Egress egress;
  std::unique_ptr<runtime::Runtime> gvisor;
  async::Event object_change;
  bool loaded = false;  // the callbacks below may use the engine
  bool scanned = false;
  std::map<std::string, std::string> unusable_pools;  // name -> why, as it was told
  objects::Catalog catalog;
  engine::CatalogTemplates templates;
  std::unique_ptr<engine::WorkerGroups> groups;
  engine::Engine engine;
  EngineReferences references;
  SelfTests selftests;
  Storage storage;
  ServiceBackend backend;
  api::Api api;
  http::Server server;
  std::function<void(const Error&)> on_failure;
  async::TaskScope background;
};

ServiceBackend::Node Daemon::State::backend_node() {
  ServiceBackend::Node node;
  node.enforcement = config.enforcement ? "required" : "off";
  node.checks = [this] { return checks(); };
  node.storage = [this] { return storage.report(); };
  node.collect = [this](bool dry_run) { return storage.collect(dry_run); };
  node.annotate = [this](v1alpha1::SandboxConfig& shown) { selftests.annotate(shown); };
  return node;
}

std::vector<api::Check> Daemon::State::checks() const {
  std::vector<api::Check> out;
  out.push_back({"cgroups", true, host.cgroup_detail});
  out.push_back({"objects", scanned,
                 scanned ? "loaded from " + config.config_dir
                         : "the first scan of " + config.config_dir + " is not done"});
  // Not being able to is no hindrance for the rest.
  out.push_back({"egress", true, egress.detail()});
  const std::string unenforced = volumes.why_not_enforced();
  out.push_back({"volumes", true,
                 unenforced.empty() ? "their sizes are enforced by project quota"
                                    : "their sizes are not enforced: " + unenforced});
  for (api::Check& check : selftests.checks()) {
    out.push_back(std::move(check));
  }
  return out;
}

Status Daemon::State::load() {
  ATE_ASSIGN(const store::Loaded rows, store->load());
  ATE_TRY(images.prepare());
  ATE_TRY(assets.prepare());
  ATE_TRY(snapshots.prepare());
  ATE_TRY(volumes.prepare());
  ATE_TRY(netns.prepare());
  catalog.set_references(&references);
  catalog.set_next_version([this] { return engine.next_version(); });
  ATE_TRY(engine.load(rows));
  ATE_TRY(catalog.load(rows));
  loaded = true;
  return {};
}

void Daemon::State::on_object_change() {
  if (loaded) {
    engine.on_object_change();
    object_change.set();
  }
}

async::Task<void> Daemon::State::start_up() {
  Status reconciled = co_await engine.reconcile();
  if (!reconciled) {
    on_failure(std::move(reconciled).error().context("reconciling with the host"));
    co_return;
  }
  netns.warm();
  co_await egress.inspect();
  co_await catalog.scan();
  scanned = true;
  background.spawn("selftests", run_selftests());
  background.spawn("housekeeping", engine.housekeeping());
  background.spawn("golden", engine.goldens());
  background.spawn("log-bounds", engine.bound_logs());
  background.spawn("storage", storage.run());
  background.spawn("watch", catalog.watch());
  background.spawn("dns", egress.serve_dns());
  background.spawn("dns time", egress.time_dns());
  background.spawn("packet filter", egress.guard());
}

void Daemon::State::warn_of_pools() {
  std::map<std::string, std::string> warned;
  for (const ServiceBackend::Pool& pool : backend.pools()) {
    const std::string& name = pool->metadata().name();
    const std::string& message = pool->status().object().message();
    if (!message.empty() && unusable_pools[name] != message) {
      log.warning("no actor can run in pool " + name + ": " + message, {});
    }
    warned[name] = message;
  }
  unusable_pools = std::move(warned);
}

async::Task<void> Daemon::State::run_selftests() {
  while (true) {
    object_change.reset();
    warn_of_pools();
    co_await selftests.run();
    engine.on_object_change();  // a runtime may have become usable
    if (selftests.any_failed()) {
      const bool changed = co_await object_change.wait_for(kSelfTestRetry);
      static_cast<void>(changed);  // by then it is tried again
    } else {
      co_await object_change.wait();
    }
  }
}

Daemon::Daemon(std::unique_ptr<State> state) : state_(std::move(state)) {}

Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::compose(async::Context& context, const Config& config,
                                                Host host, const Log& log) {
  const core::Paths paths(config.state_dir, config.run_dir);
  ATE_ASSIGN(std::unique_ptr<store::Store> store, open_store(context, paths, log));
  auto state = std::make_unique<State>(context, config, std::move(host), log, std::move(store));
  ATE_TRY(state->load());
  return std::unique_ptr<Daemon>(new Daemon(std::move(state)));
}

Status Daemon::start(std::function<void(const Error&)> on_failure) {
  State& state = *state_;
  state.on_failure = std::move(on_failure);
  ATE_ASSIGN(UniqueFd listener, http::listen_unix(state.config.socket, state.config.socket_mode,
                                                  state.host.socket_gid));
  state.background.spawn("serve", state.server.serve(std::move(listener)));
  state.background.spawn("start", state.start_up());
  return {};
}

void Daemon::reload() {
  if (state_->scanned) {
    state_->background.spawn("rescan", state_->catalog.scan());
    state_->object_change.set();  // what failed its self-test is tried again
  }
}

async::Task<void> Daemon::stop() {
  State& state = *state_;
  co_await state.server.stop(kServerGrace);
  co_await state.engine.stop(kEngineGrace);
  co_await state.background.close();
  co_await state.catalog.close();
  co_await state.gvisor->shutdown();
  co_await state.egress.shutdown();
  co_await state.netns.drain();
  co_await state.store->close();
  release_host(state.config, state.host);
}

}  // namespace ate::daemon
