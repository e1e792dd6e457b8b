#include "ate/core/container_limits.hpp"

#include "support/catch.hpp"
#include "support/error_member.hpp"

using namespace ate;
using namespace ate::core;
using ate::test::member;

namespace {

constexpr std::int64_t kMiB = 1LL << 20;

const GuestEnvelope kGuest{{512 * kMiB, 2, 20 * kMiB},
                           "spec.resources.limits.memory of WorkerPool small",
                           "spec.resources.limits.cpu of WorkerPool small"};

ContainerLimits limits(const std::string& name, std::optional<std::int64_t> memory,
                       std::optional<std::int64_t> cpu) {
  return {name, memory, cpu};
}

}  // namespace

TEST_CASE("container limits: what is declared becomes a limit, what is not stays unlimited") {
  struct Row {
    std::optional<std::int64_t> memory, cpu, limit, quota;
  };

  const std::optional<std::int64_t> none;
  const std::vector<Row> rows{
      {none, none, none, none},
      {64 * kMiB, none, 64 * kMiB, none},
      {none, 1000, none, 100'000},
      {none, 500, none, 50'000},
      {none, 1, none, 1'000},  // the kernel's least quota
      {none, 9, none, 1'000},
      {none, 10, none, 1'000},
      {none, 11, none, 1'100},
      {none, 64'000, none, 6'400'000},
      {0, 0, none, none},  // never a literal 0: no CPU at all
      {-1, -500, none, none},
      {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX / 100 * 100},
      {1, INT64_MAX / 100, 1, INT64_MAX / 100 * 100},
  };
  for (const Row& row : rows) {
    const ContainerResources out = container_resources(limits("a", row.memory, row.cpu));
    CHECK(out == ContainerResources{row.limit, row.quota, 100'000, 1'024});
  }
}

TEST_CASE("container limits: each alone, then all together, against the guest") {
  const auto check = [](const std::vector<ContainerLimits>& containers) {
    return check_envelope(containers, kGuest);
  };
  CHECK(check({}));
  CHECK(check({limits("a", 512 * kMiB, 2000)}));  // exactly the guest
  CHECK(check({limits("a", 256 * kMiB, 1000), limits("b", 256 * kMiB, 1000)}));
  CHECK(check({limits("a", std::nullopt, 1000), limits("b", 512 * kMiB, std::nullopt)}));

  Status alone = check({limits("a", 1, 1), limits("b", 513 * kMiB, std::nullopt)});
  REQUIRE_FALSE(alone);
  CHECK(alone.error().code() == Errc::NeverFits);
  CHECK(alone.error().message() ==
        "container b may use more memory (513Mi) than the guest has (512Mi, after 20Mi of "
        "overhead); lower limits.memory of a container or raise spec.resources.limits.memory of "
        "WorkerPool small");
  CHECK(member(alone.error(), "asked") == 513 * kMiB);
  CHECK(member(alone.error(), "ceiling") == 512 * kMiB);

  Status sum = check({limits("a", 256 * kMiB, std::nullopt), limits("b", 257 * kMiB, 1)});
  REQUIRE_FALSE(sum);
  CHECK(sum.error().message().starts_with("all containers together may use more memory (513Mi)"));

  Status cpu = check({limits("a", std::nullopt, 1000), limits("b", std::nullopt, 1001)});
  REQUIRE_FALSE(cpu);
  CHECK(cpu.error().message() ==
        "all containers together may use more CPU (2001m) than the guest has (2000m); lower "
        "limits.cpu of a container or raise spec.resources.limits.cpu of WorkerPool small");
  CHECK(cpu.error().message().find("memory") == std::string::npos);
}

TEST_CASE("container limits: a negative one never offsets a sibling, and no sum wraps") {
  CHECK_FALSE(check_envelope(
      {limits("a", -1024 * kMiB, -9000), limits("b", 513 * kMiB, std::nullopt)}, kGuest));
  CHECK_FALSE(check_envelope({limits("a", -1024 * kMiB, -9000), limits("b", 300 * kMiB, 1500),
                              limits("c", 300 * kMiB, std::nullopt)},
                             kGuest));
  GuestEnvelope largest = kGuest;
  largest.guest.memory_bytes = INT64_MAX - 1;
  CHECK_FALSE(
      check_envelope({limits("a", INT64_MAX - 1, 1), limits("b", INT64_MAX - 1, 1)}, largest));
}

TEST_CASE("container limits: a sum that leaves the guest's own share short is told") {
  CHECK(envelope_warning({limits("a", 452 * kMiB, 1)}, kGuest.guest).empty());
  CHECK(envelope_warning({limits("a", 453 * kMiB, 1)}, kGuest.guest) ==
        "the containers' limits (453Mi) leave 59Mi of the guest's 512Mi to its kernel and agent, "
        "which take 35 to 60 MiB");
  CHECK(envelope_warning({limits("a", std::nullopt, 1)}, kGuest.guest).empty());
  CHECK(envelope_warning({limits("a", 600 * kMiB, 1)}, kGuest.guest).empty());  // refused anyway
}
