#pragma once

#include <compare>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "ntpsim/core/time.h"

namespace ntpsim {

/// A real number with a dimension. Same-dimension arithmetic only; crossing dimensions is spelled out with
/// `value()`, so a formula shows where it does so.
template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  /// In the SI base unit of the dimension (byte, byte/s, watt, FLOP/s, 1/s).
  explicit constexpr Quantity(double value) : value_(value) {}
  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator*(Quantity a, double factor) { return Quantity(a.value_ * factor); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }

 private:
  double value_ = 0;
};

using Bytes = Quantity<struct BytesTag>;
using Bandwidth = Quantity<struct BandwidthTag>;  ///< bytes per second, one direction
using Power = Quantity<struct PowerTag>;          ///< watts
using FlopRate = Quantity<struct FlopRateTag>;    ///< floating point operations per second
using Rate = Quantity<struct RateTag>;            ///< events per second

/// The dimensions that text can carry.
enum class Dimension : unsigned char { kTime, kBytes, kBandwidth, kPower, kFlopRate, kRate };

struct Unit {
  std::string_view symbol;
  double factor;  ///< how many SI base units one of it is
};

/// The units that text of this dimension may use, smallest first.
[[nodiscard]] std::span<const Unit> units_of(Dimension dimension);

/// What a person calls the dimension: "time", "bandwidth", ...
[[nodiscard]] std::string_view name_of(Dimension dimension);

/// An example for messages and schemas: "5 d", "400 Gbit/s", ...
[[nodiscard]] std::string_view example_of(Dimension dimension);

/// A regular expression (ECMA 262, as JSON Schema uses) that accepts just the texts `parse_quantity` does,
/// up to the number's range.
[[nodiscard]] std::string pattern_of(Dimension dimension);

/// Reads "400 Gbit/s": a finite decimal number, optional blanks, a unit of the dimension. Gives the value in
/// SI base units, or a sentence that says what is wrong and what to write instead.
[[nodiscard]] tl::expected<double, std::string> parse_quantity(std::string_view text, Dimension dimension);

/// Text that `parse_quantity` reads back as exactly this value: in the largest unit that keeps the number at
/// 1 or above, or in the SI base unit where that unit's factor would round.
[[nodiscard]] std::string format_quantity(double si_value, Dimension dimension);

/// `format_quantity` for a `Time`.
[[nodiscard]] std::string to_string(Time time);

}  // namespace ntpsim
