#include "ntpsim/core/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ntpsim/core/invariant.h"
#include "ntpsim/core/nearest.h"

namespace ntpsim {
namespace {

constexpr double kDay = 86400;
constexpr double kKibi = 1024;

constexpr std::array kTimeUnits = {
    Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},    Unit{"s", 1},          Unit{"min", 60},
    Unit{"h", 3600},  Unit{"d", kDay},  Unit{"w", 7 * kDay}, Unit{"y", 365 * kDay},
};
constexpr std::array kByteUnits = {
    Unit{"B", 1},
    Unit{"kB", 1e3},
    Unit{"KiB", kKibi},
    Unit{"MB", 1e6},
    Unit{"MiB", kKibi* kKibi},
    Unit{"GB", 1e9},
    Unit{"GiB", kKibi* kKibi* kKibi},
    Unit{"TB", 1e12},
    Unit{"TiB", kKibi* kKibi* kKibi* kKibi},
};
constexpr std::array kBandwidthUnits = {
    Unit{"bit/s", 0.125},  Unit{"B/s", 1},     Unit{"kbit/s", 125},   Unit{"kB/s", 1e3},
    Unit{"Mbit/s", 125e3}, Unit{"MB/s", 1e6},  Unit{"Gbit/s", 125e6}, Unit{"GB/s", 1e9},
    Unit{"Tbit/s", 125e9}, Unit{"TB/s", 1e12},
};
constexpr std::array kPowerUnits = {Unit{"W", 1}, Unit{"kW", 1e3}, Unit{"MW", 1e6}};
constexpr std::array kFlopRateUnits = {Unit{"FLOP/s", 1}, Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12},
                                       Unit{"PFLOP/s", 1e15}};
constexpr std::array kRateUnits = {Unit{"/y", 1 / (365 * kDay)}, Unit{"/d", 1 / kDay}, Unit{"/h", 1.0 / 3600},
                                   Unit{"/s", 1}};

struct DimensionInfo {
  std::string_view name;
  std::string_view example;
  std::span<const Unit> units;
};

const DimensionInfo& info_of(Dimension dimension) {
  static constexpr std::array kInfos = {
      DimensionInfo{"time", "5 d", kTimeUnits},
      DimensionInfo{"size", "189 GB", kByteUnits},
      DimensionInfo{"bandwidth", "400 Gbit/s", kBandwidthUnits},
      DimensionInfo{"power", "1.2 kW", kPowerUnits},
      DimensionInfo{"compute rate", "989 TFLOP/s", kFlopRateUnits},
      DimensionInfo{"rate", "0.17 /y", kRateUnits},
  };
  return kInfos.at(static_cast<std::size_t>(dimension));
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string unit_list(const DimensionInfo& info) {
  std::vector<std::string_view> symbols;
  for (const Unit& unit : info.units) symbols.push_back(unit.symbol);
  return fmt::format("{}", fmt::join(symbols, ", "));
}

// What people write that no edit distance finds: spelled-out time units, and "Gb/s" or "Gbps", which mean
// bits to network people where the nearest spelling would be bytes, eight times as many.
std::string spelled_out(std::string_view symbol, const DimensionInfo& info) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kLongNames = {
      {{"sec", "s"}, {"min", "min"}, {"hour", "h"}, {"day", "d"}, {"week", "w"}, {"year", "y"}}};
  std::string full(symbol);
  for (const auto& [name, unit] : kLongNames) {
    if (symbol.starts_with(name)) full = unit;
  }
  for (const std::string_view bits : {"b/s", "bps"}) {
    if (symbol.ends_with(bits)) full = std::string(symbol.substr(0, symbol.size() - bits.size())) + "bit/s";
  }
  const bool known = std::ranges::find(info.units, full, &Unit::symbol) != info.units.end();
  return known ? full : std::string(symbol);
}

