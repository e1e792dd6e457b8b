#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ate/core/lifecycle.hpp"
#include "ate/util/result.hpp"

/// What a start is made of: which memory, which durable volumes. Pure; docs/volumes.md tells the
/// same to operators.
namespace ate::core {

/// What a snapshot holds.
enum class Scope : std::uint8_t {
  Full,         // memory, writes to the root file system, durable volumes
  Data,         // durable volumes only: a start from it is cold
  DataOnGolden  // durable volumes; the memory is the golden snapshot's
};
inline constexpr std::size_t kScopeCount = 3;
/// FULL | DATA | DATA_ON_GOLDEN.
[[nodiscard]] std::string_view name(Scope scope);
[[nodiscard]] std::optional<Scope> parse_scope(std::string_view text);
/// As a call gives it: "" leaves it to the template.
[[nodiscard]] Status check_scope(std::string_view text);

/// In VolumeMarks::restore: no snapshot's copies but empty volumes, as of a new actor.
inline constexpr const char* kVolumesAsNew = "new";

/// How the live directories of an actor's durable volumes stand to its snapshots.
struct VolumeMarks {
  std::string match;    // snapshot whose copies they equal; "" = none, or not known
  std::string restore;  // what replaces them before the next start: a snapshot, kVolumesAsNew, ""
  bool cold = false;    // the next start is cold on them, whatever snapshot there is
  bool operator==(const VolumeMarks&) const = default;
};

/// The snapshot that a start was selected from.
struct Selected {
  std::string id;
  Scope scope = Scope::Full;
  bool same_generation = true;  // it was made of the template generation that the actor has now
};

struct StartFacts {
  Source source = Source::Boot;
  Selected snapshot;  // unless source is Boot
  VolumeMarks marks;
  std::string golden;  // that may be used, of the actor's template generation; "" = none
};

struct StartChoice {
  /// Data: cold on the volumes of `snapshot`. DataOnGolden: on them with the golden memory.
  Source source = Source::Boot;
  /// Snapshot whose memory is restored; "" = cold, or with DataOnGolden that there is none to be
  /// had and the start has to wait or fail.
  std::string memory;
  std::string
      volumes;  // snapshot or kVolumesAsNew that replaces the live ones first; "" = as they are
};

/// Memory and files match: a memory is only ever restored onto the volumes of its own snapshot; the
/// golden one alone onto others, where the actor was saved with scope DATA_ON_GOLDEN. A snapshot of
/// another template generation gives its volumes only.
[[nodiscard]] StartChoice choose_start(const StartFacts& facts);

/// From the moment a guest may run the live volumes equal no snapshot. (A start that fails is tried
/// again from the same place: what was to be restored still is.)
[[nodiscard]] VolumeMarks marks_of_start(const VolumeMarks& before);
/// The guest is RUNNING on them.
[[nodiscard]] VolumeMarks marks_of_run();
/// They were saved into `snapshot`, and nothing has run since.
[[nodiscard]] VolumeMarks marks_of_save(const std::string& snapshot);
/// `committed`: where the revert leads; "" = as new.
[[nodiscard]] VolumeMarks marks_of_revert(const VolumeMarks& before, const std::string& committed,
                                          bool keep_volumes);

}  // namespace ate::core
