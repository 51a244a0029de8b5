#include "ntpsim/core/time.h"

#include <cmath>

#include "ntpsim/core/invariant.h"

namespace ntpsim {
namespace {
constexpr double kNsPerSecond = 1e9;
// The largest double below 2^63: converting anything up to it to int64 is defined.
constexpr double kMaxNs = 9223372036854774784.0;
}  // namespace

Time Time::from_seconds(double seconds) {
  const double ns = std::round(seconds * kNsPerSecond);
  invariant(std::abs(ns) <= kMaxNs, "a Time must lie within +-292 years");
  return Time(static_cast<std::int64_t>(ns));
}

Time Time::from_seconds_saturated(double seconds) {
  invariant(!std::isnan(seconds), "a Time cannot be NaN");
  return seconds * kNsPerSecond > kMaxNs ? max() : from_seconds(seconds);
}

}  // namespace ntpsim
