#include "fields.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ntpsim/core/nearest.h"

namespace ntpsim::scenario {
namespace {

bool within(double value, const Bounds& bounds) {
  if (bounds.or_zero && value == 0) return true;
  return value <= bounds.max && (bounds.above_min ? value > bounds.min : value >= bounds.min);
}

// "from 1 to 2", "above 0", "of at least 1", with the bounds written by `format`.
template <class Format>
std::string range_text(const Bounds& bounds, Format format) {
  const bool has_min = std::isfinite(bounds.min);
  const bool has_max = std::isfinite(bounds.max);
  if (has_min && has_max) {
    return fmt::format(" {} {} {} {}{}", bounds.above_min ? "above" : "from", format(bounds.min),
                       bounds.above_min ? "up to" : "to", format(bounds.max), bounds.or_zero ? " or 0" : "");
  }
  if (has_min) return fmt::format(" {} {}", bounds.above_min ? "above" : "of at least", format(bounds.min));
  return has_max ? fmt::format(" of at most {}", format(bounds.max)) : "";
}

// The most readable text that reads back as the same nanoseconds; 3.4 us rather than 3.4000000000000004 us.
std::string time_text(Time time) {
  constexpr double kNsPerSecond = 1e9;
  const std::string general = format_quantity(time.seconds(), Dimension::kTime);
  const std::string symbol = general.substr(general.find(' ') + 1);
  const auto unit = std::ranges::find(units_of(Dimension::kTime), symbol, &Unit::symbol);
  const double unit_ns = std::round(unit->factor * kNsPerSecond);
  const std::string text = fmt::format("{} {}", static_cast<double>(time.ns()) / unit_ns, symbol);
  const auto seconds = parse_quantity(text, Dimension::kTime);
  return seconds && Time::from_seconds(*seconds) == time ? text : general;
}

}  // namespace

void Reader::error(const std::string& pointer, std::string message) {
  diagnostics_.error(document_.origin_of(pointer), pointer, std::move(message));
  mark_bad(pointer);
}

void Reader::warning(const std::string& pointer, std::string message) {
  diagnostics_.warning(document_.origin_of(pointer), pointer, std::move(message));
}

bool Reader::good(std::initializer_list<std::string_view> pointers) const {
  return std::ranges::none_of(pointers, [this](std::string_view pointer) {
    return std::ranges::any_of(bad_, [pointer](const std::string& bad) {
      return is_within(pointer, bad) || is_within(bad, pointer);
    });
  });
}

std::string describe(const Json& json) {
  if (json.is_string()) return "text " + in_quotes(json.get_ref<const std::string&>());
  if (json.is_number()) return "the number " + dump(json);
  if (json.is_array()) return "a list";
  if (json.is_object()) return "an object";
  return dump(json);
}

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
  if (const auto near = nearest_name(name, known)) return fmt::format("; did you mean \"{}\"?", *near);
  return fmt::format("; known: {}", fmt::join(known, ", "));
}

void report_unknown_keys(const Json& object, const std::string& pointer,
                         std::span<const std::string_view> known, Reader& reader) {
  constexpr std::size_t kMostListed = 50;
  std::size_t unknown = 0;
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end() || ++unknown > kMostListed) continue;
    reader.error(child_pointer(pointer, key),
                 fmt::format("unknown key {}{}", in_quotes(key), suggestion(key, known)));
  }
  if (unknown > kMostListed) {
    reader.error(pointer, fmt::format("and {} more unknown keys", unknown - kMostListed));
  }
}

