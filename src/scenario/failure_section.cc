#include <algorithm>

#include <fmt/format.h>

#include "sections.h"

namespace ntpsim::scenario {
namespace {

using models::Distribution;
using models::FamilyInfo;
using models::Scope;

// The range in which means and quantiles of a family stay far from overflow.
Bounds shape_bounds(Distribution::Family family) {
  return family == Distribution::Family::kLognormal ? Bounds{.min = 0.01, .max = 3}
                                                    : Bounds{.min = 0.2, .max = 20};
}

// Spans between failures and of repairs: short enough ones would make a run endless.
constexpr double kMinSpan = 1;

const Section<Observed>& observed_section() {
  using T = Observed;
  static const Section<T> section{
      "Observed interruptions",
      "How often a real cluster was interrupted in all; classes can take shares or causes of it.",
      {{"interruptions", &T::interruptions, whole_number(1, kMaxCount), "Interruptions counted.",
        Example{419}},
       {"duration", &T::duration_s, quantity_value(Dimension::kTime, {.min = kMinSpan}), "Over how long.",
        Example{"54 d"}},
       {"gpus", &T::gpus, whole_number(1, kMaxGpus), "On how many GPUs.", Example{16384}}}};
  return section;
}

// ---- distributions: one table per family, since each names its shape in its own way

enum class MeanKey : unsigned char { kAbsent, kPresent };

Section<DistributionDoc> family_section(const FamilyInfo& info, MeanKey mean) {
  using T = DistributionDoc;
  const std::string name(info.name);
  Section<T> section{
      name,
      std::string(info.description),
      {{"family", &T::family, choice<Distribution::Family>("family", {{info.name, info.family}}),
        "The family of distributions."}}};
  if (mean == MeanKey::kPresent) {
    section.fields.emplace_back("mean", &T::mean_s, quantity_value(Dimension::kTime, {.min = kMinSpan}),
                                "The mean.");
  }
  if (!info.shape_parameter.empty()) {
    section.fields.emplace_back(std::string(info.shape_parameter), &T::shape,
                                real_number(shape_bounds(info.family)), "Its shape.", Example{0.8});
  }
  return section;
}

Kind<DistributionDoc> distribution_object(MeanKey mean) {
  std::vector<std::pair<std::string_view, Section<DistributionDoc>>> sections;
  std::vector<Json> schemas;
  for (const FamilyInfo& info : models::distribution_families()) {
    sections.emplace_back(info.name, family_section(info, mean));
    schemas.push_back(sections.back().second.schema());
  }
  const auto family_name = name_among("distribution", names_in(models::distribution_families()));
  return {
      "a distribution", any_of(schemas),
      [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<DistributionDoc> {
        const std::string family_pointer = child_pointer(pointer, "family");
        if (!json.contains("family")) {
          reader.error(family_pointer, "missing; expected " + family_name.expected);
          return std::nullopt;
        }
        const auto name = family_name.read(json["family"], family_pointer, reader);
        if (!name) return std::nullopt;
        DistributionDoc doc;
        std::ranges::find(sections, *name, [](const auto& entry) {
          return entry.first;
        })->second.read(json, pointer, doc, reader);
        return doc;
      },
      [=](const DistributionDoc& doc) {
        return std::ranges::find(sections, models::info_of(doc.family).name,
                                 [](const auto& entry) { return entry.first; })
            ->second.write(doc);
      }};
}

// A lifetime: its mean is given elsewhere, so a family without a shape can go by its name.
Kind<DistributionDoc> lifetime_kind() {
  std::vector<std::string_view> names;
  for (const FamilyInfo& info : models::distribution_families()) {
    if (info.shape_parameter.empty()) names.push_back(info.name);
  }
  const auto named = name_among("distribution", names);
  const auto any_name = name_among("distribution", names_in(models::distribution_families()));
  const auto configured = distribution_object(MeanKey::kAbsent);
  const std::string expected =
      R"(a distribution, as in "exponential" or {"family": "weibull", "shape": 0.8})";
  return {
      expected, any_of({named.schema, configured.schema}),
      [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<DistributionDoc> {
        if (json.is_object()) return configured.read(json, pointer, reader);
        if (!json.is_string()) {
          reader.error(pointer, fmt::format("found {}, expected {}", describe(json), expected));
          return std::nullopt;
        }
        const auto name = any_name.read(json, pointer, reader);
        if (!name) return std::nullopt;
        const auto family = models::find_family(*name).value();
        const std::string_view shape = models::info_of(family).shape_parameter;
        if (shape.empty()) return DistributionDoc{.family = family};
        reader.error(pointer, fmt::format(R"(found {0}, which needs its {1}: {{"family": {0}, "{1}": 0.8}})",
                                          dump(json), shape));
        return std::nullopt;
      },
      configured.write};
}

// A repair time, or none. The constant one goes by its mean alone.
Kind<std::optional<DistributionDoc>> repair_kind() {
  const auto constant = quantity_value(Dimension::kTime, {.min = kMinSpan});
  const auto configured = distribution_object(MeanKey::kPresent);
  using Repair = std::optional<DistributionDoc>;
  const Json none = {{"type", "string"}, {"enum", {"none"}}};
  const std::string expected =
      R"("none", a time as in "5 d", or {"family": "lognormal", "mean": "5 d", "sigma": 0.8})";
  return {expected, any_of({none, constant.schema, configured.schema}),
          [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<Repair> {
            if (json == "none") return Repair();
            if (json.is_object()) return configured.read(json, pointer, reader);
            const auto mean = constant.read(json, pointer, reader);
            if (!mean) return std::nullopt;
            return DistributionDoc{.family = Distribution::Family::kConstant, .mean_s = *mean};
          },
          [=](const Repair& repair) { return repair ? configured.write(*repair) : Json("none"); }};
}

// ---- classes

Kind<Scope> scope() {
  std::vector<std::pair<std::string_view, Scope>> options;
  for (const Scope each : {Scope::kGpu, Scope::kTray, Scope::kDomain}) {
    options.emplace_back(models::to_string(each), each);
  }
  return choice<Scope>("component", options);
}

Kind<std::map<std::string, std::int64_t>> causes_kind() {
  using Causes = std::map<std::string, std::int64_t>;
  const auto count = whole_number(0, kMaxCount);
  return {R"(counts by cause, as in {"Faulty GPU": 148})",
          {{"type", "object"}, {"additionalProperties", count.schema}, {"maxProperties", kMaxCauses}},
          [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<Causes> {
            if (!json.is_object()) {
              reader.error(pointer, fmt::format("found {}, expected counts by cause", describe(json)));
              return std::nullopt;
            }
            if (json.size() > kMaxCauses) {
              reader.error(pointer,
                           fmt::format("found {} causes, expected at most {}", json.size(), kMaxCauses));
              return std::nullopt;
            }
            Causes causes;
            for (const auto& [cause, value] : json.items()) {
              causes[cause] = count.read(value, child_pointer(pointer, cause), reader).value_or(0);
            }
            return causes;
          },
          [](const Causes& causes) { return Json(causes); }};
}

const Section<FailureClassDoc>& failure_class_section() {
  using T = FailureClassDoc;
  const auto exactly_one_rate = [] {
    Json alternatives = Json::array();
    for (const char* key : {"mean_time_between_failures", "rate", "share", "causes"}) {
      alternatives.push_back({{"required", Json::array({key})}});
    }
    return Json{{"oneOf", alternatives}};
  };
  static const Section<T> section{
      "Failure class",
      "One way in which hardware or software fails. How often: exactly one of mean_time_between_failures, "
      "rate, "
      "share and causes.",
      {{"name", &T::name, name_text(), "Name in results, unique.", Example{"GPU hardware"}},
       {"component", &T::component, scope(), "What fails.", Default{"gpu"}},
       {"blast_radius", &T::blast_radius, scope(),
        "What leaves service with it, at least the component. Default: the component."},
       {"mean_time_between_failures", &T::mean_time_between_failures_s,
        quantity_value(Dimension::kTime, {.min = kMinSpan}), "Of one unit of the component.", Example{"5 y"}},
       {"rate", &T::rate_per_s,
        quantity_value(Dimension::kRate, {.min = 0, .max = 1 / kMinSpan, .above_min = true}),
        "Failures of one unit of the component.", Example{"0.17 /y"}},
       {"share", &T::share, real_number({.min = 1e-9, .max = 1}), "Fraction of the observed interruptions.",
        Example{0.78}},
       {"causes", &T::causes, causes_kind(), "Counts among the observed interruptions, by cause."},
       {"distribution", &T::distribution, lifetime_kind(),
        "How the lives of one unit spread around their mean.", Default{"exponential"}},
       {"repair_time", &T::repair_time, repair_kind(),
        "How long what failed stays out of service. none: it is back at once; the job is interrupted only.",
        Default{"none"}}},
      exactly_one_rate()};
  return section;
}

}  // namespace

const Section<FailuresDoc>& failures_section() {
  using T = FailuresDoc;
  using sim::InitialAge;
  static const Section<T> section{
      "Failures",
      "How the cluster fails. Every unit of a class is a renewal process of its own.",
      {{"observed", &T::observed, object(observed_section()),
        "Interruptions of a real cluster, for classes with a share or causes."},
       {"initial_age", &T::initial_age,
        choice<InitialAge>("initial age",
                           {{"stationary", InitialAge::kStationary}, {"new", InitialAge::kNew}}),
        "At the start, units are in the middle of their lives, or new.", Default{"stationary"}},
       {"classes", &T::classes, list_of(object(failure_class_section()), 0, kMaxClasses),
        "The ways of failing.", Default{Json::array()}}}};
  return section;
}

}  // namespace ntpsim::scenario
