#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace ntpsim {

/// An instant of simulated time, or a span of it, as a signed count of whole nanoseconds.
///
/// Range: +-292 years. The simulator never rounds time except where a model's real number becomes a `Time`
/// (`from_seconds`), so sums of spans are exact and a ledger can be asserted to the nanosecond.
class Time {
 public:
  constexpr Time() = default;

  static constexpr Time from_ns(std::int64_t ns) { return Time(ns); }

  /// Rounds to the nearest nanosecond. REQUIRES: `seconds` is not NaN and lies within the range of `Time`.
  static Time from_seconds(double seconds);

  /// Like `from_seconds`, but anything past the range (infinity included) becomes `max()`: "never".
  static Time from_seconds_saturated(double seconds);

  /// The last instant; used as "never".
  static constexpr Time max() { return Time(std::numeric_limits<std::int64_t>::max()); }

  [[nodiscard]] constexpr std::int64_t ns() const { return ns_; }
  [[nodiscard]] constexpr double seconds() const { return static_cast<double>(ns_) / 1e9; }

  constexpr auto operator<=>(const Time&) const = default;

  constexpr Time& operator+=(Time other) { return ns_ += other.ns_, *this; }
  constexpr Time& operator-=(Time other) { return ns_ -= other.ns_, *this; }
  friend constexpr Time operator+(Time a, Time b) { return Time(a.ns_ + b.ns_); }
  friend constexpr Time operator-(Time a, Time b) { return Time(a.ns_ - b.ns_); }
  friend constexpr Time operator*(Time a, std::int64_t factor) { return Time(a.ns_ * factor); }
  /// How many whole spans `b` fit into `a`. REQUIRES: b is not zero.
  friend constexpr std::int64_t operator/(Time a, Time b) { return a.ns_ / b.ns_; }
  friend constexpr Time operator%(Time a, Time b) { return Time(a.ns_ % b.ns_); }

 private:
  explicit constexpr Time(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_ = 0;
};

}  // namespace ntpsim