Kind<bool> boolean() {
  const std::string expected = "true or false";
  return {expected,
          {{"type", "boolean"}},
          [expected](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<bool> {
            if (json.is_boolean()) return json.get<bool>();
            reader.error(pointer, fmt::format("found {}, expected {}", describe(json), expected));
            return std::nullopt;
          },
          [](const bool& value) { return Json(value); }};
}

Kind<std::string> text() {
  return {"text",
          {{"type", "string"}},
          [](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<std::string> {
            if (json.is_string()) return json.get<std::string>();
            reader.error(pointer, fmt::format("found {}, expected text", describe(json)));
            return std::nullopt;
          },
          [](const std::string& value) { return Json(value); }};
}

bool is_name(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  std::size_t characters = 0;
  unsigned char last = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    // C0 and DEL; in UTF-8, the second half of C1 stands behind a C2.
    const bool control = byte < 0x20 || byte == 0x7f || (last == 0xC2 && byte >= 0x80 && byte < 0xA0);
    if (control) return false;
    if ((byte & 0xC0U) != 0x80U) ++characters;
    last = byte;
  }
  return characters >= 1 && characters <= kLongest;
}

Kind<std::string> name_text() {
  Kind<std::string> kind = text();
  kind.expected = "text of 1 to 200 characters without control characters";
  kind.schema["minLength"] = 1;
  kind.schema["maxLength"] = 200;
  kind.schema["pattern"] = R"(^[^\u0000-\u001f\u007f]*$)";
  kind.read = [any = text(), expected = kind.expected](const Json& json, const std::string& pointer,
                                                       Reader& reader) -> std::optional<std::string> {
    auto value = any.read(json, pointer, reader);
    if (!value || is_name(*value)) return value;
    reader.error(pointer, fmt::format("found {}, expected {}", describe(json), expected));
    return std::nullopt;
  };
  return kind;
}

Kind<std::int64_t> whole_number(std::int64_t min, std::int64_t max) {
  const std::string expected = fmt::format("a whole number from {} to {}", min, max);
  return {expected,
          {{"type", "integer"}, {"minimum", min}, {"maximum", max}},
          [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<std::int64_t> {
            constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
            const bool fits =
                json.is_number_integer() && (!json.is_number_unsigned() || json.get<std::uint64_t>() <= kMax);
            if (fits && json.get<std::int64_t>() >= min && json.get<std::int64_t>() <= max) {
              return json.get<std::int64_t>();
            }
            reader.error(pointer, fmt::format("found {}, expected {}", describe(json), expected));
            return std::nullopt;
          },
          [](const std::int64_t& value) { return Json(value); }};
}

Kind<std::uint64_t> word() {
  const std::string expected = "a whole number from 0 to 18446744073709551615";
  return {expected,
          // No maximum: validators that compute in doubles or signed words cannot hold it.
          {{"type", "integer"}, {"minimum", 0}},
          [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<std::uint64_t> {
            // Values that a program put in may be signed even when they are not negative.
            const bool fits =
                json.is_number_integer() && (json.is_number_unsigned() || json.get<std::int64_t>() >= 0);
            if (fits) return json.get<std::uint64_t>();
            reader.error(pointer, fmt::format("found {}, expected {}", describe(json), expected));
            return std::nullopt;
          },
          [](const std::uint64_t& value) { return Json(value); }};
}

Kind<double> real_number(Bounds bounds) {
  const std::string expected =
      "a number" + range_text(bounds, [](double value) { return fmt::format("{}", value); });
  Json schema = {{"type", "number"}};
  if (std::isfinite(bounds.min)) schema[bounds.above_min ? "exclusiveMinimum" : "minimum"] = bounds.min;
  if (std::isfinite(bounds.max)) schema["maximum"] = bounds.max;
  return {expected, schema,
          [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<double> {
            if (json.is_number() && within(json.get<double>(), bounds)) return json.get<double>();
            reader.error(pointer, fmt::format("found {}, expected {}", describe(json), expected));
            return std::nullopt;
          },
          [](const double& value) { return Json(value); }};
}

Kind<double> quantity_value(Dimension dimension, Bounds bounds) {
  const auto format = [dimension](double value) { return format_quantity(value, dimension); };
  const std::string expected = fmt::format("a {}{}, as in \"{}\"", name_of(dimension),
                                           range_text(bounds, format), example_of(dimension));
  const Json schema = {{"type", "string"},
                       {"pattern", pattern_of(dimension)},
                       {"examples", Json::array({std::string(example_of(dimension))})}};
  return {expected, schema,
          [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<double> {
            if (json.is_number()) {
              reader.error(pointer, fmt::format("found the bare number {}: append a unit, as in \"{}\"",
                                                dump(json), example_of(dimension)));
              return std::nullopt;
            }
            if (!json.is_string()) {
              reader.error(pointer, fmt::format("found {}, expected {}", describe(json), expected));
              return std::nullopt;
            }
            const auto value = parse_quantity(json.get_ref<const std::string&>(), dimension);
            if (value && within(*value, bounds)) return *value;
            // What is wrong with a long text cannot be told in a line.
            constexpr std::size_t kLongestTold = 80;
            const bool told = !value && json.get_ref<const std::string&>().size() <= kLongestTold;
            reader.error(pointer, told ? value.error()
                                       : fmt::format("found {}, expected {}", describe(json), expected));
            return std::nullopt;
          },
          [dimension](const double& value) { return Json(format_quantity(value, dimension)); }};
}

Kind<std::string> name_among(const std::string& what, std::vector<std::string_view> known) {
  const std::string expected = fmt::format("one of {}", fmt::join(known, ", "));
  Json names = Json::array();
  for (const std::string_view name : known) names.push_back(std::string(name));
  return {expected,
          {{"type", "string"}, {"enum", names}},
          [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<std::string> {
            if (!json.is_string()) {
              reader.error(pointer, fmt::format("found {}, expected {}", describe(json), expected));
              return std::nullopt;
            }
            const auto& name = json.get_ref<const std::string&>();
            if (std::ranges::find(known, name) != known.end()) return name;
            reader.error(pointer,
                         fmt::format("unknown {} {}{}", what, in_quotes(name), suggestion(name, known)));
            return std::nullopt;
          },
          [](const std::string& name) { return Json(name); }};
}

Kind<Time> time_span(Time min, Time max) {
  Kind<Time> kind = converted<Time>(
      quantity_value(Dimension::kTime, {.min = min.seconds(), .max = max.seconds()}),
      [](double seconds) { return Time::from_seconds(seconds); },
      [](const Time& time) { return time.seconds(); });
  kind.write = [](const Time& time) { return Json(time_text(time)); };
  return kind;
}

}  // namespace ntpsim::scenario
