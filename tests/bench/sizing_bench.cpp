// Admission with its explanations for 1,000 templates on 200 workers, and reading a budget through
// six ancestors; each against the bare arithmetic or the bare reads of the same run.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "ate/core/admission.hpp"
#include "ate/core/budget.hpp"
#include "ate/os/cgroup_limits.hpp"
#include "ate/os/fs.hpp"
#include "support/temp_dir.hpp"

namespace {

using namespace ate;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMiB = 1LL << 20;
constexpr int kTemplates = 1000;
constexpr int kPools = 10;
constexpr int kWorkers = 20;  // of each
constexpr int kAncestors = 6;
constexpr int kReads = 2000;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

template <class T>
void must(const Result<T>& result, const char* what) {
  if (!result) {
    std::fprintf(stderr, "%s: %s\n", what, result.error().message().c_str());
    std::exit(1);
  }
}

/// Every worker has a budget of its own: no answer can be reused.
std::vector<core::PoolOffer> make_pools() {
  std::vector<core::PoolOffer> pools;
  for (int pool = 0; pool < kPools; ++pool) {
    core::PoolOffer offer{"pool-" + std::to_string(pool), "microvm", {{"tier", "a"}}, {}, {}};
    for (int worker = 0; worker < kWorkers; ++worker) {
      core::WorkerOffer one;
      one.name = offer.name + "-" + std::to_string(worker);
      one.budget = core::Budget{(100 + pool * 400 + worker * 7) * kMiB, 1000};
      one.free = worker % 3 != 0;
      offer.workers.push_back(std::move(one));
    }
    pools.push_back(std::move(offer));
  }
  return pools;
}

void bench_admission() {
  const std::vector<core::PoolOffer> pools = make_pools();
  core::Demand demand;
  demand.sandbox_class = "microvm";
  demand.selector = {{"tier", "a"}};
  demand.overhead = {12 * kMiB, 1 * kMiB, 1.0};
  demand.minimum_vcpus = 1;

  Clock::time_point start = Clock::now();
  std::int64_t plain = 0;
  for (int at = 0; at < kTemplates; ++at) {
    for (const core::PoolOffer& pool : pools) {
      for (const core::WorkerOffer& worker : pool.workers) {
        const std::int64_t budget = worker.budget->memory_bytes;
        const std::int64_t guest = (budget - 13 * kMiB - (budget + 99) / 100) / (2 * kMiB);
        plain += guest >= 64 && guest * 2 >= at % 4096 ? 1 : 0;
      }
    }
  }
  const double bare = milliseconds_since(start);

  start = Clock::now();
  std::size_t reasons = 0;
  std::int64_t placed = 0;
  for (int at = 0; at < kTemplates; ++at) {
    demand.declared_memory = (128 + at * 4) * kMiB;  // a part of the workers is too small
    const core::Admission admission = core::admit(demand, pools);
    placed += admission.placement ? 1 : 0;
    reasons += admission.reasons.size();
    if (!admission.placement) {
      reasons += core::refusal(demand, admission).message().empty() ? 1 : 0;
    }
  }
  const double ours = milliseconds_since(start);
  std::printf(
      "admission: %d templates x %d workers, %lld placed, %zu reasons with numbers: %.1f ms "
      "(target 50)\n",
      kTemplates, kPools * kWorkers, static_cast<long long>(placed), reasons, ours);
  std::printf("           the comparison alone (%lld): %.1f ms; ratio %.1f\n",
              static_cast<long long>(plain), bare, ours / bare);
}

void bench_read() {
  const test::TempDir dir;
  std::string relative;
  std::vector<std::string> paths;
  const std::array<std::pair<const char*, const char*>, 6> kFiles{
      {{"memory.max", "1073741824\n"},
       {"memory.high", "max\n"},
       {"cpu.max", "100000 100000\n"},
       {"cpuset.cpus.effective", "0-7\n"},
       {"pids.max", "4096\n"},
       {"hugetlb.2MB.max", "max\n"}}};
  for (int level = 0; level <= kAncestors; ++level) {
    if (level > 0) {
      relative += (level > 1 ? "/" : "") + std::string("level");
      must(os::make_dirs(dir.path() + "/" + relative, 0755), "directory");
    }
    for (const auto& [name, text] : kFiles) {
      paths.push_back(dir.path() + "/" + relative + "/" + name);
      std::ofstream(paths.back()) << text;
    }
  }
  Clock::time_point start = Clock::now();
  std::size_t bytes = 0;
  for (int at = 0; at < kReads; ++at) {
    for (const std::string& path : paths) {
      std::array<char, 4096> buffer{};
      const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      bytes += static_cast<std::size_t>(::read(fd, buffer.data(), buffer.size()));
      ::close(fd);
    }
  }
  const double bare = milliseconds_since(start) * 1000 / kReads;
  start = Clock::now();
  for (int at = 0; at < kReads; ++at) {
    const Result<os::CgroupLimitFiles> files = os::read_cgroup_limits({dir.path(), relative});
    must(files, "read");
    must(core::effective_budget(files->files, {64LL << 30, 1LL << 30, 8}), "budget");
  }
  const double ours = milliseconds_since(start) * 1000 / kReads;
  std::printf(
      "budget of a worker with %d ancestors: %.0f us (target 100); its %zu files alone (%zu "
      "bytes): %.0f us; ratio %.2f\n",
      kAncestors, ours, paths.size(), bytes / kReads, bare, ours / bare);
}

}  // namespace

int main() {
  bench_admission();
  bench_read();
  return 0;
}
