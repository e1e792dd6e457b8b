#include "ate/core/sizing.hpp"

#include "support/catch.hpp"
#include "support/error_member.hpp"

using namespace ate;
using namespace ate::core;
using ate::test::member;

namespace {

constexpr std::int64_t kMiB = 1LL << 20;
const OverheadTerms kMicrovm{12 * kMiB, 1 * kMiB, 1.0};
const OverheadTerms kGvisor{72 * kMiB, 0, 0};

}  // namespace

// case T1
TEST_CASE("sizing: a budget below the floor names its numbers, the knob and the value to set") {
  const auto size = size_guest({100 * kMiB, 2000}, kMicrovm, 1,
                               "spec.resources.limits.memory of WorkerPool small");
  REQUIRE_FALSE(size);
  const Error& error = size.error();
  REQUIRE(error.code() == Errc::BudgetTooSmall);
  REQUIRE(error.message() ==
          "100 MiB budget \u2212 15 MiB overhead = 84 MiB guest; the floor is 128 MiB. "
          "Raise spec.resources.limits.memory of WorkerPool small to at least 144Mi.");
  REQUIRE(error.field() == "spec.resources.limits.memory");
  REQUIRE(member(error, "budgetBytes") == 104857600);
  REQUIRE(member(error, "overheadBytes") == 15728640);
  REQUIRE(member(error, "guestBytes") == 88080384);
  REQUIRE(member(error, "floorBytes") == 134217728);
}

TEST_CASE("sizing: the value that the error names is the smallest that works") {
  for (const OverheadTerms& terms :
       {kMicrovm, kGvisor, OverheadTerms{0, 0, 0}, OverheadTerms{1, 3, 12.5},
        OverheadTerms{200 * kMiB, 5 * kMiB, 49.9}}) {
    for (const std::int64_t cpu : {1, 1000, 1001, 8000}) {
      const auto small = size_guest({kMiB, cpu}, terms, 1, "x of y");
      REQUIRE_FALSE(small);
      const std::string& text = small.error().message();
      const auto at = text.find("at least ") + 9;
      const std::int64_t named = std::stoll(text.substr(at)) * kMiB;
      REQUIRE(size_guest({named, cpu}, terms, 1, "x of y"));
      REQUIRE_FALSE(size_guest({named - kMiB, cpu}, terms, 1, "x of y"));
    }
  }
}

// case T3
TEST_CASE("sizing: guest and overhead never pass the budget, page tables included") {
  for (std::int64_t budget = 160 * kMiB; budget <= (1LL << 40); budget = budget * 5 / 4 + 12345) {
    const auto size = size_guest({budget, 4000}, kMicrovm, 1, "x of y");
    REQUIRE(size);
    REQUIRE(size->memory_bytes % (2 * kMiB) == 0);
    REQUIRE(size->memory_bytes + size->overhead_bytes <= budget);
    REQUIRE(static_cast<double>(size->memory_bytes) * 1.0045 +
                static_cast<double>(kMicrovm.fixed_bytes) <=
            static_cast<double>(budget));
  }
}

TEST_CASE("sizing: vCPUs round up and respect the runtime's minimum") {
  REQUIRE(size_guest({1024 * kMiB, 1000}, kGvisor, 2, "k").value().vcpus == 2);
  REQUIRE(size_guest({1024 * kMiB, 2001}, kGvisor, 2, "k").value().vcpus == 3);
  REQUIRE(size_guest({1024 * kMiB, 1}, kMicrovm, 1, "k").value().vcpus == 1);
  // examples.md: a pool of 1 CPU and 1Gi under gVisor shows 998244352 - the class's own terms
  // apply.
  REQUIRE(size_guest({1024 * kMiB, 1000}, kGvisor, 2, "k").value().memory_bytes == 952 * kMiB);
}

// case T7
TEST_CASE("sizing: zero and negative budgets are errors, never the host") {
  for (const Budget& budget :
       {Budget{0, 1000}, Budget{-1, 1000}, Budget{kMiB, 0}, Budget{kMiB, -1}}) {
    REQUIRE_FALSE(size_guest(budget, kGvisor, 2, "k"));
  }
  REQUIRE(size_guest({INT64_MAX, 1000}, kMicrovm, 1, "k"));
  REQUIRE_FALSE(size_guest({1024 * kMiB, INT64_MAX}, kMicrovm, 1, "k"));
}

TEST_CASE("sizing: for every budget and vCPU count nothing is over and little is kept back") {
  for (std::int32_t vcpus = 1; vcpus <= 256; vcpus += vcpus < 16 ? 1 : 37) {
    std::int64_t before = 0;
    for (std::int64_t budget = 64 * kMiB; budget <= (4LL << 40);
         budget += budget / 173 + 4096 * 7 + 1) {
      const auto size = size_guest({budget, vcpus * 1000}, kMicrovm, 1, "x of y");
      if (!size) {
        // Refused only below the floor, and then with sums that add up.
        const Error& error = size.error();
        REQUIRE(error.code() == Errc::BudgetTooSmall);
        REQUIRE(member(error, "budgetBytes") == budget);
        REQUIRE(member(error, "guestBytes") < kGuestFloorBytes);
        REQUIRE(member(error, "guestBytes") <=
                std::max<std::int64_t>(0, budget - member(error, "overheadBytes")));
        REQUIRE(before == 0);  // monotonic: what fits at less fits at more
        continue;
      }
      const bool within = size->memory_bytes + size->overhead_bytes <= budget &&
                          size->memory_bytes >= kGuestFloorBytes &&
                          size->memory_bytes % (2 * kMiB) == 0 && size->memory_bytes >= before &&
                          size->vcpus == vcpus;
      // 14 MiB + 1 MiB a vCPU + 1.02 %
      const std::int64_t kept = (14 + vcpus) * kMiB + budget / 10'000 * 102 + 102;
      if (!within || size->memory_bytes < budget - kept) {
        CAPTURE(budget, vcpus, size->memory_bytes, size->overhead_bytes, before);
        FAIL("the rule does not hold");
      }
      before = size->memory_bytes;
    }
    REQUIRE(before > 0);
  }
}
