#include "ate/core/golden.hpp"

#include <set>

#include "support/catch.hpp"

using namespace ate::core;

namespace {

GoldenParts parts() {
  GoldenParts all;
  all.spec_digest = "sha256:spec";
  all.images["app"] = "sha256:image";
  all.runtime["asset.runsc"] = "sha256:runsc";
  all.runtime["cpuFeatures"] = "aes,avx";
  all.memory_bytes = 512;
  all.vcpus = 2;
  return all;
}

}  // namespace

TEST_CASE("golden: each part makes another key, equal parts the same") {
  std::set<std::string> texts{golden_text(parts())};
  REQUIRE(golden_text(parts()) == *texts.begin());
  GoldenParts other = parts();
  other.spec_digest = "sha256:more";
  texts.insert(golden_text(other));
  other = parts();
  other.images["app"] = "sha256:newer";
  texts.insert(golden_text(other));
  other = parts();
  other.images["helper"] = "sha256:image";
  texts.insert(golden_text(other));
  other = parts();
  other.runtime["asset.runsc"] = "sha256:newer";
  texts.insert(golden_text(other));
  other = parts();
  other.runtime["cpuFeatures"] = "aes";
  texts.insert(golden_text(other));
  other = parts();
  other.memory_bytes = 256;
  texts.insert(golden_text(other));
  other = parts();
  other.vcpus = 4;
  texts.insert(golden_text(other));
  REQUIRE(texts.size() == 8);
}

TEST_CASE("golden: what is shown, and so what is used") {
  struct Row {
    GoldenFacts facts;
    GoldenState state;
  };

  const Row rows[] = {
      {{false, "k", "k", false, 0}, GoldenState::Off},
      {{true, "", "", false, 0}, GoldenState::Pending},
      {{true, "k", "", false, 0}, GoldenState::Pending},
      {{true, "k", "", true, 0}, GoldenState::Building},
      {{true, "k", "", true, 3}, GoldenState::Building},
      {{true, "k", "", false, 1}, GoldenState::Failed},
      {{true, "k", "k", false, 0}, GoldenState::Ready},
      {{true, "k", "k", false, 2}, GoldenState::Ready},
      {{true, "k", "old", false, 0}, GoldenState::Stale},
      {{true, "", "old", false, 0}, GoldenState::Stale},
      {{true, "k", "old", true, 0}, GoldenState::Building},
      {{true, "k", "old", false, 1}, GoldenState::Failed},
  };
  for (const Row& row : rows) {
    INFO(row.facts.key << " " << row.facts.have << " " << row.facts.failures);
    REQUIRE(golden_state(row.facts) == row.state);
    REQUIRE_FALSE(name(row.state).empty());
  }
}

TEST_CASE("golden: back-off and warm-up") {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  REQUIRE(golden_retry_delay(0) == milliseconds(10'000));
  REQUIRE(golden_retry_delay(1) == milliseconds(10'000));
  REQUIRE(golden_retry_delay(2) == milliseconds(20'000));
  REQUIRE(golden_retry_delay(7) == milliseconds(600'000));
  REQUIRE(golden_retry_delay(1'000'000) == milliseconds(600'000));
  REQUIRE(golden_warmup(true, 0, false) == seconds(0));
  REQUIRE(golden_warmup(false, 0, false) == seconds(20));
  REQUIRE(golden_warmup(false, 0, true) == seconds(0));
  REQUIRE(golden_warmup(true, 7, true) == seconds(7));
}
