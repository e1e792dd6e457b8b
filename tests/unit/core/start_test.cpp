#include "ate/core/start.hpp"

#include <vector>

#include "support/catch.hpp"

namespace {

using namespace ate::core;

constexpr const char* kS = "01snapshot";
constexpr const char* kOther = "01other";
constexpr const char* kGolden = "01golden";

TEST_CASE("a scope has one name") {
  for (std::size_t i = 0; i < kScopeCount; ++i) {
    const auto scope = static_cast<Scope>(i);
    CHECK(parse_scope(name(scope)) == scope);
  }
  CHECK_FALSE(parse_scope("data"));
  CHECK_FALSE(parse_scope(""));
}

TEST_CASE("every start: which memory, which volumes") {
  // All of source x scope x generation x match x restore x golden; what must hold, not a copy of
  // the code.
  const std::vector<Source> sources = {Source::Pause, Source::Committed, Source::Fork,
                                       Source::Boot};
  std::vector<StartFacts> all;
  for (const Source source : sources) {
    for (std::size_t scope = 0; scope < kScopeCount; ++scope) {
      for (const bool same : {true, false}) {
        for (const std::string match : {"", kS, kOther}) {
          for (const std::string restore : {"", kS, kVolumesAsNew}) {
            for (const std::string golden : {"", kGolden}) {
              all.push_back(
                  {source, {kS, static_cast<Scope>(scope), same}, {match, restore, false}, golden});
            }
          }
        }
      }
    }
  }
  CHECK(all.size() == 4 * kScopeCount * 2 * 3 * 3 * 2);
  for (const StartFacts& facts : all) {
    const Scope scope = facts.snapshot.scope;
    const bool same = facts.snapshot.same_generation;
    const std::string& match = facts.marks.match;
    const StartChoice choice = choose_start(facts);
    const std::string case_name = std::string(name(facts.source)) + " " + std::string(name(scope)) +
                                  (same ? " same" : " other") + " match=" + match +
                                  " restore=" + facts.marks.restore + " golden=" + facts.golden;
    INFO(case_name);
    // A memory only with the volumes of its own snapshot; the golden one where that was asked for.
    if (choice.memory == kGolden) {
      CHECK(scope == Scope::DataOnGolden);
      CHECK(choice.source == Source::DataOnGolden);
    } else if (!choice.memory.empty()) {
      CHECK(choice.memory == kS);
      CHECK(scope == Scope::Full);
      CHECK(choice.source == facts.source);
    }
    if (!choice.memory.empty()) {
      CHECK(same);
      CHECK((choice.volumes == kS || match == kS));
    }
    // A cold boot takes no snapshot but what a revert asked for.
    if (facts.source == Source::Boot) {
      CHECK(choice.source == Source::Boot);
      CHECK(choice.memory.empty());
      CHECK(choice.volumes == facts.marks.restore);
      continue;
    }
    CHECK(choice.volumes == (match == kS ? "" : kS));
    // Cold only by its scope or its generation: never for want of a golden snapshot.
    const bool cold = scope == Scope::Data || !same;
    CHECK((choice.source == Source::Data) == cold);
    const bool wants = scope == Scope::DataOnGolden && same;
    CHECK((choice.source == Source::DataOnGolden) == wants);
    CHECK(choice.memory.empty() == (cold || (wants && facts.golden.empty())));
  }
}

TEST_CASE("marks: a whole life of the volumes") {
  VolumeMarks marks;  // as new
  marks = marks_of_start(marks);
  marks = marks_of_run();
  CHECK(marks == VolumeMarks{});
  marks = marks_of_save(kS);
  CHECK(marks == VolumeMarks{kS, "", false});

  SECTION("a start that fails restores them at the next one") {
    marks = marks_of_start(marks);
    CHECK(marks == VolumeMarks{"", "", false});
    StartFacts facts{Source::Committed, {kS, Scope::Full, true}, marks, {}};
    CHECK(choose_start(facts).volumes == kS);
  }
  SECTION("a revert brings them back, also for a cold boot") {
    marks = marks_of_revert(marks_of_run(), kS, false);
    CHECK(marks == VolumeMarks{"", kS, false});
    CHECK(choose_start({Source::Boot, {}, marks, {}}).volumes == kS);
    marks = marks_of_start(marks);  // fails
    CHECK(choose_start({Source::Boot, {}, marks, {}}).volumes == kS);
    CHECK(marks_of_run() == VolumeMarks{});
  }
  SECTION("a revert to the snapshot that they equal has nothing to do") {
    CHECK(marks_of_revert(marks, kS, false) == VolumeMarks{kS, "", false});
  }
  SECTION("a revert of what was never suspended empties them") {
    CHECK(marks_of_revert(marks_of_run(), "", false) == VolumeMarks{"", kVolumesAsNew, false});
  }
  SECTION("keepVolumes keeps what is live") {
    marks = marks_of_revert(marks_of_run(), kS, true);
    CHECK(marks == VolumeMarks{"", "", true});
    CHECK(choose_start({Source::Boot, {}, marks, {}}).volumes.empty());
    // And a plain revert after it goes to the snapshot all the same.
    CHECK(marks_of_revert(marks, kS, false) == VolumeMarks{"", kS, false});
  }
}

}  // namespace