std::string unit_error(std::string_view symbol, const DimensionInfo& info) {
  std::vector<std::string_view> symbols;
  for (const Unit& unit : info.units) symbols.push_back(unit.symbol);
  const std::string meant = spelled_out(symbol, info);
  const auto near = nearest_name(meant, symbols);
  return fmt::format("unknown {} unit '{}'{}; the units are {}", info.name, symbol,
                     near ? fmt::format(", did you mean '{}'?", *near) : "", unit_list(info));
}

}  // namespace

std::span<const Unit> units_of(Dimension dimension) {
  return info_of(dimension).units;
}
std::string_view name_of(Dimension dimension) {
  return info_of(dimension).name;
}
std::string_view example_of(Dimension dimension) {
  return info_of(dimension).example;
}

std::string pattern_of(Dimension dimension) {
  std::vector<std::string_view> symbols;
  for (const Unit& unit : units_of(dimension)) symbols.push_back(unit.symbol);
  return fmt::format(R"(^[ \t]*-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?[ \t]*({})[ \t]*$)",
                     fmt::join(symbols, "|"));
}

tl::expected<double, std::string> parse_quantity(std::string_view text, Dimension dimension) {
  const DimensionInfo& info = info_of(dimension);
  const std::string_view body = trimmed(text);
  double number = 0;
  // from_chars also takes "inf" and "nan", which are no quantities of ours, so a digit must come first.
  const std::size_t digit_at = body.starts_with('-') ? 1 : 0;
  const bool starts_with_digit = digit_at < body.size() && body[digit_at] >= '0' && body[digit_at] <= '9';
  const auto parsed = std::from_chars(body.data(), body.data() + body.size(), number);
  if (!starts_with_digit || parsed.ec == std::errc::invalid_argument) {
    return tl::unexpected(
        fmt::format("'{}' is no {}: write a number and a unit, as in \"{}\"", text, info.name, info.example));
  }
  if (parsed.ec == std::errc::result_out_of_range || !std::isfinite(number)) {
    return tl::unexpected(fmt::format("'{}' is out of range for a {}", text, info.name));
  }
  const std::string_view symbol = trimmed(body.substr(static_cast<std::size_t>(parsed.ptr - body.data())));
  if (symbol.empty()) {
    return tl::unexpected(
        fmt::format("'{}' has no unit: append one of {}, as in \"{}\"", text, unit_list(info), info.example));
  }
  const auto unit = std::ranges::find(info.units, symbol, &Unit::symbol);
  if (unit == info.units.end()) return tl::unexpected(unit_error(symbol, info));
  const double value = number * unit->factor;
  const bool fits_time = dimension != Dimension::kTime || std::abs(value) < 9.2e9;
  if (!std::isfinite(value) || !fits_time) {
    return tl::unexpected(fmt::format("'{}' is out of range for a {}", text, info.name));
  }
  return value;
}

std::string format_quantity(double si_value, Dimension dimension) {
  const std::span<const Unit> units = units_of(dimension);
  // Weeks, years and bits are accepted but read less well than days and bytes.
  const auto shown = [](const Unit& unit) {
    return unit.symbol != "w" && unit.symbol != "y" && unit.symbol.find("bit") == std::string_view::npos &&
           unit.symbol.find("iB") == std::string_view::npos;
  };
  const double magnitude = std::abs(si_value);
  const Unit* best = nullptr;
  for (const Unit& unit : units) {
    if (!shown(unit) && dimension != Dimension::kRate) continue;
    if (best == nullptr || magnitude >= unit.factor) best = &unit;
  }
  invariant(best != nullptr, "every dimension has a unit to show");
  if (magnitude == 0 && dimension == Dimension::kTime) return "0 s";
  const double number = si_value / best->factor;
  if (number * best->factor == si_value) return fmt::format("{} {}", number, best->symbol);
  const auto base = std::ranges::find(units, 1.0, &Unit::factor);
  invariant(base != units.end(), "every dimension has its SI base unit");
  return fmt::format("{} {}", si_value, base->symbol);
}

std::string to_string(Time time) {
  return format_quantity(time.seconds(), Dimension::kTime);
}

}  // namespace ntpsim
