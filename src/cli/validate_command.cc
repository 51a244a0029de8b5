#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "ntpsim/analysis/validation.h"
#include "ntpsim/scenario/text_file.h"

#include "command.h"
#include "options.h"
#include "table_input.h"

namespace ntpsim::cli {
namespace po = boost::program_options;
namespace {

using analysis::BaselineCheck;
using analysis::ThroughputTable;

constexpr const char* kVerb = "validate";

po::options_description validate_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add_table_options(options);
  add("format", po::value<std::string>()->default_value("text"), "text, json or csv");
  add("latest", po::bool_switch(), "only the newest container of each configuration");
  add("baseline", po::value<std::string>(),
      "file of --write-baseline; fail when a row's prediction is not the one stored there");
  add("tolerance", po::value<std::string>()->default_value("0.5%"),
      "by how much a prediction may move from the baseline");
  add("write-baseline", po::value<std::string>(), "write the predictions of all rows to this file");
  add("quiet", po::bool_switch(), "no warnings");
  add("help", po::bool_switch(), "this text");
  return options;
}

// "0.5%" or "0.005" as 0.005.
std::optional<double> read_tolerance(std::string text) {
  double scale = 1;
  if (text.ends_with('%')) {
    constexpr double kPercent = 100;
    text.pop_back();
    scale = kPercent;
  }
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(value) || value < 0)
    return std::nullopt;
  return value / scale;
}

Result<analysis::Baseline> read_baseline(const std::string& file) {
  const auto text = scenario::read_text(file);
  if (!text) return tl::unexpected(text.error());
  return analysis::parse_baseline(*text, file);
}

// Says on standard error what is not as in the baseline.
void report(const BaselineCheck& check) {
  Diagnostics errors;
  for (const analysis::MovedRow& row : check.moved) {
    errors.error(check.file, "",
                 fmt::format("moved: {}: {} s stored, {} s predicted, {:+.2f}%", row.id, row.stored_s,
                             row.predicted_s, 100 * row.change()));
  }
  for (const std::string& id : check.missing) {
    errors.error(check.file, "", fmt::format("missing: {}: stored, but not in the table", id));
  }
  for (const std::string& id : check.added) {
    errors.error(check.file, "", fmt::format("added: {}: in the table, but not stored", id));
  }
  print_diagnostics(errors);
}

// What to type for the same rows.
std::string command_of(const po::variables_map& values) {
  std::string command = "ntpsim validate";
  for (const char* name : {"table", "models"}) {
    if (const auto file = option(values, name)) command += fmt::format(" --{} {}", name, *file);
  }
  return command + (values["latest"].as<bool>() ? " --latest" : "");
}

// Prints the comparison of a table, and compares and writes baselines, which cover all of its rows.
ExitCode validate(const po::variables_map& values, const ThroughputTable& table,
                  const std::optional<analysis::Baseline>& baseline, double tolerance,
                  analysis::Format format) {
  analysis::Validation validation;
  validation.table = table.file;
  validation.command = command_of(values);
  validation.newest_only = values["latest"].as<bool>();
  const std::vector<analysis::ComparedRun> runs = analysis::compare(table.runs);
  validation.runs = validation.newest_only ? analysis::newest_of(runs) : runs;
  validation.summary = analysis::summarize(validation.runs);
  if (baseline) validation.baseline = analysis::check_baseline(runs, *baseline, tolerance);

  const ExitCode printed = write_output(render(validation, format));
  if (printed != ExitCode::kOk) return printed;
  if (const auto file = option(values, "write-baseline")) {
    const ExitCode written = write_file(*file, analysis::baseline_json(runs));
    if (written != ExitCode::kOk) return written;
  }
  if (!validation.baseline || validation.baseline->holds()) return ExitCode::kOk;
  report(*validation.baseline);
  return ExitCode::kFailed;
}

}  // namespace

std::string validate_help() {
  return fmt::format(
      "Usage: ntpsim validate [--table FILE.csv] [--models FILE.json] [options]\n\n"
      "Predicts the step time of every training run of a table and compares it with what was measured: "
      "every row, and\nthe errors of those that the efficiencies were fitted to apart from those unseen. "
      "docs/validate.md has the columns.\n\n"
      "Examples:\n"
      "  ntpsim validate --latest\n"
      "  ntpsim validate --table runs.csv --models models.json --format json\n"
      "  ntpsim validate --baseline data/validation/baseline.json --tolerance 0.5%\n\n{}",
      fmt::streamed(validate_options()));
}

ExitCode validate_command(Arguments arguments) {
  const auto values = parse_options(arguments, validate_options(), "table");
  if (!values) return usage_error(kVerb, values.error());
  if ((*values)["help"].as<bool>()) return write_output(validate_help());
  const auto format = read_format(*values);
  if (!format) return usage_error(kVerb, format.error());
  const auto tolerance_text = (*values)["tolerance"].as<std::string>();
  const auto tolerance = read_tolerance(tolerance_text);
  if (!tolerance) {
    return usage_error(kVerb,
                       fmt::format("--tolerance: found '{}', expected a share such as 0.5%", tolerance_text));
  }

  Diagnostics errors;
  std::optional<analysis::Baseline> baseline;
  if (const auto file = option(*values, "baseline")) {
    auto read = read_baseline(*file);
    if (read) {
      baseline = *std::move(read);
    } else {
      errors.append(read.error());
    }
  }
  const auto table = read_table(*values);
  if (!table) errors.append(table.error());
  if (errors.has_errors()) {
    print_diagnostics(errors);
    return ExitCode::kBadInput;
  }
  if (!(*values)["quiet"].as<bool>()) print_diagnostics(table->warnings);
  return validate(*values, *table, baseline, *tolerance, *format);
}

}  // namespace ntpsim::cli
