#include "api/url.hpp"

#include "api/prefer.hpp"
#include "support/catch.hpp"

using namespace ate;

TEST_CASE("path: segments are split at slashes, one trailing slash is the same resource") {
  const auto count = [](std::string_view path) {
    const auto segments = api::split_path(path);
    return segments ? static_cast<int>(segments->size()) : -1;
  };
  REQUIRE(count("/") == 0);
  REQUIRE(count("/v1/actors") == 2);
  REQUIRE(count("/v1/actors/") == 2);
  for (const char* bad : {"", "v1", "//", "/v1//actors", "/v1/actors//", "*"}) {
    CAPTURE(bad);
    REQUIRE(count(bad) == -1);
  }
}

TEST_CASE("path: a segment is decoded once and must be a name") {
  // case T57
  REQUIRE(api::decode_segment("c%31").value() == "c1");
  REQUIRE(api::decode_segment("a%2541").value() == "a%41");
  for (const char* bad : {".", "..", "%2e%2e", "%2E.", "a%2fb", "a%5cb", "a%00", "%", "%4", "%zz",
                          "%-1", "a%0ab", "\x01", "\x7f", "\xc3\xa4"}) {
    CAPTURE(bad);
    const auto decoded = api::decode_segment(bad);
    REQUIRE_FALSE(decoded);
    REQUIRE(decoded.error().code() == Errc::Malformed);
  }
}

TEST_CASE("query: names and values are decoded, broken ones refused") {
  const auto query = api::parse_query("a=1&label=tier%3Dsmall&flag&&x=").value();
  REQUIRE(query == api::Query{{"a", "1"}, {"label", "tier=small"}, {"flag", ""}, {"x", ""}});
  for (const char* bad : {"=1", "a=%", "a=%zz", "a%00=1", "a=\xff", "a=%0a"}) {
    CAPTURE(bad);
    REQUIRE_FALSE(api::parse_query(bad));
  }
}

TEST_CASE("page token: opaque, survives a round trip, nothing else is taken") {
  const std::string key = "default/c\xc3\xa4 1";
  REQUIRE(api::read_page_token(api::make_page_token(key)).value() == key);
  for (const char* bad : {"", "ate1", "ate1x", "ate1zz", "6162", "ate1-1", "garbage", "ate16162",
                          "ate161624d2505c0"}) {
    CAPTURE(bad);
    REQUIRE_FALSE(api::read_page_token(bad));
  }
}

TEST_CASE("prefer: respond-async and wait, lists and repeats, the unknown ignored") {
  using std::chrono::milliseconds;
  const milliseconds longest(300'000);
  const auto parse = [&](std::string value) {
    return api::parse_prefer({{"Prefer", std::move(value)}}, longest);
  };
  REQUIRE(parse("respond-async")->respond_async);
  REQUIRE_FALSE(parse("handling=strict")->respond_async);
  REQUIRE(parse("foo, wait=10 ; x=y")->wait == milliseconds(10'000));
  REQUIRE(parse("wait=9999")->wait == longest);
  const auto both = api::parse_prefer({{"prefer", "respond-async"}, {"PREFER", "wait=1"}}, longest);
  REQUIRE(both->respond_async);
  REQUIRE(both->wait == milliseconds(1000));
  for (const char* bad : {"wait", "wait=", "wait=-1", "wait=1.5", "wait=x"}) {
    CAPTURE(bad);
    REQUIRE_FALSE(parse(bad));
  }
}
