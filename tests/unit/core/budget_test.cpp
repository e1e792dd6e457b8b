#include "ate/core/budget.hpp"

#include "support/catch.hpp"

using namespace ate;
using namespace ate::core;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t kMiB = 1LL << 20;
constexpr std::int64_t kGiB = 1LL << 30;
const HostCapacity kHost{64 * kGiB, kGiB, 16};

EffectiveBudget of(const LimitFiles& files) {
  return effective_budget(files, kHost).value();
}

std::string refusal(const LimitFiles& files) {
  const Result<EffectiveBudget> budget = effective_budget(files, kHost);
  return budget ? "no refusal" : budget.error().message();
}

}  // namespace

// case T4
TEST_CASE("budget: the lowest level wins, memory.high too, wherever it is") {
  const LimitFiles files{{"/c/memory.max", "max\n"},
                         {"/c/a/memory.max", "1073741824\n"},
                         {"/c/a/memory.high", "536870912\n"},
                         {"/c/a/b/memory.max", "max\n"},
                         {"/c/a/b/memory.high", "max\n"}};
  const EffectiveBudget budget = of(files);
  CHECK(budget.budget.memory_bytes == 512 * kMiB);
  CHECK(budget.terms.at(budget.memory_term).source == "/c/a/memory.high");
  CHECK(budget.terms.size() == files.size() + 2);  // and the host's two
  CHECK_FALSE(budget.terms.at(0).value);
}

