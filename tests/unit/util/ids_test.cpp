#include "ate/util/ids.hpp"

#include "ate/util/clock.hpp"
#include "ate/util/log.hpp"
#include "ate/util/result.hpp"
#include "support/catch.hpp"

using namespace ate;

TEST_CASE("ulid: sorts by time, is a safe file name, never repeats") {
  const std::string early = make_ulid(WallTime(std::chrono::milliseconds(1)));
  const std::string late = make_ulid(WallTime(std::chrono::milliseconds(1'800'000'000'000)));
  REQUIRE(is_ulid(early));
  REQUIRE(is_ulid(late));
  REQUIRE(early < late);
  REQUIRE(early.substr(0, 10) == "0000000001");
  REQUIRE(make_ulid(WallTime{}) != make_ulid(WallTime{}));
}

TEST_CASE("dns label: accepts 1..63 of [a-z0-9-] without dash at the ends") {
  for (const char* good : {"a", "a-b", "0", "x1-2"}) {
    REQUIRE(is_dns_label(good));
  }
  REQUIRE(is_dns_label(std::string(63, 'a')));
  REQUIRE_FALSE(is_dns_label(std::string(64, 'a')));
  for (const char* bad : {"", "-a", "a-", "A", "a.b", "a_b", "a/b", "..", "\xc3\xa4"}) {
    REQUIRE_FALSE(is_dns_label(bad));
  }
}

TEST_CASE("rfc3339: milliseconds survive a round trip") {
  const WallTime time(std::chrono::milliseconds(1'796'063'752'123));
  REQUIRE(format_rfc3339(time) == "2026-11-30T18:35:52.123Z");
  REQUIRE(parse_rfc3339(format_rfc3339(time)) == time);
  REQUIRE(parse_rfc3339("nonsense") == WallTime{});
}

TEST_CASE("log text: nothing from a guest can forge a line") {
  const std::string once = escape_text("a\nb\x1b[31m\"\\", 100);
  REQUIRE(once == "a\\nb\\x1b[31m\"\\");
  REQUIRE(escape_text(once, 100) == once);
  REQUIRE(escape_text("abcdef", 3) == "abc...");
}

TEST_CASE("error: ENOSPC becomes DiskFull wherever it happens") {
  REQUIRE(Error::from_errno("write", 28).code() == Errc::DiskFull);
  REQUIRE(Error::from_errno("write", 5).code() == Errc::Internal);
  const Error error = Error(Errc::NotFound, "actor c1").context("resume");
  REQUIRE(error.message() == "resume: actor c1");
}

TEST_CASE("ids: the floor of a time sorts below every ULID of it and above those before") {
  const WallTime time{std::chrono::milliseconds(1'700'000'000'123)};
  const std::string floor = ulid_floor(time);
  REQUIRE(is_ulid(floor));
  REQUIRE(floor <= make_ulid(time));
  REQUIRE(make_ulid(time - std::chrono::milliseconds(1)) < floor);
}
