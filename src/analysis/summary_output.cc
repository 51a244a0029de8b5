#include "summary_output.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ntpsim/analysis/table.h"

#include "text_format.h"

namespace ntpsim::analysis {
namespace {

using Json = nlohmann::ordered_json;
using Align = Table::Align;

Json json_of(const ErrorSummary& errors) {
  return {{"rows", errors.rows},
          {"mape", errors.mape},
          {"median_ape", errors.median_ape},
          {"worst", {{"id", errors.worst_id}, {"error", errors.worst_error}}},
          {"within_10_percent", errors.within_10_percent}};
}

void add_summary(Table& table, const std::string& name, const ErrorSummary& errors) {
  table.add_row({name, grouped(static_cast<std::int64_t>(errors.rows)), short_percent(errors.mape),
                 short_percent(errors.median_ape), short_percent(errors.within_10_percent),
                 signed_percent(errors.worst_error), errors.worst_id});
}

}  // namespace

std::string signed_percent(double ratio) {
  constexpr double kPercent = 100;
  return fmt::format("{:+.1f}%", kPercent * ratio);
}

std::string short_percent(double ratio) {
  constexpr double kPercent = 100;
  return fmt::format("{:.1f}%", kPercent * ratio);
}

std::string summary_text(const ValidationSummary& summary) {
  Table table({{"absolute error", Align::kLeft},
               {"rows"},
               {"mean"},
               {"median"},
               {"within 10%"},
               {"worst"},
               {"of", Align::kLeft}});
  add_summary(table, "all", summary.all);
  for (const ErrorGroup& group : summary.groups) add_summary(table, group.name, group.errors);
  if (summary.memory) add_summary(table, "memory", *summary.memory);
  return table.to_string();
}

nlohmann::ordered_json summary_json(const ValidationSummary& summary) {
  Json json = json_of(summary.all);
  Json groups = Json::object();
  for (const ErrorGroup& group : summary.groups) groups[group.name] = json_of(group.errors);
  json["by_group"] = std::move(groups);
  json["memory"] = summary.memory ? json_of(*summary.memory) : Json(nullptr);
  return json;
}

}  // namespace ntpsim::analysis
