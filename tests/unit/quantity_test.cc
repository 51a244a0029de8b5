#include "ntpsim/core/quantity.h"

#include <array>
#include <cstddef>
#include <initializer_list>
#include <regex>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace ntpsim {
namespace {

constexpr std::array kDimensions = {Dimension::kTime,  Dimension::kBytes,    Dimension::kBandwidth,
                                    Dimension::kPower, Dimension::kFlopRate, Dimension::kRate};

double parsed(std::string_view text, Dimension dimension) {
  const auto value = parse_quantity(text, dimension);
  REQUIRE_MESSAGE(value.has_value(), text);
  return *value;
}

std::string error_of(std::string_view text, Dimension dimension) {
  const auto value = parse_quantity(text, dimension);
  REQUIRE_MESSAGE(!value.has_value(), text);
  return value.error();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("text with a unit becomes SI base units") {
  struct Case {
    std::string_view text;
    Dimension dimension;
    double value;
  };
  const std::initializer_list<Case> cases = {
      {"5 d", Dimension::kTime, 432000},
      {"90 min", Dimension::kTime, 5400},
      {"2 w", Dimension::kTime, 1209600},
      {"1 y", Dimension::kTime, 31536000},
      {"30 s", Dimension::kTime, 30},
      {"1.5 h", Dimension::kTime, 5400},
      {"250 ms", Dimension::kTime, 0.25},
      {"4 us", Dimension::kTime, 4e-6},
      {"4 ns", Dimension::kTime, 4e-9},
      {"189 GB", Dimension::kBytes, 189e9},
      {"80 GiB", Dimension::kBytes, 80.0 * 1024 * 1024 * 1024},
      {"1 TiB", Dimension::kBytes, 1024.0 * 1024 * 1024 * 1024},
      {"400 Gbit/s", Dimension::kBandwidth, 50e9},
      {"900 GB/s", Dimension::kBandwidth, 900e9},
      {"8 bit/s", Dimension::kBandwidth, 1},
      {"1.2 kW", Dimension::kPower, 1200},
      {"120 MW", Dimension::kPower, 120e6},
      {"989 TFLOP/s", Dimension::kFlopRate, 989e12},
      {"10 PFLOP/s", Dimension::kFlopRate, 1e16},
      {"365 /y", Dimension::kRate, 1.0 / 86400},
      {"24 /d", Dimension::kRate, 1.0 / 3600},
      {"3600 /h", Dimension::kRate, 1},
      {"7 /s", Dimension::kRate, 7},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(parsed(c.text, c.dimension) == doctest::Approx(c.value).epsilon(1e-15));
  }
}

TEST_CASE("numbers may be written in any decimal way, with or without blanks around") {
  for (const std::string_view text : {"1500 ms", "1500ms", "  1500 ms ", "1500\tms", "1.5e3 ms", "1.5E+3ms",
                                      "15000e-1 ms", "1500. ms", "1500.0 ms"}) {
    CAPTURE(text);
    CHECK(parsed(text, Dimension::kTime) == 1.5);
  }
  CHECK(parsed("-3 s", Dimension::kTime) == -3);
  CHECK(parsed("0 s", Dimension::kTime) == 0);
}

TEST_CASE("a missing unit is named, with what to append") {
  const std::string message = error_of("400", Dimension::kBandwidth);
  CHECK(contains(message, "'400' has no unit"));
  CHECK(contains(message, "Gbit/s"));
  CHECK(contains(message, "400 Gbit/s"));
}

TEST_CASE("an unknown unit is named, with the nearest one and all of them") {
  const std::string message = error_of("400 Gbits/s", Dimension::kBandwidth);
  CHECK(contains(message, "'Gbits/s'"));
  CHECK(contains(message, "did you mean 'Gbit/s'"));
  CHECK(contains(message, "TB/s"));
  CHECK(contains(error_of("3 fortnights", Dimension::kTime), "unknown time unit 'fortnights'"));
}

TEST_CASE("a unit of another dimension is refused") {
  for (const Dimension dimension : kDimensions) {
    for (const Dimension other : kDimensions) {
      if (dimension == other) continue;
      const auto value = parse_quantity(example_of(other), dimension);
      CAPTURE(example_of(other));
      CAPTURE(name_of(dimension));
      CHECK_FALSE(value.has_value());
    }
  }
}

TEST_CASE("units are case sensitive, so that milli is not mega") {
  CHECK_FALSE(parse_quantity("1 mW", Dimension::kPower).has_value());
  CHECK_FALSE(parse_quantity("1 gb", Dimension::kBytes).has_value());
  CHECK_FALSE(parse_quantity("1 S", Dimension::kTime).has_value());
}

TEST_CASE("text that is no finite decimal number is refused with an example") {
  for (const std::string_view text : {"", " ", "s", "inf s", "nan s", "-inf s", "-nan s", "infinity s",
                                      ".5 s", "-.5 s", "+5 s", "- 5 s", "--5 s", "five s"}) {
    CAPTURE(text);
    CHECK(contains(error_of(text, Dimension::kTime), "5 d"));
  }
  for (const std::string_view text :
       {"1,5 s", "0x10 s", "1 000 s", "5 s s", "5 s;", "1_000 s", "5e s", "1.2.3 s"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_quantity(text, Dimension::kTime).has_value());
  }
}

TEST_CASE("numbers out of range are refused, never infinite") {
  CHECK(contains(error_of("1e400 s", Dimension::kTime), "out of range"));
  CHECK(contains(error_of("-1e400 s", Dimension::kTime), "out of range"));
  CHECK(contains(error_of("1e300 TB", Dimension::kBytes), "out of range"));
  CHECK(contains(error_of("300 y", Dimension::kTime), "out of range"));
  CHECK(contains(error_of("-300 y", Dimension::kTime), "out of range"));
  CHECK(parsed("291 y", Dimension::kTime) == 291.0 * 365 * 86400);
  CHECK(parsed("1e20 B", Dimension::kBytes) == 1e20);
}

TEST_CASE("text with a zero byte or of great length is refused, not misread") {
  CHECK_FALSE(parse_quantity(std::string_view("5 d\0", 4), Dimension::kTime).has_value());
  CHECK_FALSE(parse_quantity("5 " + std::string(100'000, 'd'), Dimension::kTime).has_value());
}

TEST_CASE("units of every dimension ascend and include its SI base unit") {
  for (const Dimension dimension : kDimensions) {
    CAPTURE(name_of(dimension));
    double last = 0;
    bool has_base = false;
    for (const Unit& unit : units_of(dimension)) {
      CHECK(unit.factor > last);
      last = unit.factor;
      has_base = has_base || unit.factor == 1;
    }
    CHECK(has_base);
  }
}

TEST_CASE("every example is accepted by its own dimension") {
  for (const Dimension dimension : kDimensions) CHECK(parsed(example_of(dimension), dimension) > 0);
}

TEST_CASE("the schema's pattern accepts just what is parsed") {
  for (const Dimension dimension : kDimensions) {
    const std::regex pattern(pattern_of(dimension), std::regex::ECMAScript);
    for (const Unit& unit : units_of(dimension)) {
      const std::string symbol(unit.symbol);
      // U stands for the unit.
      for (std::string text : {"5 U", "5U", "1.5e1 U", "5. U", " 5\tU ", "-5 U", "+5 U", ".5 U", "5e U",
                               "inf U", "nan U", "0x1 U", "1,5 U", "5 Us", "5 U U", "5", "U", ""}) {
        for (std::size_t at = text.find('U'); at != std::string::npos;
             at = text.find('U', at + symbol.size())) {
          text.replace(at, 1, symbol);
        }
        CAPTURE(text);
        CHECK(std::regex_search(text, pattern) == parse_quantity(text, dimension).has_value());
      }
    }
  }
}

TEST_CASE("values are shown in the largest unit that reads well") {
  CHECK(format_quantity(432000, Dimension::kTime) == "5 d");
  CHECK(format_quantity(5400, Dimension::kTime) == "1.5 h");
  CHECK(format_quantity(90, Dimension::kTime) == "1.5 min");
  CHECK(format_quantity(0.25, Dimension::kTime) == "250 ms");
  CHECK(format_quantity(0, Dimension::kTime) == "0 s");
  CHECK(format_quantity(-432000, Dimension::kTime) == "-5 d");
  CHECK(format_quantity(50e9, Dimension::kBandwidth) == "50 GB/s");
  CHECK(format_quantity(189e9, Dimension::kBytes) == "189 GB");
  CHECK(format_quantity(1200, Dimension::kPower) == "1.2 kW");
  CHECK(format_quantity(989e12, Dimension::kFlopRate) == "989 TFLOP/s");
  CHECK(format_quantity(parsed("0.17 /y", Dimension::kRate), Dimension::kRate) == "0.17 /y");
  CHECK(to_string(Time::from_seconds(1800)) == "30 min");
}

TEST_CASE("shown text reads back as exactly the same value") {
  for (const Dimension dimension : kDimensions) {
    for (const Unit& unit : units_of(dimension)) {
      for (int hundredths = 1; hundredths < 500; ++hundredths) {
        const double value = hundredths * 0.01 * unit.factor;
        const std::string text = format_quantity(value, dimension);
        CAPTURE(text);
        CHECK(parsed(text, dimension) == value);
      }
    }
  }
}

TEST_CASE("quantities of one dimension add, subtract, scale, divide and compare") {
  const Bytes a(6e9);
  const Bytes b(2e9);
  CHECK((a + b).value() == 8e9);
  CHECK((a - b).value() == 4e9);
  CHECK((a * 0.5).value() == 3e9);
  CHECK(a / b == 3);
  CHECK(a > b);
  CHECK(Bytes() == Bytes(0));
}

}  // namespace
}  // namespace ntpsim
