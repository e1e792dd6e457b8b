#include "ate/core/admission.hpp"

#include <cstdlib>
#include <random>

#include "support/catch.hpp"
#include "support/error_member.hpp"

using namespace ate;
using namespace ate::core;
using ate::test::member;

namespace {

constexpr std::int64_t kMiB = 1LL << 20;
const OverheadTerms kMicrovm{12 * kMiB, 1 * kMiB, 1.0};

WorkerOffer worker(const std::string& name, std::int64_t memory, std::int64_t cpu = 1000) {
  WorkerOffer out;
  out.name = name;
  out.budget = Budget{memory, cpu};
  out.pids = 100;
  return out;
}

PoolOffer pool(const std::string& name, std::vector<WorkerOffer> workers) {
  return {name, "microvm", {{"tier", name}}, std::move(workers)};
}

Demand derived() {
  Demand demand;
  demand.sandbox_class = "microvm";
  demand.overhead = kMicrovm;
  return demand;
}

Error refused(const Demand& demand, const std::vector<PoolOffer>& pools) {
  const Admission admission = admit(demand, pools);
  REQUIRE_FALSE(admission.placement);
  return refusal(demand, admission);
}

}  // namespace

TEST_CASE("admission: the smallest sufficient worker, then the one used longest ago") {
  std::vector<PoolOffer> pools{
      pool("large", {worker("large-0", 2048 * kMiB)}),
      pool("small", {worker("small-0", 512 * kMiB), worker("small-1", 512 * kMiB),
                     worker("small-2", 512 * kMiB)}),
      pool("tiny", {worker("tiny-0", 100 * kMiB)})};
  pools[1].workers[0].last_used = 9;
  pools[1].workers[1].last_used = 4;
  pools[1].workers[2].last_used = 7;
  Admission admission = admit(derived(), pools);
  REQUIRE(admission.placement);
  CHECK(admission.placement->worker == "small-1");
  CHECK(admission.placement->pool == "small");
  CHECK(admission.placement->allotment.pids == 100);
  CHECK(admission.fitting == 4);
  REQUIRE(admission.reasons.size() == 1);  // tiny: below the floor, with its numbers
  CHECK(admission.reasons[0].error.code() == Errc::BudgetTooSmall);
  for (WorkerOffer& busy : pools[1].workers) {
    busy.free = false;
  }
  CHECK(admit(derived(), pools).placement->worker == "large-0");
  pools[0].workers[0].free = false;
  const Error error = refused(derived(), pools);
  CHECK(error.code() == Errc::NoFreeWorker);
  CHECK(member(error, "workers") == 4);
  CHECK(member(error, "assigned") == 4);
}

// case T6
TEST_CASE(
    "admission: a declared size is what is given, never more; larger than a budget fits nowhere") {
  const std::vector<PoolOffer> pools{pool("small", {worker("small-0", 1024 * kMiB, 2000)})};
  Demand demand = derived();
  demand.declared_memory = 512 * kMiB;
  demand.declared_cpu_milli = 1000;
  const Admission admission = admit(demand, pools);
  REQUIRE(admission.placement);
  const Allotment& given = admission.placement->allotment;
  CHECK(given.budget.memory_bytes == 512 * kMiB);
  CHECK(given.budget.cpu_milli == 1000);
  CHECK(given.guest.memory_bytes + given.guest.overhead_bytes <= 512 * kMiB);
  demand.declared_memory = 1025 * kMiB;
  Error error = refused(demand, pools);
  CHECK(error.code() == Errc::NeverFits);
  CHECK(error.field() == "spec.resources.limits.memory");
  CHECK(member(error, "declared") == 1025 * kMiB);
  CHECK(member(error, "budget") == 1024 * kMiB);
  demand.declared_memory = 512 * kMiB;
  demand.declared_cpu_milli = 2001;
  error = refused(demand, pools);
  CHECK(error.field() == "spec.resources.limits.cpu");
  CHECK(error.message().find("memory") == std::string::npos);
  CHECK(member(error, "declared") == 2001);
  demand.declared_cpu_milli = 1000;
  demand.declared_pids = 101;
  CHECK(refused(demand, pools).field() == "spec.resources.limits.pids");
  demand.declared_pids = 99;
  CHECK(admit(demand, pools).placement->allotment.pids == 99);
  Demand undeclared = derived();
  undeclared.declaration_required = true;
  CHECK(refused(undeclared, pools).field() == "spec.resources.limits");
}

