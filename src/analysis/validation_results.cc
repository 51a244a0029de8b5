#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ntpsim/analysis/table.h"
#include "ntpsim/analysis/validation.h"
#include "ntpsim/core/version.h"

#include "csv.h"
#include "json_head.h"
#include "run_groups.h"
#include "summary_output.h"
#include "text_format.h"

namespace ntpsim::analysis {
namespace {

using Json = nlohmann::ordered_json;
using Align = Table::Align;

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const ComparedRun& each) {
  const ThroughputRow& row = each.run.stated;
  return {{"id", row.id},
          {"measured_step_s", each.measured_step_s},
          {"predicted_step_s", each.predicted_step_s},
          {"error", each.error()},
          {"group", kind_of(each)},
          {"half", to_string(each.half)},
          {"model", row.model},
          {"system", row.system},
          {"simulated_system", each.run.system.name},
          {"generation", generation_name(each)},
          {"precision", models::to_string(row.precision)},
          {"gpus", row.gpus},
          {"gbs", row.gbs},
          {"seq", row.seq},
          {"measured_memory_gib", optional_json(row.peak_mem_gib)},
          {"predicted_memory_gib", each.predicted_memory_gib},
          {"memory_error", optional_json(each.memory_error())},
          {"source", row.source}};
}

Json json_of(const BaselineCheck& check) {
  Json moved = Json::array();
  for (const MovedRow& row : check.moved) {
    moved.push_back({{"id", row.id},
                     {"baseline_step_s", row.stored_s},
                     {"predicted_step_s", row.predicted_s},
                     {"change", row.change()}});
  }
  return {{"file", check.file},     {"version", check.version},  {"tolerance", check.tolerance},
          {"holds", check.holds()}, {"moved", std::move(moved)}, {"missing", check.missing},
          {"added", check.added}};
}

std::string validation_json(const Validation& validation) {
  Json json = json_head();
  json["table"] = validation.table;
  json["command"] = validation.command;
  json["newest_containers_only"] = validation.newest_only;
  Json rows = Json::array();
  for (const ComparedRun& each : validation.runs) rows.push_back(json_of(each));
  json["rows"] = std::move(rows);
  json["summary"] = summary_json(validation.summary);
  json["baseline"] = validation.baseline ? json_of(*validation.baseline) : Json(nullptr);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string number(double value) {
  return fmt::format("{}", value);
}

std::string optional_number(const std::optional<double>& value) {
  return value ? number(*value) : "";
}

std::string validation_csv(const Validation& validation) {
  static const std::vector<std::string> header = {"id",
                                                  "group",
                                                  "half",
                                                  "model",
                                                  "system",
                                                  "precision",
                                                  "gpus",
                                                  "measured_step_s",
                                                  "predicted_step_s",
                                                  "error_ratio",
                                                  "measured_memory_gib",
                                                  "predicted_memory_gib",
                                                  "memory_error_ratio"};
  std::string text = csv_line(header);
  for (const ComparedRun& each : validation.runs) {
    const ThroughputRow& row = each.run.stated;
    const std::vector<std::string> cells = {row.id,
                                            std::string(kind_of(each)),
                                            std::string(to_string(each.half)),
                                            row.model,
                                            row.system,
                                            std::string(models::to_string(row.precision)),
                                            number(static_cast<double>(row.gpus)),
                                            number(each.measured_step_s),
                                            number(each.predicted_step_s),
                                            number(each.error()),
                                            optional_number(row.peak_mem_gib),
                                            number(each.predicted_memory_gib),
                                            optional_number(each.memory_error())};
    text += csv_line(cells);
  }
  return text;
}

std::string rows_text(std::span<const ComparedRun> runs) {
  Table table({{"row", Align::kLeft}, {"half", Align::kLeft}, {"measured"}, {"predicted"}, {"error"}});
  for (const ComparedRun& each : runs) {
    table.add_row({each.run.stated.id, std::string(to_string(each.half)),
                   fmt::format("{:.4f} s", each.measured_step_s),
                   fmt::format("{:.4f} s", each.predicted_step_s), signed_percent(each.error())});
  }
  return table.to_string();
}

std::string baseline_text(const BaselineCheck& check) {
  const std::string name = fmt::format("\nBaseline {} (version {})", check.file, check.version);
  if (check.holds()) {
    return fmt::format("{}: every prediction within {}.\n", name, percent(check.tolerance));
  }
  return fmt::format("{}: {} rows moved by more than {}, {} missing, {} added.\n", name, check.moved.size(),
                     percent(check.tolerance), check.missing.size(), check.added.size());
}

std::string validation_text(const Validation& validation) {
  std::string text = fmt::format("Step times of {}{}\n\n", validation.table,
                                 validation.newest_only ? ", newest container of each configuration" : "");
  text += rows_text(validation.runs) + "\n" + summary_text(validation.summary);
  text +=
      "\nThe efficiencies of GPUs and number formats are fitted to rows marked fitted; the others played no "
      "part.\nA row's half follows from its configuration alone (docs/validate.md). Memory is not fitted.\n";
  text += fmt::format("Reproduce with version {} ({}): {}\n", version(), git_revision(), validation.command);
  if (validation.baseline) text += baseline_text(*validation.baseline);
  return text;
}

}  // namespace

std::string render(const Validation& validation, Format format) {
  switch (format) {
    case Format::kJson:
      return validation_json(validation);
    case Format::kCsv:
      return validation_csv(validation);
    case Format::kText:
      break;
  }
  return validation_text(validation);
}

}  // namespace ntpsim::analysis
