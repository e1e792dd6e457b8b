#include "ate/core/retention.hpp"

#include "support/catch.hpp"

using namespace ate::core;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t kHour = 3'600'000;
constexpr std::int64_t kNow = 1000 * kHour;

LiveSnapshot made(const std::string& id, std::int64_t hours_ago, const std::string& name = "t") {
  return {.id = id,
          .atespace = "default",
          .template_name = name,
          .created_ms = kNow - hours_ago * kHour,
          .bytes = 10};
}

/// Ids that go, oldest last, as text.
std::string gone(std::vector<LiveSnapshot> snapshots, SnapshotKeep keep) {
  std::string out;
  for (const Doomed& doomed : expired_snapshots(
           std::move(snapshots), [&](const auto&, const auto&) { return keep; }, kNow)) {
    out += doomed.id;
    CHECK(doomed.kind == "snapshot");
    CHECK(doomed.bytes == 10);
    CHECK(doomed.reason.starts_with("template t keeps"));
  }
  return out;
}

}  // namespace

TEST_CASE("retention: a snapshot stays while the count or the age keeps it") {
  const std::vector<LiveSnapshot> five = {made("c", 3), made("a", 1), made("e", 50), made("b", 2),
                                          made("d", 4)};

  struct Row {
    SnapshotKeep keep;
    const char* gone;
  };

  for (const Row& row :
       {Row{{}, ""}, Row{{.last = 2, .age = {}}, "cde"}, Row{{.last = 0, .age = {}}, "abcde"},
        Row{{.last = 9, .age = {}}, ""}, Row{{.last = {}, .age = 150min}, "cde"},
        Row{{.last = 4, .age = 150min}, "e"}, Row{{.last = 1, .age = 5h}, "e"},
        Row{{.last = 0, .age = 100h}, ""}}) {
    CHECK(gone(five, row.keep) == row.gone);
  }
}

TEST_CASE("retention: tagged and used ones stay and take nobody's place") {
  std::vector<LiveSnapshot> some = {made("a", 1), made("b", 2), made("c", 3), made("d", 4)};
  some[0].tagged = true;
  some[2].used = true;
  CHECK(gone(some, {.last = 1, .age = {}}) == "d");
  CHECK(gone(some, {.last = 0, .age = {}}) == "bd");
}

TEST_CASE("retention: each template counts its own") {
  std::string out;
  const auto keep_of = [](const std::string& atespace, const std::string& name) {
    CHECK(atespace == "default");
    return name == "t" ? SnapshotKeep{.last = 1, .age = {}} : SnapshotKeep{};
  };
  for (const Doomed& doomed : expired_snapshots(
           {made("a", 1), made("b", 2), made("x", 1, "u"), made("y", 2, "u")}, keep_of, kNow)) {
    out += doomed.id;
  }
  CHECK(out == "b");
}

TEST_CASE("retention: what is named stays, and so does what is a minute old") {
  const std::vector<Stored> stored = {{"image", "named", 1, 0},
                                      {"image", "new", 2, kNow - 59'000},
                                      {"image", "old", 3, kNow - 61'000},
                                      {"image", "ancient", 4, 0}};
  const std::vector<Doomed> doomed = unnamed(stored, {"named"}, kNow);
  REQUIRE(doomed.size() == 2);
  CHECK(doomed[0].id == "old");
  CHECK(doomed[1].id == "ancient");
  CHECK(doomed[1].bytes == 4);
  CHECK(doomed[1].kind == "image");
}