// case T8
TEST_CASE("admission: a snapshot needs a worker that holds its guest and overhead") {
  Demand demand = derived();
  demand.baked = BakedSize{512 * kMiB, 20 * kMiB, 4};
  const Admission admission = admit(demand, {pool("small", {worker("small-0", 532 * kMiB)})});
  REQUIRE(admission.placement);
  CHECK(admission.placement->allotment.guest.memory_bytes == 512 * kMiB);
  CHECK(admission.placement->allotment.guest.vcpus == 4);  // more than the quota is allowed
  const Error error = refused(demand, {pool("tiny", {worker("tiny-0", 384 * kMiB)})});
  CHECK(error.code() == Errc::SnapshotIncompatible);
  CHECK(member(error, "snapshotMemoryBytes") == 512 * kMiB);
  CHECK(member(error, "workerMemoryBytes") == 384 * kMiB);
  demand.baked = BakedSize{INT64_MAX, INT64_MAX, 1};
  CHECK(refused(demand, {pool("small", {worker("small-0", INT64_MAX - 1)})}).code() ==
        Errc::SnapshotIncompatible);
  demand.baked = BakedSize{-1, -1, 1};
  CHECK(refused(demand, {pool("small", {worker("small-0", 512 * kMiB)})}).code() ==
        Errc::SnapshotIncompatible);
}

TEST_CASE("admission: workers whose budget can't be read are skipped, with the reason") {
  std::vector<PoolOffer> pools{
      pool("small", {worker("small-0", 512 * kMiB), worker("small-1", 600 * kMiB)})};
  pools[0].workers[0].budget = fail(Errc::InvalidValue, "/c/memory.max: \"x\" is not a number");
  Admission admission = admit(derived(), pools);
  CHECK(admission.placement->worker == "small-1");
  REQUIRE(admission.reasons.size() == 1);
  CHECK(admission.reasons[0].worker == "small-0");
  pools[0].workers.pop_back();
  CHECK(refused(derived(), pools).message() ==
        "the budget of worker small-0 can't be determined: /c/memory.max: \"x\" is not a number");
}

TEST_CASE("admission: pools of another class or with other labels say what differs") {
  PoolOffer gvisor = pool("g", {worker("g-0", 512 * kMiB)});
  gvisor.sandbox_class = "gvisor";
  Demand demand = derived();
  demand.selector = {{"tier", "small"}};
  const std::vector<PoolOffer> pools{gvisor, pool("large", {worker("large-0", 512 * kMiB)}),
                                     PoolOffer{"bare", "microvm", {}, {}}, pool("small", {})};
  const Admission admission = admit(demand, pools);
  REQUIRE(admission.reasons.size() == 4);
  CHECK(admission.reasons[0].error.message() ==
        "pool g is of class gvisor, the template of class microvm");
  CHECK(admission.reasons[1].error.message() ==
        "the template's workerSelector wants tier=small, pool large has tier=large");
  CHECK(admission.reasons[2].error.message() ==
        "the template's workerSelector wants tier=small, pool bare has no label tier");
  CHECK(admission.reasons[3].error.message() == "pool small has no workers (spec.replicas is 0)");
  CHECK(refusal(demand, admission).code() == Errc::NeverFits);
}

TEST_CASE("admission: pools together never promise more than their tree has, unless told to") {
  EffectiveBudget tree;
  tree.budget = {4096 * kMiB, 4000};
  tree.terms = {{Resource::Memory, 4096 * kMiB, "/c/ate.slice/memory.max"},
                {Resource::Cpu, 4000, "host"}};
  tree.cpu_term = 1;
  PoolSum sum(&tree, {});
  REQUIRE(sum.add("a", 2, {1024 * kMiB, 1000}));
  const Status over = sum.add("b", 3, {1024 * kMiB, 100});
  REQUIRE_FALSE(over);
  CHECK(over.error().code() == Errc::NeverFits);
  CHECK(over.error().message() ==
        "the pools' memory together (a 2 \u00d7 1Gi + b 3 \u00d7 1Gi = 5Gi) is more than the 4Gi "
        "that /c/ate.slice/memory.max leaves; lower replicas or limits of a pool, or allow it by "
        "spec.sizing.overcommit of the NodeConfig");
  CHECK(member(over.error(), "sumBytes") == 5120 * kMiB);
  CHECK(member(over.error(), "limitBytes") == 4096 * kMiB);
  REQUIRE(sum.add("c", 2, {1024 * kMiB, 1000}));  // b is left out of it
  const Status cpu = sum.add("d", 1, {0, 1});
  REQUIRE_FALSE(cpu);
  CHECK(member(cpu.error(), "sumCpuMilli") == 4001);
  PoolSum more(&tree, {1.5, 2.0});
  CHECK(more.add("a", 6, {1024 * kMiB, 1333}));
  CHECK_FALSE(more.add("b", 1, {1, 0}));
  CHECK_FALSE(PoolSum(&tree, {1e6, 1e6}).add("x", INT32_MAX, {INT64_MAX, INT64_MAX}));
  CHECK(PoolSum(nullptr, {}).add("x", INT32_MAX, {INT64_MAX, INT64_MAX}));
}

