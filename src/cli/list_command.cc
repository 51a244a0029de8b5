#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ntpsim/analysis/table.h"
#include "ntpsim/core/nearest.h"
#include "ntpsim/models/distribution.h"
#include "ntpsim/models/hardware.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/sim/policy_table.h"

#include "command.h"
#include "options.h"

namespace ntpsim::cli {
namespace po = boost::program_options;
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSource = "source";

// A catalog as a list of JSON objects; text shows the same objects as a table, without the long source texts.
struct Listing {
  std::string_view name;
  Json (*entries)();
};

Json gpus() {
  Json list = Json::array();
  for (const models::GpuSpec& gpu : models::gpu_catalog()) {
    constexpr double kTera = 1e12;
    constexpr double kGiga = 1e9;
    list.push_back(
        {{"name", gpu.name},
         {"bf16_tflop_s", gpu.peak_bf16.value() / kTera},
         {"fp8_tflop_s", gpu.peak_fp8.value() / kTera},
         {"fp4_tflop_s", gpu.peak_fp4.value() / kTera},
         {"memory_gb", gpu.memory.value() / kGiga},
         {"memory_bandwidth_gb_s", gpu.memory_bandwidth.value() / kGiga},
         {"tdp_w", gpu.tdp.value()},
         {"boost_to_tdp", gpu.power_curve.empty() ? 1.0 : gpu.power_curve.max_power()},
         {"boosted_speed", gpu.power_curve.empty() ? 1.0 : gpu.power_curve.points().back().compute_speed},
         {kSource, gpu.source}});
  }
  return list;
}

Json systems() {
  Json list = Json::array();
  for (const models::SystemSpec& system : models::system_catalog()) {
    constexpr double kGiga = 1e9;
    list.push_back({{"name", system.name},
                    {"gpu", system.gpu.name},
                    {"domain_size", system.domain_size},
                    {"gpus_per_tray", system.gpus_per_tray},
                    {"nvlink_gb_s", system.nvlink_bandwidth.value() / kGiga},
                    {"nic_gb_s", system.nic_bandwidth.value() / kGiga},
                    {kSource, system.source}});
  }
  return list;
}

Json models_list() {
  Json list = Json::array();
  for (const models::TransformerSpec& model : models::model_catalog()) {
    constexpr double kGiga = 1e9;
    list.push_back({{"name", model.name},
                    {"parameters_billion", std::round(model.total_parameters() / kGiga * 10) / 10},
                    {"num_layers", model.num_layers},
                    {"hidden_size", model.hidden_size},
                    {"num_attention_heads", model.num_attention_heads},
                    {"num_query_groups", model.num_query_groups},
                    {"ffn_hidden_size", model.ffn_hidden_size},
                    {"num_experts", model.experts ? model.experts->num_experts : 0},
                    {kSource, model.source}});
  }
  return list;
}

Json policies() {
  Json list = Json::array();
  for (const sim::PolicyInfo& policy : sim::policy_table()) {
    list.push_back({{"name", policy.name}, {"description", policy.description}});
  }
  return list;
}

Json distributions() {
  Json list = Json::array();
  for (const models::FamilyInfo& family : models::distribution_families()) {
    list.push_back(
        {{"name", family.name}, {"shape_key", family.shape_parameter}, {"description", family.description}});
  }
  return list;
}

constexpr std::array kListings = {
    Listing{"gpus", gpus},
    Listing{"systems", systems},
    Listing{"models", models_list},
    Listing{"policies", policies},
    Listing{"distributions", distributions},
};

std::string cell(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() && value == 0) return "-";
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.dump();
}

std::string as_text(const Json& list) {
  std::vector<analysis::Table::Column> columns;
  for (const auto& [key, value] : list.front().items()) {
    if (key == kSource) continue;
    columns.push_back(
        {key, value.is_string() ? analysis::Table::Align::kLeft : analysis::Table::Align::kRight});
  }
  analysis::Table table(columns);
  for (const Json& entry : list) {
    std::vector<std::string> row;
    for (const auto& [key, value] : entry.items()) {
      if (key != kSource) row.push_back(cell(value));
    }
    table.add_row(std::move(row));
  }
  return table.to_string();
}

po::options_description list_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add("what", po::value<std::string>(), "gpus, systems, models, policies or distributions");
  add("format", po::value<std::string>()->default_value("text"), "text or json");
  add("help", po::bool_switch(), "this text");
  return options;
}

std::vector<std::string_view> listing_names() {
  std::vector<std::string_view> names;
  for (const Listing& listing : kListings) names.push_back(listing.name);
  return names;
}

std::string unknown_listing(const std::string& what) {
  const auto names = listing_names();
  const auto near = nearest_name(what, names);
  return fmt::format("found '{}', expected one of {}{}", what, fmt::join(names, ", "),
                     near ? fmt::format("; did you mean '{}'?", *near) : "");
}

}  // namespace

std::string list_help() {
  return fmt::format(
      "Usage: ntpsim list gpus|systems|models|policies|distributions [--format text|json]\n\n"
      "Prints a catalog: the names that scenarios may use. With --format json also the source of each "
      "figure.\n\n"
      "Example:\n"
      "  ntpsim list systems\n\n{}",
      fmt::streamed(list_options()));
}

ExitCode list_command(Arguments arguments) {
  const auto values = parse_options(arguments, list_options(), "what");
  if (!values) return usage_error("list", values.error());
  if ((*values)["help"].as<bool>()) return write_output(list_help());
  if (!values->contains("what")) {
    return usage_error("list", fmt::format("name what to list: {}", fmt::join(listing_names(), ", ")));
  }
  const auto what = (*values)["what"].as<std::string>();
  const auto* const listing = std::ranges::find(kListings, what, &Listing::name);
  if (listing == kListings.end()) return usage_error("list", unknown_listing(what));
  const auto format = (*values)["format"].as<std::string>();
  if (format != "text" && format != "json") {
    return usage_error("list", fmt::format("--format: found '{}', expected text or json", format));
  }
  const Json entries = listing->entries();
  return write_output(format == "json" ? entries.dump(2) + "\n" : as_text(entries));
}

}  // namespace ntpsim::cli
