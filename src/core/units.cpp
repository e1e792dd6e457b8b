#include "ate/core/units.hpp"

#include <array>
#include <limits>
#include <optional>

#include "ate/util/log.hpp"

namespace ate::core {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMaxFraction = 9;
constexpr std::size_t kShown = 40;

/// Digits before and after the point, and what follows them.
struct Number {
  std::int64_t whole = 0;
  std::int64_t fraction = 0;  // numerator over `scale`
  std::int64_t scale = 1;
  std::string_view suffix;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string quoted(std::string_view text) {
  return "\"" + escape_text(text, kShown) + "\"";
}

std::unexpected<Error> bad(std::string_view text, const std::string& why) {
  return fail(Errc::InvalidValue, quoted(text) + " " + why);
}

std::optional<std::int64_t> multiply(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) {
    return std::nullopt;
  }
  return out;
}

std::optional<std::int64_t> add(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) {
    return std::nullopt;
  }
  return out;
}

/// `text` must start with a digit; no sign, no leading zeros (they would be octal elsewhere).
Result<std::int64_t> take_digits(std::string_view text, std::size_t& at) {
  const std::size_t start = at;
  std::int64_t value = 0;
  while (at < text.size() && is_digit(text[at])) {
    const auto scaled = multiply(value, 10);
    const auto next = scaled ? add(*scaled, text[at] - '0') : std::nullopt;
    if (!next) {
      return bad(text, "is too large");
    }
    value = *next;
    ++at;
  }
  if (at == start) {
    return bad(text, "must start with a digit");
  }
  if (at - start > 1 && text[start] == '0') {
    return bad(text, "must not have leading zeros");
  }
  return value;
}

Result<Number> take_number(std::string_view text) {
  Number number;
  std::size_t at = 0;
  ATE_ASSIGN(number.whole, take_digits(text, at));
  if (at < text.size() && text[at] == '.') {
    const std::size_t start = ++at;
    while (at < text.size() && is_digit(text[at])) {
      if (at - start >= kMaxFraction) {
        return bad(text, "has more than 9 digits after the point");
      }
      number.fraction = number.fraction * 10 + (text[at] - '0');
      number.scale *= 10;
      ++at;
    }
    if (at == start) {
      return bad(text, "has no digit after the point");
    }
  }
  number.suffix = text.substr(at);
  return number;
}

struct Unit {
  std::string_view suffix;
  std::int64_t factor;
};

constexpr std::array<Unit, 11> kByteUnits{{
    {"", 1},
    {"Ki", 1LL << 10},
    {"Mi", 1LL << 20},
    {"Gi", 1LL << 30},
    {"Ti", 1LL << 40},
    {"Pi", 1LL << 50},
    {"k", 1'000},
    {"M", 1'000'000},
    {"G", 1'000'000'000},
    {"T", 1'000'000'000'000},
    {"P", 1'000'000'000'000'000},
}};

constexpr std::array<Unit, 4> kTimeUnits{{
    {"ms", 1},
    {"s", 1'000},
    {"m", 60'000},
    {"h", 3'600'000},
}};

constexpr std::int64_t kMaxDurationMs = 10LL * 366 * 24 * 3'600'000;

}  // namespace

Result<std::int64_t> parse_bytes(std::string_view text) {
  ATE_ASSIGN(const Number number, take_number(text));
  for (const Unit& unit : kByteUnits) {
    if (unit.suffix != number.suffix) {
      continue;
    }
    const auto whole = multiply(number.whole, unit.factor);
    // At most 10^9 * 2^50: 128 bits hold it. A part of a byte counts as a whole one.
    const auto scaled = static_cast<__int128>(number.fraction) * unit.factor;
    const auto part = static_cast<std::int64_t>((scaled + number.scale - 1) / number.scale);
    const auto sum = whole ? add(*whole, part) : std::nullopt;
    if (!sum) {
      return bad(text, "is too large: at most " + std::to_string(kMax) + " bytes");
    }
    return *sum;
  }
  return bad(text,
             "is not a size: a number and Ki, Mi, Gi, Ti, Pi, k, M, G, T, P or nothing "
             "(for example 512Mi)");
}

Result<std::int64_t> parse_cpu_milli(std::string_view text) {
  ATE_ASSIGN(const Number number, take_number(text));
  if (number.suffix == "m") {
    if (number.scale != 1) {
      return bad(text, "is finer than 1m");
    }
    return number.whole;
  }
  if (!number.suffix.empty()) {
    return bad(text, "is not a CPU amount: for example \"2\", \"0.5\" or \"250m\"");
  }
  const auto whole = multiply(number.whole, 1000);
  const std::int64_t scaled = number.fraction * 1000;
  if (scaled % number.scale != 0) {
    return bad(text, "is finer than 1m");
  }
  const auto sum = whole ? add(*whole, scaled / number.scale) : std::nullopt;
  if (!sum) {
    return bad(text, "is too large");
  }
  return *sum;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  std::size_t at = 0;
  ATE_ASSIGN(const std::int64_t number, take_digits(text, at));
  const std::string_view suffix = text.substr(at);
  for (const Unit& unit : kTimeUnits) {
    if (unit.suffix != suffix) {
      continue;
    }
    if (number == 0 && suffix != "s") {
      return bad(text, "must be greater than 0 (or \"0s\")");
    }
    const auto milliseconds = multiply(number, unit.factor);
    if (!milliseconds || *milliseconds > kMaxDurationMs) {
      return bad(text, "is longer than 10 years");
    }
    return std::chrono::milliseconds(*milliseconds);
  }
  return bad(text, "is not a duration: one number and one of ms, s, m, h (for example 30s)");
}

Result<std::int64_t> parse_count(std::string_view text) {
  std::size_t at = 0;
  ATE_ASSIGN(const std::int64_t number, take_digits(text, at));
  if (at != text.size() || number == 0) {
    return bad(text, "is not a positive whole number");
  }
  return number;
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<Unit, 5> kUnits{{{"Pi", 1LL << 50},
                                        {"Ti", 1LL << 40},
                                        {"Gi", 1LL << 30},
                                        {"Mi", 1LL << 20},
                                        {"Ki", 1LL << 10}}};
  for (const Unit& unit : kUnits) {
    if (bytes != 0 && bytes % unit.factor == 0) {
      return std::to_string(bytes / unit.factor) + std::string(unit.suffix);
    }
  }
  return std::to_string(bytes);
}

std::string format_cpu(std::int64_t milli) {
  constexpr std::int64_t kWhole = 1000;
  return milli % kWhole == 0 ? std::to_string(milli / kWhole) : std::to_string(milli) + "m";
}

}  // namespace ate::core
