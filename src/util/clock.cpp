#include "ate/util/clock.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace ate {

WallTime SystemClock::wall() const {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

SteadyTime SystemClock::steady() const {
  return std::chrono::steady_clock::now();
}

std::string format_rfc3339(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day ymd(day);
  const std::chrono::hh_mm_ss hms(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", int(ymd.year()),
                     unsigned(ymd.month()), unsigned(ymd.day()), hms.hours().count(),
                     hms.minutes().count(), hms.seconds().count(), hms.subseconds().count());
}

WallTime parse_rfc3339(const std::string& text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  int millis = 0;
  // Every number is bounded by its width, so none can overflow.
  // NOLINTNEXTLINE(cert-err34-c)
  if (std::sscanf(text.c_str(), "%4d-%2u-%2uT%2d:%2d:%2d.%3dZ", &year, &month, &day, &hour, &minute,
                  &second, &millis) != 7) {
    return WallTime{};
  }
  const std::chrono::sys_days date =
      std::chrono::year(year) / std::chrono::month(month) / std::chrono::day(day);
  return WallTime(date.time_since_epoch() + std::chrono::hours(hour) +
                  std::chrono::minutes(minute) + std::chrono::seconds(second) +
                  std::chrono::milliseconds(millis));
}

}  // namespace ate
