#include "ate/core/start.hpp"

#include <vector>

#include "support/catch.hpp"

namespace {

using namespace ate::core;

constexpr const char* kS = "01snapshot";
constexpr const char* kOther = "01other";

TEST_CASE("a scope has one name") {
  for (std::size_t i = 0; i < kScopeCount; ++i) {
    const auto scope = static_cast<Scope>(i);
    CHECK(parse_scope(name(scope)) == scope);
  }
  CHECK_FALSE(parse_scope("data"));
  CHECK_FALSE(parse_scope(""));
}

TEST_CASE("every start: which memory, which volumes") {
  // All of source x scope x generation x match x restore; what must hold, not a copy of the code.
  for (const Source source : {Source::Pause, Source::Committed, Source::Boot}) {
    for (const Scope scope : {Scope::Full, Scope::Data, Scope::DataOnGolden}) {
      for (const bool same : {true, false}) {
        for (const std::string match : {"", kS, kOther}) {
          for (const std::string restore : {"", kS, kVolumesAsNew}) {
            StartFacts facts;
            facts.source = source;
            facts.snapshot = {kS, scope, same};
            facts.marks.match = match;
            facts.marks.restore = restore;
            const StartChoice choice = choose_start(facts);
            const std::string case_name = std::string(name(source)) + " " +
                                          std::string(name(scope)) + (same ? " same" : " other") +
                                          " match=" + match + " restore=" + restore;
            INFO(case_name);
            // A memory only with the volumes of its own snapshot.
            if (!choice.memory.empty()) {
              CHECK(choice.memory == kS);
              CHECK(scope == Scope::Full);
              CHECK(same);
              CHECK(choice.source == source);
              CHECK((choice.volumes == kS || match == kS));
            }
            // A cold boot takes no snapshot but what a revert asked for.
            if (source == Source::Boot) {
              CHECK(choice.source == Source::Boot);
              CHECK(choice.memory.empty());
              CHECK(choice.volumes == restore);
            } else {
              CHECK((choice.memory.empty() == (choice.source == Source::Data)));
              CHECK(choice.volumes == (match == kS ? "" : kS));
            }
          }
        }
      }
    }
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
    StartFacts facts{Source::Committed, {kS, Scope::Full, true}, marks};
    CHECK(choose_start(facts).volumes == kS);
  }
  SECTION("a revert brings them back, also for a cold boot") {
    marks = marks_of_revert(marks_of_run(), kS, false);
    CHECK(marks == VolumeMarks{"", kS, false});
    CHECK(choose_start({Source::Boot, {}, marks}).volumes == kS);
    marks = marks_of_start(marks);  // fails
    CHECK(choose_start({Source::Boot, {}, marks}).volumes == kS);
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
    CHECK(choose_start({Source::Boot, {}, marks}).volumes.empty());
    // And a plain revert after it goes to the snapshot all the same.
    CHECK(marks_of_revert(marks, kS, false) == VolumeMarks{"", kS, false});
  }
}

}  // namespace