TEST_CASE("budget: the host less its reserve is one more ancestor") {
  const EffectiveBudget budget = of({{"/c/memory.max", "max"}, {"/c/cpu.max", "max 100000"}});
  CHECK(budget.budget.memory_bytes == 63 * kGiB);
  CHECK(budget.budget.cpu_milli == 16'000);
  CHECK(budget.terms.at(budget.memory_term).source == "host");
  CHECK(budget.terms.at(budget.cpu_term).source == "host");
  CHECK_FALSE(budget.pids);
  CHECK_FALSE(effective_budget({}, {kGiB, kGiB, 1}));  // the reserve takes it all
  CHECK_FALSE(effective_budget({}, {0, 0, 1}));
  CHECK_FALSE(effective_budget({}, {kGiB, 0, 0}));
}

TEST_CASE("budget: CPU is the minimum of quotas and CPU sets") {
  struct Row {
    LimitFiles files;
    std::int64_t milli;
  };

  const std::vector<Row> rows{
      {{{"/c/cpu.max", "150000 100000\n"}}, 1500},
      {{{"/c/cpu.max", "1 3"}}, 333},  // rounded down
      {{{"/c/cpu.max", "400000 100000"}, {"/c/w/cpuset.cpus.effective", "0-1,5\n"}}, 3000},
      {{{"/c/cpuset.cpus.effective", "3"}, {"/c/w/cpu.max", "50000 100000"}}, 500},
      {{{"/1/cpu.cfs_quota_us", "-1\n"}, {"/1/cpu.cfs_period_us", "100000\n"}}, 16'000},
      {{{"/1/cpu.cfs_quota_us", "25000"}, {"/1/cpu.cfs_period_us", "50000"}}, 500},
      {{{"/1/cpuset.cpus", "0-7"}, {"/1/cpuset.effective_cpus", "0-3"}}, 4000},
      {{{"/1/cpuset.cpus", "0-6"}}, 7000},
      {{{"/c/cpuset.cpus", ""}, {"/c/cpuset.cpus.effective", "0-1"}}, 2000},
  };
  for (const Row& row : rows) {
    CAPTURE(row.files.front().first, row.files.front().second);
    CHECK(of(row.files).budget.cpu_milli == row.milli);
  }
}

TEST_CASE("budget: version 1 writes huge numbers where there is no limit") {
  CHECK(of({{"/m/memory.limit_in_bytes", "9223372036854771712\n"}}).budget.memory_bytes ==
        63 * kGiB);  // pages of 4 KiB
  CHECK(of({{"/m/memory.limit_in_bytes", "9223372036854710272\n"}}).budget.memory_bytes ==
        63 * kGiB);  // pages of 64 KiB
  CHECK(of({{"/m/memory.limit_in_bytes", "-1"}}).budget.memory_bytes == 63 * kGiB);
  CHECK(of({{"/m/memory.limit_in_bytes", "536870912"}}).budget.memory_bytes == 512 * kMiB);
}

TEST_CASE("budget: pids are the minimum, huge pages are reported") {
  const EffectiveBudget budget = of({{"/c/pids.max", "max"},
                                     {"/c/a/pids.max", "4096"},
                                     {"/c/a/w/pids.max", "5000"},
                                     {"/c/a/hugetlb.2MB.max", "0"},
                                     {"/c/a/w/hugetlb.2MB.max", "max"},
                                     {"/c/a/w/hugetlb.1GB.max", "2147483648"},
                                     {"/c/a/w/hugetlb.1GB.rsvd.max", "1"},
                                     {"/1/hugetlb.1GB.limit_in_bytes", "9223372036854771712"}});
  CHECK(budget.pids == 4096);
  CHECK(budget.hugetlb == std::map<std::string, std::int64_t>{{"2MB", 0}, {"1GB", 2147483648}});
}

// case T7
TEST_CASE("budget: what the kernel would not write is an error that names the file") {
  struct Row {
    LimitFiles files;
    std::string says;
  };

  const std::vector<Row> rows{
      {{{"/c/memory.max", ""}}, "/c/memory.max: \"\" is not a number"},
      {{{"/c/memory.max", "0"}}, "leaves nothing"},
      {{{"/c/memory.max", "-1"}}, "is negative"},
      {{{"/c/memory.max", "1e3"}}, "\"1e3\" is not a number"},
      {{{"/c/memory.max", "512MB"}}, "\"512MB\" is not a number"},
      {{{"/c/memory.max", "9223372036854775808"}}, "is not a number"},
      {{{"/c/memory.max", " 1"}}, "is not a number"},
      {{{"/c/memory.max", "1\n2"}}, "is not a number"},
      {{{"/c/memory.max", std::string("1\0", 2)}}, "is not a number"},
      {{{"/c/memory.high", "0"}}, "/c/memory.high: \"0\" leaves nothing"},
      {{{"/m/memory.limit_in_bytes", "-2"}}, "is negative"},
      {{{"/m/memory.limit_in_bytes", "max"}}, "is not a number"},
      {{{"/c/cpu.max", "max"}}, "is not \"quota period\""},
      {{{"/c/cpu.max", "1000 0"}}, "leaves nothing"},
      {{{"/c/cpu.max", "0 100000"}}, "leaves nothing"},
      {{{"/c/cpu.max", "-1 100000"}}, "is negative"},
      {{{"/c/cpu.max", "1 100000"}}, "less than a milli-CPU"},
      {{{"/c/cpu.max", "9223372036854775807 1"}}, "too large"},
      {{{"/c/cpu.max", "2.5.1 100000"}}, "is not a number"},
      {{{"/c/cpuset.cpus.effective", "\n"}}, "the list of CPUs is empty"},
      {{{"/c/cpuset.cpus.effective", "0-"}}, "is not a number"},
      {{{"/c/cpuset.cpus.effective", "3-1"}}, "is not a list of CPUs"},
      {{{"/c/cpuset.cpus.effective", "0-3,2"}}, "is not a list of CPUs"},
      {{{"/c/cpuset.cpus.effective", "0-9223372036854775807"}}, "is not a list of CPUs"},
      {{{"/c/cpuset.cpus.effective", "0,,1"}}, "is not a number"},
      {{{"/1/cpu.cfs_quota_us", "25000"}}, "cpu.cfs_period_us is missing"},
      {{{"/1/cpu.cfs_quota_us", "0"}, {"/1/cpu.cfs_period_us", "100000"}}, "leaves nothing"},
      {{{"/c/pids.max", "0"}}, "leaves nothing"},
      {{{"/c/hugetlb.2MB.max", "-4"}}, "is negative"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.files.front().second);
    CHECK_THAT(refusal(row.files), Contains(row.says));
    CHECK_THAT(refusal(row.files), Contains(row.files.front().first));
  }
}
