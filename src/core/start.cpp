#include "ate/core/start.hpp"

namespace ate::core {

std::string_view name(Scope scope) {
  switch (scope) {
    case Scope::Full:
      return "FULL";
    case Scope::Data:
      return "DATA";
    case Scope::DataOnGolden:
      return "DATA_ON_GOLDEN";
  }
  return "FULL";
}

std::optional<Scope> parse_scope(std::string_view text) {
  for (std::size_t i = 0; i < kScopeCount; ++i) {
    const auto scope = static_cast<Scope>(i);
    if (name(scope) == text) {
      return scope;
    }
  }
  return std::nullopt;
}

Status check_scope(std::string_view text) {
  if (text.empty() || parse_scope(text)) {
    return {};
  }
  return fail(
      Error(Errc::InvalidValue, "scope is one of FULL, DATA, DATA_ON_GOLDEN").with_field("scope"));
}

StartChoice choose_start(const StartFacts& facts) {
  StartChoice choice;
  if (facts.source == Source::Boot) {
    choice.volumes = facts.marks.restore;
    return choice;
  }
  const Selected& snapshot = facts.snapshot;
  if (facts.marks.match != snapshot.id) {
    choice.volumes = snapshot.id;
  }
  if (snapshot.scope == Scope::Full && snapshot.same_generation) {
    choice.source = facts.source;
    choice.memory = snapshot.id;
  } else if (snapshot.scope == Scope::DataOnGolden && snapshot.same_generation) {
    choice.source = Source::DataOnGolden;
    choice.memory = facts.golden;
  } else {
    choice.source = Source::Data;
  }
  return choice;
}

VolumeMarks marks_of_start(const VolumeMarks& before) {
  VolumeMarks marks = before;
  marks.match.clear();
  return marks;
}

VolumeMarks marks_of_run() {
  return {};
}

VolumeMarks marks_of_save(const std::string& snapshot) {
  VolumeMarks marks;
  marks.match = snapshot;
  return marks;
}

VolumeMarks marks_of_revert(const VolumeMarks& before, const std::string& committed,
                            bool keep_volumes) {
  VolumeMarks marks;
  if (keep_volumes) {
    // What an earlier revert asked for has not happened yet, and these are what it keeps.
    marks.restore = before.restore;
    marks.cold = true;
    return marks;
  }
  marks.match = before.match;
  marks.restore = committed.empty() ? kVolumesAsNew : committed;
  if (!committed.empty() && marks.match == committed) {
    marks.restore.clear();  // they are that already
  }
  return marks;
}

}  // namespace ate::core