namespace {

/// Random numbers near the edges that matter.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  std::int64_t upto(std::int64_t most) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most + 1));
  }

  std::int64_t memory() { return (64 + upto(upto(3) == 0 ? 4096 : 300)) * kMiB + upto(4096); }

 private:
  std::mt19937_64 engine_;
};

/// The rule again, told in the simplest way: what a worker of that budget would give, 0 = nothing.
std::int64_t expected_guest(const Demand& demand, const Budget& budget) {
  std::int64_t memory = budget.memory_bytes;
  std::int64_t cpu = budget.cpu_milli;
  if (demand.declared_memory) {
    memory = *demand.declared_memory <= memory ? *demand.declared_memory : 0;
  }
  if (demand.declared_cpu_milli) {
    cpu = *demand.declared_cpu_milli <= cpu ? *demand.declared_cpu_milli : 0;
  }
  if (memory <= 0 || cpu <= 0) {
    return 0;
  }
  if (demand.baked) {
    const bool holds = demand.baked->memory_bytes + demand.baked->overhead_bytes <= memory;
    return holds ? demand.baked->memory_bytes : 0;
  }
  const std::int64_t vcpus = std::max<std::int64_t>(1, (cpu + 999) / 1000);
  const std::int64_t overhead = 12 * kMiB + vcpus * kMiB + (memory + 99) / 100;
  const std::int64_t guest = (memory - overhead) / (2 * kMiB) * (2 * kMiB);
  return guest >= kGuestFloorBytes ? guest : 0;
}

Demand random_demand(Dice& dice) {
  Demand demand = derived();
  if (dice.upto(2) == 0) {
    demand.declared_memory = dice.memory();
    demand.declared_cpu_milli = 1 + dice.upto(4000);
  } else if (dice.upto(2) == 0) {
    demand.baked = BakedSize{dice.memory() / (2 * kMiB) * (2 * kMiB), dice.upto(64) * kMiB, 1};
  }
  return demand;
}

bool holds(Dice& dice) {
  const Demand demand = random_demand(dice);
  std::vector<PoolOffer> pools(1 + static_cast<std::size_t>(dice.upto(1)));
  std::int64_t fitting = 0;
  std::int64_t least = INT64_MAX;  // smallest budget of a free worker that fits
  for (std::size_t at = 0; at < pools.size(); ++at) {
    pools[at].name = at == 0 ? "a" : "b";
    pools[at].sandbox_class = "microvm";
    for (std::int64_t count = 1 + dice.upto(2); count > 0; --count) {
      WorkerOffer offer = worker("w", dice.memory(), 1 + dice.upto(4000));
      offer.free = dice.upto(1) == 0;
      if (expected_guest(demand, *offer.budget) > 0) {
        ++fitting;
        least = offer.free ? std::min(least, offer.budget->memory_bytes) : least;
      }
      pools[at].workers.push_back(std::move(offer));
    }
  }
  const Admission admission = admit(demand, pools);
  if (admission.fitting != fitting || admission.placement.has_value() != (least != INT64_MAX)) {
    return false;
  }
  if (!admission.placement) {
    const Error error = refusal(demand, admission);
    return (error.code() == Errc::NoFreeWorker) == (fitting > 0);
  }
  const Allotment& given = admission.placement->allotment;
  return given.guest.memory_bytes + given.guest.overhead_bytes <= given.budget.memory_bytes &&
         given.budget.memory_bytes <= least &&
         given.guest.memory_bytes ==
             expected_guest(demand, Budget{demand.declared_memory ? INT64_MAX : least,
                                           given.budget.cpu_milli});
}

}  // namespace

TEST_CASE("admission: random problems: never what does not fit, never a refusal of what fits") {
  // 10 million take some minutes under the sanitizers: docs/performance.md has that run.
  const char* asked = std::getenv("ATE_TEST_ADMISSIONS");
  const std::int64_t rounds = asked != nullptr ? std::strtoll(asked, nullptr, 10) : 50'000;
  REQUIRE(rounds > 0);
  Dice dice(20261130);
  std::int64_t wrong = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    wrong += holds(dice) ? 0 : 1;
  }
  CHECK(wrong == 0);
}
