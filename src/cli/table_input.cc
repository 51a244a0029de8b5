#include "table_input.h"

#include "ntpsim/analysis/default_table.h"
#include "ntpsim/scenario/model_table.h"
#include "ntpsim/scenario/text_file.h"

namespace ntpsim::cli {
namespace po = boost::program_options;

void add_table_options(po::options_description& options) {
  auto add = options.add_options();
  add("table", po::value<std::string>(),
      "CSV file of measured runs; - for standard input (default: the published runs built in)");
  add("models", po::value<std::string>(),
      "JSON file of models that the table names, in front of those of 'ntpsim list models'");
}

std::optional<std::string> option(const po::variables_map& values, const char* name) {
  if (!values.contains(name)) return std::nullopt;
  return values[name].as<std::string>();
}

namespace {

constexpr const char* kDefaultTable = "built-in table";

// Models of the file named, and those that are built in.
Result<scenario::ModelTable> read_models(const po::variables_map& values) {
  auto built_in = scenario::parse_model_table(analysis::default_models(), "built-in models");
  const auto file = option(values, "models");
  if (!file || !built_in) return built_in;
  auto models = scenario::load_model_table(*file);
  if (models) models->merge(*built_in);  // keeps what the file has
  return models;
}

}  // namespace

Result<analysis::ThroughputTable> read_table(const po::variables_map& values) {
  const auto models = read_models(values);
  if (!models) return tl::unexpected(models.error());
  const auto file = option(values, "table");
  if (!file) return analysis::parse_throughput_table(analysis::default_table(), kDefaultTable, *models);
  const auto text = scenario::read_text(*file);
  if (!text) return tl::unexpected(text.error());
  return analysis::parse_throughput_table(*text, *file, *models);
}

}  // namespace ntpsim::cli
