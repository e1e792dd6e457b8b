#include "image/json.hpp"

#include <string>

#include "ate/image/digest.hpp"
#include "support/catch.hpp"

using namespace ate;
using namespace ate::image;

TEST_CASE("json: values come out as they are written") {
  const Result<json::Value> value = json::parse(
      R"( {"a":[1,-2,3.5,1e3,true,false,null,"x\n\u00e4\ud83d\ude00\/"],"b":{},"c":9223372036854775807} )");
  REQUIRE(value);
  const json::Array& list = *value->find("a")->array();
  CHECK(*list[0].integer() == 1);
  CHECK(*list[1].integer() == -2);
  CHECK(std::get<double>(list[2].data) == 3.5);
  CHECK(std::get<double>(list[3].data) == 1000);
  CHECK(std::get<bool>(list[4].data));
  CHECK(list[6].is_null());
  CHECK(*list[7].text() == "x\n\xc3\xa4\xf0\x9f\x98\x80/");
  CHECK(value->find("b")->object() != nullptr);
  CHECK(*value->find("c")->integer() == INT64_MAX);
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
           std::string("1e999"),
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
    const Result<json::Value> value = json::parse(text);
    REQUIRE_FALSE(value);
    CHECK(value.error().code() == Errc::ImageInvalid);
  }
  std::string many = "[0";
  for (int i = 0; i < 200'000; ++i) {
    many += ",0";
  }
  CHECK_FALSE(json::parse(many + "]"));
  CHECK(json::parse(std::string(32, '[') + std::string(32, ']')));
}

TEST_CASE("json: what quote writes, parse reads") {
  std::string all;
  for (int c = 0; c < 128; ++c) {
    all += static_cast<char>(c);
  }
  all += "\xc3\xa4\xf0\x9f\x98\x80";
  const Result<json::Value> value = json::parse(json::quote(all));
  REQUIRE(value);
  CHECK(*value->text() == all);
}

TEST_CASE("digest: sha256 of known texts, in one piece and in many") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 hash;
  hash.update("a");
  hash.update("bc");
  CHECK(hash.finish() == sha256_hex("abc"));
  CHECK(is_sha256_digest("sha256:" + sha256_hex("")));
  CHECK_FALSE(is_sha256_digest(sha256_hex("")));
  CHECK_FALSE(is_sha256_digest("sha512:" + sha256_hex("")));
  CHECK_FALSE(is_sha256_digest("sha256:" + std::string(64, 'A')));
  CHECK_FALSE(is_sha256_digest("sha256:" + std::string(63, 'a')));
  CHECK_FALSE(is_sha256_digest("sha256:../../../../etc/passwd"));
}
