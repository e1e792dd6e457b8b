// The worked examples of docs/sizing.md are computed again: a row that is no longer true fails.
#include <fstream>
#include <sstream>

#include "ate/core/admission.hpp"
#include "ate/core/units.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::core;

namespace {

constexpr std::int64_t kMiB = 1LL << 20;
const OverheadTerms kMicrovm{12 * kMiB, 1 * kMiB, 1.0};  // the defaults
const OverheadTerms kGvisor{72 * kMiB, 0, 0};

using Row = std::vector<std::string>;

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// Rows of the table below the line that begins with `header`.
std::vector<Row> table(const std::string& header) {
  std::ifstream file(ATE_SIZING_MD);
  std::vector<Row> rows;
  std::string line;
  bool inside = false;
  while (std::getline(file, line)) {
    if (!inside) {
      inside = line.starts_with(header) && std::getline(file, line);  // and the line of dashes
      continue;
    }
    if (!line.starts_with("|")) {
      break;
    }
    Row row;
    std::istringstream cells(line.substr(1));
    for (std::string cell; std::getline(cells, cell, '|');) {
      row.push_back(trimmed(cell));
    }
    rows.push_back(row);
  }
  return rows;
}

Budget budget_of(const std::string& limits) {  // "512Mi, 500m" or "1Gi, 1 CPU"
  const auto comma = limits.find(", ");
  std::string cpu = limits.substr(comma + 2);
  cpu = cpu.substr(0, cpu.find(' '));
  return {parse_bytes(limits.substr(0, comma)).value(), parse_cpu_milli(cpu).value()};
}

WorkerOffer worker(const std::string& name, std::int64_t gib, std::int64_t cpu) {
  WorkerOffer out;
  out.name = name;
  out.budget = Budget{gib * 1024 * kMiB, cpu};
  return out;
}

std::vector<PoolOffer> fleet() {
  return {{"two", "microvm", {}, {worker("two-0", 2, 2000)}, {}},
          {"four", "microvm", {}, {worker("four-0", 4, 2000)}, {}},
          {"eight", "microvm", {}, {worker("eight-0", 8, 4000)}, {}}};
}

Demand derived() {
  Demand demand;
  demand.sandbox_class = "microvm";
  demand.overhead = kMicrovm;
  return demand;
}

/// Whether each of the fleet holds a guest: "2Gi 4Gi 8Gi".
std::string restorable(const BakedSize& baked) {
  Demand demand = derived();
  demand.baked = baked;
  std::string out;
  for (const PoolOffer& pool : fleet()) {
    if (allot(demand, pool.name, pool.workers[0])) {
      out += (out.empty() ? "" : " ") + format_bytes(pool.workers[0].budget->memory_bytes);
    }
  }
  return out.empty() ? "none" : out;
}

}  // namespace

TEST_CASE("docs/sizing.md: the worked examples of a budget") {
  const std::vector<Row> rows = table("| pool limits | class |");
  REQUIRE(rows.size() >= 6);
  for (const Row& row : rows) {
    CAPTURE(row);
    REQUIRE(row.size() == 5);
    const bool gvisor = row[1] == "gvisor";
    const auto size = size_guest(budget_of(row[0]), gvisor ? kGvisor : kMicrovm, gvisor ? 2 : 1,
                                 "spec.resources.limits.memory of WorkerPool p");
    if (!size) {
      CHECK(row[3] == "refused: " + size.error().message());
      continue;
    }
    CHECK(size->overhead_bytes == parse_bytes(row[2]).value());
    CHECK(size->memory_bytes == parse_bytes(row[3]).value());
    CHECK(std::to_string(size->vcpus) == row[4]);
  }
}

// design.md section 3.7
TEST_CASE("docs/sizing.md: what a mixed fleet can restore where") {
  const LeastSize least = least_size(derived(), fleet()).value();
  CHECK(least.pool == "two");
  const std::vector<Row> rows = table("| snapshot | its guest |");
  REQUIRE(rows.size() == 6);

  struct Expected {
    std::int64_t memory;
    std::int64_t overhead;
  };

  std::vector<Expected> guests{{least.size.memory_bytes, least.size.overhead_bytes}};
  for (const PoolOffer& pool : fleet()) {
    const GuestSize own = allot(derived(), pool.name, pool.workers[0]).value().guest;
    guests.push_back({own.memory_bytes, own.overhead_bytes});
    if (pool.name == "eight") {
      CHECK(least.most_memory_bytes == own.memory_bytes);
      CHECK(least.most_vcpus == own.vcpus);
    }
  }
  // Option A gives every guest 2Gi, whatever the worker has; its overhead is that of such a guest.
  const std::int64_t fixed = 2048 * kMiB;
  guests.push_back(
      {fixed, kMicrovm.fixed_bytes + 2 * kMicrovm.per_vcpu_bytes + (fixed + 99) / 100});
  guests.push_back({fixed - 128 * kMiB, 128 * kMiB});  // upstream: declared 2Gi, 128Mi kept back
  for (std::size_t at = 0; at < rows.size(); ++at) {
    CAPTURE(rows[at]);
    REQUIRE(rows[at].size() == 4);
    CHECK(parse_bytes(rows[at][1]).value() == guests[at].memory);
    CHECK(rows[at][2] == restorable({guests[at].memory, guests[at].overhead, 2}));
    std::string idle;
    for (const PoolOffer& pool : fleet()) {
      const std::int64_t most =
          at == 0 ? allot(derived(), pool.name, pool.workers[0]).value().guest.memory_bytes
                  : guests[at].memory;
      const std::int64_t budget = pool.workers[0].budget->memory_bytes;
      const bool fits = guests[at].memory + guests[at].overhead <= budget;
      idle += (idle.empty() ? "" : " ") + (fits ? format_bytes(budget - most) : std::string("all"));
    }
    CHECK(rows[at][3] == idle);
  }
}
