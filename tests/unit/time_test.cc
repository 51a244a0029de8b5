#include "ntpsim/core/time.h"

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <doctest/doctest.h>

#include "aborts.h"

namespace ntpsim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kYearNs = 365LL * 86400 * 1'000'000'000;

TEST_CASE("a Time starts at zero and keeps whole nanoseconds") {
  CHECK(Time().ns() == 0);
  CHECK(Time::from_ns(-7).ns() == -7);
  CHECK(Time::from_ns(1'500'000'000).seconds() == 1.5);
  for (const std::int64_t seconds : {3LL, 86'400LL, 259'200LL, 365LL * 86'400}) {
    CHECK(Time::from_ns(seconds * 1'000'000'000).seconds() == static_cast<double>(seconds));
  }
}

TEST_CASE("seconds are rounded to the nearest nanosecond, halves away from zero") {
  CHECK(Time::from_seconds(1e-9).ns() == 1);
  CHECK(Time::from_seconds(1.4e-9).ns() == 1);
  CHECK(Time::from_seconds(1.6e-9).ns() == 2);
  CHECK(Time::from_seconds(0.5e-9).ns() == 1);
  CHECK(Time::from_seconds(0.4e-9).ns() == 0);
  CHECK(Time::from_seconds(-0.5e-9).ns() == -1);
  CHECK(Time::from_seconds(-2.6e-9).ns() == -3);
  CHECK(Time::from_seconds(0.1).ns() == 100'000'000);
  CHECK(Time::from_seconds(86400.0 * 365).ns() == kYearNs);
}

TEST_CASE("whole nanoseconds survive the way through seconds as long as a double holds them") {
  for (const std::int64_t ns : {1LL, 999'999'999LL, 1'000'000'001LL, 123'456'789'012'345LL}) {
    CHECK(Time::from_seconds(Time::from_ns(ns).seconds()).ns() == ns);
    CHECK(Time::from_seconds(Time::from_ns(-ns).seconds()).ns() == -ns);
  }
}

TEST_CASE("the range reaches 292 years either way") {
  CHECK(Time::from_seconds(292.0 * 365 * 86400).ns() == 292 * kYearNs);
  CHECK(Time::from_seconds(-292.0 * 365 * 86400).ns() == -292 * kYearNs);
}

TEST_CASE("seconds out of range break an invariant, unless saturated") {
  CHECK(testing::aborts([] { (void)Time::from_seconds(9.3e9); }));
  CHECK(testing::aborts([] { (void)Time::from_seconds(-9.3e9); }));
  CHECK(testing::aborts([] { (void)Time::from_seconds(kInfinity); }));
  CHECK(testing::aborts([] { (void)Time::from_seconds(std::nan("")); }));
  CHECK(testing::aborts([] { (void)Time::from_seconds_saturated(std::nan("")); }));
  CHECK_FALSE(testing::aborts([] { (void)Time::from_seconds(9.2e9); }));
}

TEST_CASE("saturated seconds past the range mean never") {
  CHECK(Time::from_seconds_saturated(9.3e9) == Time::max());
  CHECK(Time::from_seconds_saturated(1e300) == Time::max());
  CHECK(Time::from_seconds_saturated(kInfinity) == Time::max());
  CHECK(Time::from_seconds_saturated(2.5).ns() == 2'500'000'000);
  CHECK(Time::from_seconds_saturated(9.2e9) == Time::from_seconds(9.2e9));
}

TEST_CASE("never is later than any other instant") {
  CHECK(Time::max() > Time::from_seconds(9.2e9));
  CHECK(Time::max().ns() == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("arithmetic is exact") {
  const Time a = Time::from_ns(9'007'199'254'740'993);  // 2^53 + 1: a double cannot hold it
  CHECK((a + Time::from_ns(1)).ns() == 9'007'199'254'740'994);
  CHECK((a - Time::from_ns(9'007'199'254'740'990)).ns() == 3);
  CHECK((a * 3).ns() == 27'021'597'764'222'979);
  Time sum;
  for (int i = 0; i < 10; ++i) sum += Time::from_seconds(0.1);
  CHECK(sum == Time::from_seconds(1));
  sum -= Time::from_seconds(0.25);
  CHECK(sum.ns() == 750'000'000);
}

TEST_CASE("division counts whole spans and leaves a remainder") {
  const Time day = Time::from_seconds(86400);
  const Time interval = Time::from_seconds(1800);
  CHECK(day / interval == 48);
  CHECK(day % interval == Time());
  const Time later = day + Time::from_ns(1);
  CHECK(later / interval == 48);
  CHECK((later % interval).ns() == 1);
  CHECK(interval * (later / interval) + later % interval == later);
}

TEST_CASE("instants are ordered") {
  CHECK(Time::from_ns(-1) < Time());
  CHECK(Time::from_ns(2) >= Time::from_ns(2));
  CHECK(Time::from_ns(2) != Time::from_ns(3));
}

}  // namespace
}  // namespace ntpsim
