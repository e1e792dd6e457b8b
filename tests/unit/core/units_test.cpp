#include "ate/core/units.hpp"

#include <limits>

#include "support/catch.hpp"

using namespace ate;
using namespace ate::core;

TEST_CASE("bytes: Kubernetes quantities are exact") {
  struct Row {
    const char* text;
    std::int64_t bytes;
  };

  for (const Row& row :
       {Row{"0", 0}, Row{"1", 1}, Row{"1024", 1024}, Row{"1Ki", 1024}, Row{"512Mi", 512LL << 20},
        Row{"1.5Gi", 3LL << 29}, Row{"1k", 1000}, Row{"2M", 2'000'000}, Row{"1G", 1'000'000'000},
        Row{"1T", 1'000'000'000'000}, Row{"1P", 1'000'000'000'000'000}, Row{"1Ti", 1LL << 40},
        Row{"1Pi", 1LL << 50}, Row{"0.7Mi", 734'004}, Row{"0.5", 1},
        Row{"9223372036854775807", std::numeric_limits<std::int64_t>::max()},
        Row{"8191Pi", 8191LL << 50}}) {
    INFO(row.text);
    const auto parsed = parse_bytes(row.text);
    REQUIRE(parsed);
    REQUIRE(*parsed == row.bytes);
  }
}

// case T7
TEST_CASE("bytes: everything else is refused with the text that was given") {
  for (const char* text : {"",
                           "-1",
                           "+1",
                           "2.5.1",
                           "1e3",
                           "1E3",
                           "512MB",
                           "512mb",
                           "512Mib",
                           "9223372036854775808",
                           "8192Pi",
                           "1Ei",
                           "1E",
                           "100m",
                           " 1",
                           "1 ",
                           "1 Gi",
                           "Gi",
                           ".5",
                           "5.",
                           "0x10",
                           "1_000",
                           "1,5",
                           "007",
                           "inf",
                           "nan",
                           "max",
                           "1.1234567890",
                           "99999999999999999999999999",
                           "1Gi\n",
                           "\xc2\xb2"}) {
    INFO(text);
    const auto parsed = parse_bytes(text);
    REQUIRE_FALSE(parsed);
    REQUIRE(parsed.error().code() == Errc::InvalidValue);
    REQUIRE_FALSE(parsed.error().message().empty());
  }
  REQUIRE_FALSE(parse_bytes(std::string_view("1\0", 2)));
}

TEST_CASE("cpu: whole, fraction and milli") {
  struct Row {
    const char* text;
    std::int64_t milli;
  };

  for (const Row& row :
       {Row{"1", 1000}, Row{"0.5", 500}, Row{"250m", 250}, Row{"0.001", 1}, Row{"1.5", 1500},
        Row{"0", 0}, Row{"128", 128'000}, Row{"1.500000000", 1500}, Row{"0m", 0}}) {
    INFO(row.text);
    const auto parsed = parse_cpu_milli(row.text);
    REQUIRE(parsed);
    REQUIRE(*parsed == row.milli);
  }
}

// case T7
TEST_CASE("cpu: finer than 1m, signs, exponents and overflow are refused") {
  for (const char* text : {"", "-1", "2.5.1", "1e3", "0.0001", "0.5m", "1M", "1Gi", "1 ", "01",
                           "9223372036854775808", "9223372036854775807", "all"}) {
    INFO(text);
    const auto parsed = parse_cpu_milli(text);
    REQUIRE_FALSE(parsed);
    REQUIRE(parsed.error().code() == Errc::InvalidValue);
  }
}

TEST_CASE("duration: one number and one unit") {
  using namespace std::chrono_literals;
  REQUIRE(parse_duration("250ms").value() == 250ms);
  REQUIRE(parse_duration("30s").value() == 30s);
  REQUIRE(parse_duration("10m").value() == 10min);
  REQUIRE(parse_duration("24h").value() == 24h);
  REQUIRE(parse_duration("0s").value() == 0ms);
  REQUIRE(parse_duration("720h").value() == 720h);
  for (const char* text : {"", "30", "0", "0ms", "0h", "-1s", "1.5h", "1h30m", "1d", "1e3s", "1 s",
                           "s", "87841h", "9223372036854775807s", "99999999999999999999s", "01s"}) {
    INFO(text);
    const auto parsed = parse_duration(text);
    REQUIRE_FALSE(parsed);
    REQUIRE(parsed.error().code() == Errc::InvalidValue);
  }
}

TEST_CASE("count: positive plain integers") {
  REQUIRE(parse_count("4096").value() == 4096);
  for (const char* text : {"", "0", "-1", "1.0", "1k", "007", "9223372036854775808"}) {
    INFO(text);
    REQUIRE_FALSE(parse_count(text));
  }
}

TEST_CASE("format_bytes: the largest binary unit that divides, and it parses back") {
  REQUIRE(format_bytes(1LL << 30) == "1Gi");
  REQUIRE(format_bytes(1536LL << 20) == "1536Mi");
  REQUIRE(format_bytes(1000) == "1000");
  REQUIRE(format_bytes(0) == "0");
  for (const std::int64_t bytes : {1LL, 1023LL, 1025LL, 4096LL, (1LL << 40) + (1LL << 20)}) {
    REQUIRE(parse_bytes(format_bytes(bytes)).value() == bytes);
  }
}
