// Budgets that come from cgroups, on a fake tree.
#include "support/fake_worker_groups.hpp"
#include "world.hpp"

using namespace ate;
using namespace ate::test;

namespace {

constexpr std::int64_t kGiB = 1LL << 30;

struct Tree {
  explicit Tree(World& w) {
    w.options.worker_groups = &groups;
    w.options.host_capacity = {64 * kGiB, kGiB, 16};
    w.options.tick = std::chrono::milliseconds(1);
  }

  FakeWorkerGroups groups;
};

v1alpha1::Worker worker(const World& w, const std::string& name) {
  return *w.engine->worker(name).value();
}

}  // namespace

TEST_CASE("budgets: a pool's limits are written to its workers and read back as their budget") {
  with_world([](World& w) -> async::Task<void> {
    Tree tree(w);
    co_await w.start();
    async::TaskScope tasks(w.context, [](const std::string&, const std::string&) {});
    tasks.spawn("housekeeping", w.engine->housekeeping());
    std::function<bool()> written = [&] {
      return tree.groups.at("small-3/memory.max") == "1073741824";
    };
    co_await w.until(written);
    std::function<bool()> seen = [&] { return !worker(w, "small-0").terms().empty(); };
    co_await w.until(seen);
    const v1alpha1::Worker shown = worker(w, "small-0");
    CHECK(shown.budget().budget_memory_bytes() == kGiB);
    CHECK(shown.terms(2).source() == "/tree/small-0/memory.max");
    CHECK(shown.terms(2).decides());
    CHECK(shown.problem().empty());
    co_await tasks.close();
  });
}

TEST_CASE("budgets: the first start does not wait until every worker of a large pool was read") {
  with_world([](World& w) -> async::Task<void> {
    Tree tree(w);
    tree.groups.tree = {{"/tree/memory.max", "max"}};
    w.templates.all_pools.clear();
    w.templates.add_pool("small", 40, "1Gi");
    co_await w.start();  // no housekeeping: nothing was read before
    co_await w.create("a");
    co_await must(w.resume("a"));
    CHECK(w.actor("a").status().guest().memory_bytes() == kGiB - (72LL << 20));
    const std::string only = w.actor("a").status().worker();
    // All others turn out to be of no use: the one that is left is found.
    co_await must(w.suspend("a"));
    tree.groups.apply_error = "memory.max was given 1 but says 2";
    co_await w.create("b");
    co_await must(w.resume("b"));
    CHECK(w.actor("b").status().worker() == only);
  });
}

// case T4, T8: lowered by hand while it is free
TEST_CASE("budgets: what somebody wrote into a worker's cgroup holds at the very next start") {
  with_world([](World& w) -> async::Task<void> {
    Tree tree(w);
    w.templates.all_pools.clear();
    w.templates.add_pool("small", 1, "1Gi");
    co_await w.start();  // no housekeeping: nothing was read or written before the start
    co_await w.create("a");
    co_await must(w.resume("a"));
    CHECK(tree.groups.at("small-0/memory.max") == "1073741824");
    CHECK(w.actor("a").status().guest().memory_bytes() == kGiB - (72LL << 20));
    co_await must(w.suspend("a"));
    tree.groups.write("small-0/memory.max", "402653184");  // 384 MiB
    co_await refused(w.resume("a"), Errc::SnapshotIncompatible);
    REQUIRE(w.state("a") == "SUSPENDED");
    co_await must(w.boot("a"));
    CHECK(w.actor("a").status().guest().memory_bytes() == (384LL - 72) << 20);
    co_await must(w.revert("a"));
    tree.groups.write("small-0/memory.max", "garbage");
    co_await w.create("b");
    co_await refused(w.resume("b"), Errc::InvalidValue);
    CHECK(worker(w, "small-0").problem().find("garbage") != std::string::npos);
  });
}

TEST_CASE("budgets: limits that do not take and trees that can't be read place nothing") {
  with_world([](World& w) -> async::Task<void> {
    Tree tree(w);
    tree.groups.apply_error = "memory.max was given 1 but says 2";
    co_await w.start();
    co_await w.create("a");
    co_await refused(w.resume("a"), Errc::Unavailable);
    REQUIRE(w.state("a") == "SUSPENDED");
    tree.groups.apply_error.clear();
    async::TaskScope tasks(w.context, [](const std::string&, const std::string&) {});
    tasks.spawn("housekeeping", w.engine->housekeeping());
    std::function<bool()> mended = [&] { return worker(w, "small-0").problem().empty(); };
    co_await w.until(mended);
    co_await must(w.resume("a"));
    co_await tasks.close();
  });
}

TEST_CASE("budgets: pools that promise more than their tree has are refused with the sum") {
  with_world([](World& w) -> async::Task<void> {
    Tree tree(w);
    tree.groups.tree = {{"/tree/memory.max", "3221225472"}};  // 3 GiB; small wants 4
    w.templates.add_pool("tiny", 1, "512Mi");
    co_await w.start();
    async::TaskScope tasks(w.context, [](const std::string&, const std::string&) {});
    tasks.spawn("housekeeping", w.engine->housekeeping());
    std::function<bool()> known = [&] {
      return w.engine->capacity(nullptr).tree_memory_bytes() == 3 * kGiB;
    };
    co_await w.until(known);
    const v1alpha1::Capacity capacity =
        w.engine->capacity(w.templates.templates.at("counter").get());
    REQUIRE(capacity.pools_size() == 2);
    CHECK(capacity.pools(0).free() == 0);
    REQUIRE(capacity.pools(0).problems_size() == 1);
    CHECK(capacity.pools(0).problems(0).find("small 4 \u00d7 1Gi = 4Gi) is more than the 3Gi") !=
          std::string::npos);
    CHECK(capacity.pools(1).free() == 1);
    CHECK(capacity.explain().placeable());
    CHECK(capacity.explain().worker() == "tiny-0");
    REQUIRE(capacity.explain().pools_size() == 2);
    CHECK_FALSE(capacity.explain().pools(0).fits());
    CHECK(capacity.explain().pools(1).fits());
    co_await tasks.close();
  });
}
