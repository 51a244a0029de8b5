#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ntpsim/analysis/calibration.h"
#include "ntpsim/analysis/table.h"

#include "csv.h"
#include "json_head.h"
#include "summary_output.h"

namespace ntpsim::analysis {
namespace {

using Json = nlohmann::ordered_json;
using Align = Table::Align;

std::string calibration_json(const Calibration& calibration) {
  Json json = json_head();
  json["table"] = calibration.table;
  Json parameters = Json::array();
  for (const Parameter& parameter : calibration.parameters) {
    parameters.push_back({{"name", parameter.name},
                          {"value", parameter.value},
                          {"catalog", parameter.catalog},
                          {"rows", parameter.rows}});
  }
  json["parameters"] = std::move(parameters);
  json["summary"] = summary_json(calibration.summary);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string calibration_csv(const Calibration& calibration) {
  static const std::vector<std::string> header = {"parameter", "value", "catalog", "rows"};
  std::string text = csv_line(header);
  for (const Parameter& parameter : calibration.parameters) {
    const std::vector<std::string> cells = {parameter.name, fmt::format("{}", parameter.value),
                                            fmt::format("{}", parameter.catalog),
                                            fmt::format("{}", parameter.rows)};
    text += csv_line(cells);
  }
  return text;
}

std::string calibration_text(const Calibration& calibration) {
  Table table({{"parameter", Align::kLeft}, {"fitted"}, {"catalog"}, {"rows"}});
  for (const Parameter& parameter : calibration.parameters) {
    table.add_row({parameter.name, fmt::format("{:.4g}", parameter.value),
                   fmt::format("{:.4g}", parameter.catalog), fmt::format("{}", parameter.rows)});
  }
  return fmt::format(
      "Efficiencies fitted to one half of the configurations of {}, newest containers\n\n{}\n{}",
      calibration.table, table.to_string(), summary_text(calibration.summary));
}

}  // namespace

std::string render(const Calibration& calibration, Format format) {
  switch (format) {
    case Format::kJson:
      return calibration_json(calibration);
    case Format::kCsv:
      return calibration_csv(calibration);
    case Format::kText:
      break;
  }
  return calibration_text(calibration);
}

}  // namespace ntpsim::analysis
