#include <fmt/format.h>
#include <fmt/ostream.h>

#include "ntpsim/analysis/calibration.h"

#include "command.h"
#include "options.h"
#include "table_input.h"

namespace ntpsim::cli {
namespace po = boost::program_options;
namespace {

constexpr const char* kVerb = "calibrate";

po::options_description calibrate_options() {
  po::options_description options("Options");
  add_table_options(options);
  auto add = options.add_options();
  add("format", po::value<std::string>()->default_value("text"), "text, json or csv");
  add("quiet", po::bool_switch(), "no warnings");
  add("help", po::bool_switch(), "this text");
  return options;
}

// Of each configuration the newest container, as in validate --latest.
std::vector<analysis::MeasuredRun> newest_runs(const analysis::ThroughputTable& table) {
  std::vector<analysis::MeasuredRun> runs;
  for (const analysis::ComparedRun& each : analysis::newest_of(analysis::compare(table.runs))) {
    runs.push_back(each.run);
  }
  return runs;
}

}  // namespace

std::string calibrate_help() {
  return fmt::format(
      "Usage: ntpsim calibrate [--table FILE.csv] [--models FILE.json] [options]\n\n"
      "Fits the efficiencies of GPU generations and number formats to one half of a table's configurations "
      "(of each "
      "the\nnewest container), and shows the errors on both halves. docs/validate.md says how.\n\n"
      "Example:\n"
      "  ntpsim calibrate --table runs.csv --format json\n\n{}",
      fmt::streamed(calibrate_options()));
}

ExitCode calibrate_command(Arguments arguments) {
  const auto values = parse_options(arguments, calibrate_options(), "table");
  if (!values) return usage_error(kVerb, values.error());
  if ((*values)["help"].as<bool>()) return write_output(calibrate_help());
  const auto format = read_format(*values);
  if (!format) return usage_error(kVerb, format.error());
  const auto table = read_table(*values);
  if (!table) {
    print_diagnostics(table.error());
    return ExitCode::kBadInput;
  }
  if (!(*values)["quiet"].as<bool>()) print_diagnostics(table->warnings);
  return write_output(render(analysis::calibrate(table->file, newest_runs(*table)), *format));
}

}  // namespace ntpsim::cli
