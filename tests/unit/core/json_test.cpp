#include "ate/core/json.hpp"

#include <string>

#include "support/catch.hpp"

using namespace ate;
using namespace ate::core;

namespace {

std::expected<JsonValue, JsonFault> parse(std::string_view text) {
  return parse_json(text, JsonLimits{});
}

}  // namespace

TEST_CASE("json: values come out as they are written") {
  const std::expected<JsonValue, JsonFault> value = parse(
      R"( {"a":[1,-2,3.5,1e3,true,false,null,"x\n\u00e4\ud83d\ude00\/"],"b":{},"c":9223372036854775807} )");
  REQUIRE(value);
  const std::vector<JsonValue>& list = *value->find("a")->as_array();
  CHECK(list[0].as_integer() == 1);
  CHECK(list[1].as_integer() == -2);
  CHECK(list[2].text == "3.5");
  CHECK_FALSE(list[2].as_integer());
  CHECK(list[3].text == "1e3");
  CHECK_FALSE(list[3].as_integer());
  CHECK(list[4].as_bool() == true);
  CHECK(list[5].as_bool() == false);
  CHECK(list[6].kind == JsonValue::Kind::Null);
  CHECK(*list[7].as_text() == "x\n\xc3\xa4\xf0\x9f\x98\x80/");
  CHECK(value->find("b")->is_object());
  CHECK(value->find("c")->as_integer() == INT64_MAX);
  CHECK(list[0].as_text() == nullptr);
  CHECK(list[7].as_array() == nullptr);
  CHECK(value->find("d") == nullptr);
  CHECK(list[0].find("x") == nullptr);
}

TEST_CASE("json: ambiguous, malformed and oversized documents are refused") {
  for (const std::string& text : {
           std::string(""),
           std::string("{"),
           std::string("{}x"),
           std::string("{} {}"),
           std::string(R"({"a":1,"a":2})"),
           std::string(R"({"a":1,"\u0061":2})"),
           std::string("[1,]"),
           std::string("{,}"),
           std::string("{a:1}"),
           std::string("'a'"),
           std::string("01"),
           std::string("+1"),
           std::string("1."),
           std::string(".5"),
           std::string("-"),
           std::string("NaN"),
           std::string("tru"),
           std::string("\"\n\""),
           std::string("\"\xc0\xaf\""),
           std::string("\"\xed\xa0\x80\""),
           std::string("\"\xff\""),
           std::string("\"\xe2\x82\""),
           std::string(R"("\ud800")"),
           std::string(R"("\udc00")"),
           std::string(R"("\ud800\u0041")"),
           std::string(R"("\x41")"),
           std::string(R"("\u12g4")"),
           std::string(R"("abc)"),
           std::string("\"abc\\"),
           std::string("[1]\0", 4),
           std::string(40, '[') + std::string(40, ']'),
           std::string(1'000'000, '['),
           "[" + std::string(5'000'000, ' ') + "]",
       }) {
    CAPTURE(text.substr(0, 60));
    const std::expected<JsonValue, JsonFault> value = parse(text);
    REQUIRE_FALSE(value);
    CHECK_FALSE(value.error().what.empty());
    CHECK(value.error().at <= text.size());
  }
  std::string many = "[0";
  for (int i = 0; i < 200'000; ++i) {
    many += ",0";
  }
  CHECK_FALSE(parse(many + "]"));
  CHECK(parse(std::string(32, '[') + std::string(32, ']')));
}

TEST_CASE("json: what quote writes, parse reads") {
  std::string all;
  for (int c = 0; c < 128; ++c) {
    all += static_cast<char>(c);
  }
  all += "\xc3\xa4\xf0\x9f\x98\x80";
  const std::expected<JsonValue, JsonFault> value = parse(json_quote(all));
  REQUIRE(value);
  CHECK(*value->as_text() == all);
}

TEST_CASE("json: each value and key knows its place, each fault too") {
  const std::string text = R"( {"a": [10, "x\"y"], "b":null} )";
  const std::expected<JsonValue, JsonFault> root = parse(text);
  REQUIRE(root);
  const auto spelled = [&](const JsonValue& value) {
    return text.substr(value.begin, value.end - value.begin);
  };
  CHECK(spelled(*root) == R"({"a": [10, "x\"y"], "b":null})");
  CHECK(spelled(*root->find("a")) == R"([10, "x\"y"])");
  CHECK(spelled(root->find("a")->items[0]) == "10");
  CHECK(spelled(root->find("a")->items[1]) == R"("x\"y")");
  CHECK(root->members[1].begin == text.find("\"b\""));
  CHECK(root->find("b") == nullptr);
  CHECK(parse(R"({"a":1,"b":x})").error().at == 11);
  CHECK(parse(R"({"b":1,"a":2,"b":3})").error().at == 13);
}

TEST_CASE("json: limits and duplicate keys are the caller's choice") {
  const JsonLimits small{.bytes = 20, .depth = 2, .values = 3, .unique_keys = false};
  CHECK(parse_json("[[1]]", small));
  CHECK_FALSE(parse_json("[[[]]]", small));
  CHECK_FALSE(parse_json("[1,2,3]", small));
  CHECK_FALSE(parse_json("[" + std::string(20, ' ') + "]", small));
  const std::expected<JsonValue, JsonFault> twice = parse_json(R"({"a":1,"a":2})", small);
  REQUIRE(twice);
  CHECK(twice->members.size() == 2);
  CHECK(twice->find("a")->as_integer() == 1);
}

TEST_CASE("json: objects and lists are written member by member") {
  JsonObject inner;
  inner.number("n", 7U).boolean("t", true).boolean("f", false);
  JsonObject object;
  object.text("a\n", "\xff\x01\"").strings("list", {"x", ""}).raw("o", std::move(inner).finish());
  CHECK(
      std::move(object).finish() ==
      "{\"a\\n\":\"\xef\xbf\xbd\\u0001\\\"\",\"list\":[\"x\",\"\"],\"o\":{\"n\":7,\"t\":true,\"f\":"
      "false}}");
  CHECK(json_array({}) == "[]");
  CHECK(json_array({"1", "{}"}) == "[1,{}]");
}
